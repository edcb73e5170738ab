/*
 * What the VM does not look at. See interrupts_mask.h.
 *
 * A context has a word of flags, which senders set, and a mask of those that are not to be looked at. The VM itself masks jobs
 * and traps while it runs jobs. Read in vm_core.h and thread.c of 2.7 to 4.1.
 *
 * The place (context.interrupts) is where a bit in the mask makes what is sent stay a flag.
 */

#include "tracee/vm/interrupts_mask.h"

#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/interrupts_queue.h"
#include "tracee/vm/layout.h"
#include "tracee/vm/thread_layout.h"

/* vm_core.h */
#define PENDING 0x02u
#define JOB 0x04u
#define TRAP 0x08u
#define ALL 0x3fu

/*
 * Jobs, too: the application's finalizers run in one, and at their end the VM takes PENDING out of the mask, whoever has put it
 * there (finalize_deferred() in gc.c of 3.1 to 4.1).
 */
#define HELD (PENDING | JOB | TRAP)

#define ATTEMPTS 3
#define BAD_MOMENTS_MAX 200u
#define FIRST_WORD 3 /* before are the VM stack, its size and the frame */

static unsigned attempts, bad_moments;

static _Atomic uint32_t *words_at(size_t word)
{
	return (_Atomic uint32_t *)(void *)(thread_running_context(rb_thread_current()) + word);
}

static bool looks_right(const _Atomic uint32_t *words)
{
	return !(atomic_load(&words[0]) & ~ALL) && !(atomic_load(&words[1]) & ~ALL);
}

static VALUE send_to_itself(VALUE sent)
{
	return builtin_call1(BUILTIN_THREAD_RAISE, rb_thread_current(), sent);
}

/* Interrupts wait already, or are held back: so the VM does while finalizers run, in which jobs may. */
static bool is_bad_moment(const _Atomic uint32_t *words)
{
	return (atomic_load(&words[0]) | atomic_load(&words[1])) & PENDING;
}

/* What is at this word is written to, and put back. */
static bool stays_flagged(VALUE sent, _Atomic uint32_t *words)
{
	uint32_t before = atomic_load(&words[1]);
	long waiting = interrupts_queue_length();
	bool flagged;
	int failed = 0;

	atomic_store(&words[1], before | PENDING);
	rb_protect(send_to_itself, sent, &failed);
	if (failed)
		exception_drop(Qnil);
	flagged = atomic_load(&words[0]) & PENDING;
	if (interrupts_queue_take(sent) && flagged && interrupts_queue_length() == waiting)
		atomic_fetch_and(&words[0], ~PENDING);
	atomic_store(&words[1], before);
	return flagged;
}

static VALUE make_exception(VALUE exception_class)
{
	return builtin_exception(exception_class, "rbprobe");
}

bool interrupts_mask_find(VALUE exception_class)
{
	volatile VALUE sent;
	bool is_bad = false;
	int failed = 0;

	attempts++;
	layout_not_found(LAYOUT_CONTEXT_INTERRUPTS, "no word of a context held back the exception that was sent");
	if (!thread_layout_find() || interrupts_queue_length() < 0)
		return false;
	sent = rb_protect(make_exception, exception_class, &failed);
	if (failed)
		exception_drop(Qnil);
	for (size_t i = FIRST_WORD;
	     !failed && i < layout_value(LAYOUT_CONTEXT_THREAD) && !layout_is_known(LAYOUT_CONTEXT_INTERRUPTS); i++) {
		if (!looks_right(words_at(i)))
			continue;
		if (is_bad_moment(words_at(i)))
			is_bad = true;
		else if (stays_flagged(sent, words_at(i)))
			layout_found(LAYOUT_CONTEXT_INTERRUPTS, i);
	}
	if (interrupts_mask_is_known() || !is_bad || bad_moments == BAD_MOMENTS_MAX)
		return false;
	bad_moments++;
	attempts--;
	return true;
}

bool interrupts_mask_is_decided(void)
{
	return attempts == ATTEMPTS || interrupts_mask_is_known();
}

bool interrupts_mask_is_known(void)
{
	return layout_is_known(LAYOUT_CONTEXT_INTERRUPTS);
}

struct interrupts_mask interrupts_mask_begin(void)
{
	struct interrupts_mask mask = {0};

	if (!interrupts_mask_is_known())
		return mask;
	mask.words = words_at(layout_value(LAYOUT_CONTEXT_INTERRUPTS));
	mask.before = atomic_load_explicit(&mask.words[1], memory_order_relaxed);
	mask.flagged = atomic_load_explicit(&mask.words[0], memory_order_relaxed) & PENDING;
	mask.waiting = interrupts_queue_length();
	atomic_store_explicit(&mask.words[1], mask.before | HELD, memory_order_relaxed);
	return mask;
}

/*
 * A handle_interrupt of ours sets the flag where interrupts wait. If nothing else has come, it is taken away: the VM may be
 * delivering the first of several. It asks that for its `exception`, and would deliver the next one at the end of that call: the
 * first one would be lost.
 */
void interrupts_mask_end(const struct interrupts_mask *mask)
{
	if (!mask->words)
		return;
	if (!mask->flagged && mask->waiting && interrupts_queue_length() == mask->waiting)
		atomic_fetch_and_explicit(&mask->words[0], ~PENDING, memory_order_relaxed);
	atomic_store_explicit(&mask->words[1], mask->before, memory_order_relaxed);
}

VALUE interrupts_mask_protect(VALUE (*run)(VALUE), VALUE argument, int *failed)
{
	struct interrupts_mask mask = interrupts_mask_begin();
	VALUE value = rb_protect(run, argument, failed);

	interrupts_mask_end(&mask);
	return value;
}

void interrupts_mask_admit(const struct interrupts_mask *mask)
{
	if (mask->words)
		atomic_store_explicit(&mask->words[1], mask->before, memory_order_relaxed);
}

void interrupts_mask_admit_end(const struct interrupts_mask *mask)
{
	if (mask->words)
		atomic_store_explicit(&mask->words[1], mask->before | HELD, memory_order_relaxed);
}

bool interrupts_mask_trap_runs(const struct interrupts_mask *mask)
{
	return mask->words && atomic_load_explicit(&mask->words[1], memory_order_relaxed) & ~mask->before & TRAP;
}
