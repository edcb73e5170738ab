#ifndef RBPROBE_OWN_WORK_H
#define RBPROBE_OWN_WORK_H

#include <ruby.h>
#include <stdint.h>

/*
 * Which frames of a thread are rbprobe's: its work runs on top of whatever the application does there, and any thread that gets
 * the GVL meanwhile may look at the stack. Whoever does such work notes how many frames there are before it begins. Main Ractor,
 * GVL held; nothing is allocated, nothing raises.
 */

/* Lives on the stack of who works, until own_work_end(). */
struct own_work {
	VALUE thread;
	uintptr_t context;     /* of the fiber; 0: not known */
	int frames;            /* that are the application's, as rb_profile_frames() counts; -1: more than were counted */
	VALUE innermost;       /* of these */
	int line;              /* its */
	struct own_work *next; /* that began before */
};

/* function: of who works, which calls this. */
void own_work_begin(struct own_work *work, uintptr_t function);
/* A function within which is our work alone, and that calls no method of Ruby's outside of what own_work_begin() has noted. */
void own_work_note(uintptr_t function);
/*
 * Where such a function ends: it keeps its frame while the call before runs. A compiler may otherwise jump there, and what was
 * called would be nobody's.
 */
#define OWN_WORK_KEEP_FRAME() __asm__ volatile("")
/* Also after own_work_fork_child(). */
void own_work_end(struct own_work *work);

/*
 * How many of the innermost frames of a thread are rbprobe's: of those that rb_profile_frames() gives for it now. limit: how many
 * were asked for. -1: that is not known; there are some.
 */
int own_work_frames(VALUE thread, const VALUE *frames, const int *lines, int count, int limit);

/* Functions that have done such work: who reads native stacks from outside finds them there. Returns how many, at most max. */
unsigned own_work_functions(uintptr_t *functions, unsigned max);

/* In a forked child: other threads are gone, and their stacks with them. */
void own_work_fork_child(void);

#endif
