#ifndef RBPROBE_INTERRUPTS_MASK_H
#define RBPROBE_INTERRUPTS_MASK_H

#include <ruby.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * What the VM does not look at for a while, in the running fiber's context: interrupts (Thread#raise, Thread#kill), signals'
 * traps, and jobs. They stay where they are, in their order, and are seen at the next look after the end: nothing is sent again.
 * Unlike Thread.handle_interrupt it has no frame, and allocates nothing. Context: job and event, GVL held. Raises nothing.
 */

struct interrupts_mask {
	_Atomic uint32_t *words; /* the context's flags and, behind them, its mask; NULL: not known, and nothing is held back */
	uint32_t before;         /* the mask */
	bool flagged;            /* the VM was going to look for interrupts */
	long waiting;            /* how many there were */
};

/*
 * Looks for the place, by an exception of this class that it sends to the running thread and takes away again. After
 * interrupts_queue_find(), and like that with all interrupts held back by interrupts_deferred(). True: this thread tells nothing
 * now, as interrupts wait, or its finalizers run.
 */
bool interrupts_mask_find(VALUE exception_class);

/* Whether it was found or is not there to be found; and whether it was found. */
bool interrupts_mask_is_decided(void);
bool interrupts_mask_is_known(void);

struct interrupts_mask interrupts_mask_begin(void);

/* In the same fiber. */
void interrupts_mask_end(const struct interrupts_mask *mask);

/*
 * rb_protect() between these two: for what calls methods of Ruby's own in an event. Each looks for interrupts when it ends, and
 * one that came before is lost in an rb_protect().
 */
VALUE interrupts_mask_protect(VALUE (*run)(VALUE), VALUE argument, int *failed);

static inline bool interrupts_mask_holds(const struct interrupts_mask *mask)
{
	return mask->words != NULL;
}

/*
 * Between these, the VM looks at everything again, for code that may block. Where it does not look at traps no Mutex can be
 * locked, and where it does not look at interrupts a thread may go to sleep though it has been woken. In the same fiber.
 */
void interrupts_mask_admit(const struct interrupts_mask *mask);
void interrupts_mask_admit_end(const struct interrupts_mask *mask);

/* Meanwhile, whether a trap runs, or a job. Any thread. */
bool interrupts_mask_trap_runs(const struct interrupts_mask *mask);

#endif
