#ifndef RBPROBE_TRACEE_WAITING_H
#define RBPROBE_TRACEE_WAITING_H

/*
 * Whether the main thread may be woken. Waking it ends the system call that it waits in, with EINTR; most that Ruby makes by
 * itself it begins again, with the time that is left. Some it does not, and what an extension calls comes back to that with a
 * failure, or with less than was asked for. waiting.c has the list.
 */
enum waiting {
	WAITING_NOT,       /* it runs: it looks for jobs by itself */
	WAITING_WAKE,      /* in a call of Ruby's, which goes on afterwards as if nothing had been */
	WAITING_WAKE_LOCK, /* likewise, and it is a futex's, which begins again by itself behind a signal */
	WAITING_ALONE,     /* in a call that would be cut short, or perhaps */
};

/*
 * Looks up what the next needs: where the VM and libc are. Takes the loader's lock, allocates nothing. Any thread that may call
 * dlopen; once is enough, and before waiting_where().
 */
void waiting_init(void);

/* Before Init, on the thread on which the loader calls. */
void waiting_note_start(void);

/* Finds the methods that read and write without beginning again. Init, GVL held; raises nothing. */
void waiting_learn(void);

/* What the main thread does now. From another native thread of the process, without any lock. */
enum waiting waiting_where(void);

#endif
