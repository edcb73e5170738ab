/*
 * Evaluations with a time limit. See evaluation.h.
 *
 * The writer thread notices that a limit has passed and rings the bell; the job has a short-lived Ruby thread raise an exception of
 * ours in the thread that evaluates. (The job cannot do that itself: it may run on that very thread, where the VM catches what a job
 * raises.) An exception on its way must not hit the application's own code: once one has been sent, evaluate() does not return before it
 * has arrived.
 */

#include "evaluation.h"

#include "core.h"
#include "fiber.h"
#include "interrupts.h"
#include "own.h"
#include "proto/clock.h"
#include "quiet.h"

#include <stdatomic.h>

struct evaluation {
	VALUE (*run)(VALUE);
	VALUE argument;
	VALUE thread;
	VALUE value;     /* what run returned, */
	int failed;      /* or how it ended otherwise: a state of rb_protect, */
	VALUE error;     /* and what rb_errinfo() said */
	VALUE exception; /* Qnil until it is overdue */
	bool sent;       /* it has been raised in the thread, or cannot be */
	const void *owner;
	bool ended; /* by evaluation_end() */
	uint64_t deadline_ns;
	struct evaluation *next;
};

static struct {
	struct evaluation *running;   /* on the stacks of their threads; under the GVL */
	_Atomic uint64_t earliest_ns; /* their earliest deadline, UINT64_MAX for none */
	VALUE exception_class;
} evaluations = {.earliest_ns = UINT64_MAX};

void evaluation_init(void)
{
	own_register(&evaluations.exception_class); /* first: it allocates, and may collect */
	evaluations.exception_class = rb_class_new(rb_eException);
}

static void update_earliest(void)
{
	uint64_t earliest = UINT64_MAX;

	for (struct evaluation *evaluation = evaluations.running; evaluation; evaluation = evaluation->next)
		if (NIL_P(evaluation->exception) && evaluation->deadline_ns < earliest)
			earliest = evaluation->deadline_ns;
	atomic_store_explicit(&evaluations.earliest_ns, earliest, memory_order_relaxed);
}

bool evaluation_overdue(void)
{
	uint64_t earliest = atomic_load_explicit(&evaluations.earliest_ns, memory_order_relaxed);

	return earliest != UINT64_MAX && clock_now_ns() > earliest;
}

static VALUE raise_protected(VALUE argument)
{
	const struct evaluation *evaluation = (const struct evaluation *)argument;

	fiber_own_begin();
	return core_call1(CORE_THREAD_RAISE, evaluation->thread, evaluation->exception);
}

/* The evaluation is there until it is told that this is done. */
static VALUE raise_in(void *argument)
{
	struct evaluation *evaluation = argument;
	int failed = 0;

	rb_protect(raise_protected, (VALUE)evaluation, &failed);
	if (failed)
		rb_set_errinfo(Qnil);
	evaluation->sent = true;
	return Qnil;
}

static VALUE create_raiser(VALUE argument)
{
	VALUE thread = rb_thread_create(raise_in, (void *)argument);

	quiet_thread(thread);
	return thread;
}

void evaluation_cancel_overdue(void)
{
	uint64_t now = clock_now_ns();

	for (struct evaluation *evaluation = evaluations.running; evaluation; evaluation = evaluation->next) {
		int failed = 0;

		if (!NIL_P(evaluation->exception) || now <= evaluation->deadline_ns)
			continue;
		evaluation->exception = core_exception(evaluations.exception_class, "rbprobe: time limit of an expression");
		rb_protect(create_raiser, (VALUE)evaluation, &failed);
		if (failed) {
			rb_set_errinfo(Qnil);
			evaluation->sent = true;
		}
	}
	update_earliest();
}

void evaluation_end(const void *owner)
{
	for (struct evaluation *evaluation = evaluations.running; evaluation; evaluation = evaluation->next) {
		if (evaluation->owner != owner)
			continue;
		evaluation->ended = true;
		evaluation->deadline_ns = 0;
	}
	update_earliest();
}

static VALUE wait_for_interrupt(VALUE unused)
{
	struct timeval pause = {.tv_usec = 1000};

	(void)unused;
	rb_thread_wait_for(pause);
	return Qnil;
}

static void leave(struct evaluation *evaluation)
{
	struct evaluation **link = &evaluations.running;

	while (*link != evaluation)
		link = &(*link)->next;
	*link = evaluation->next;
	update_earliest();
}

/* The user's code, with everything it does to end itself kept in `evaluation`. */
static VALUE run_protected(VALUE argument)
{
	struct evaluation *evaluation = (struct evaluation *)argument;

	evaluation->value = rb_protect(evaluation->run, evaluation->argument, &evaluation->failed);
	for (;;) {
		bool sent = evaluation->sent;

		evaluation->error = evaluation->failed ? rb_errinfo() : Qnil;
		if (NIL_P(evaluation->exception) || evaluation->error == evaluation->exception)
			return Qnil;
		/* Our exception is on its way: it must not reach the application. */
		evaluation->failed = 0;
		rb_protect(wait_for_interrupt, Qnil, &evaluation->failed);
		/* What had been sent before has arrived by now, or the code has rescued it. */
		if (sent && !evaluation->failed) {
			evaluation->error = evaluation->exception;
			evaluation->failed = 1;
			return Qnil;
		}
	}
}

static VALUE run_deferring(VALUE argument)
{
	return interrupts_deferred(run_protected, argument, evaluations.exception_class);
}

enum evaluation_outcome evaluate(VALUE (*run)(VALUE), VALUE argument, const void *owner, uint32_t limit_ms, VALUE *value,
                                 int *jump)
{
	struct evaluation evaluation = {.run = run,
	                                .argument = argument,
	                                .thread = rb_thread_current(),
	                                .value = Qnil,
	                                .error = Qnil,
	                                .exception = Qnil,
	                                .owner = owner,
	                                .deadline_ns = UINT64_MAX};
	int interrupted = 0;

	if (limit_ms)
		evaluation.deadline_ns = clock_now_ns() + (uint64_t)limit_ms * NS_PER_MS;
	evaluation.next = evaluations.running;
	evaluations.running = &evaluation;
	update_earliest();
	rb_protect(run_deferring, (VALUE)&evaluation, &interrupted);
	leave(&evaluation);
	*value = evaluation.value;
	if (interrupted) {
		*value = rb_errinfo();
		if (interrupts_lacked())
			return EVALUATION_RAISED;
		/* Meant for the application: it goes on from the traced call. */
		*jump = interrupted;
		return EVALUATION_JUMPED;
	}
	if (!evaluation.failed)
		return EVALUATION_DONE;
	if (evaluation.error == evaluation.exception) {
		rb_set_errinfo(Qnil);
		return evaluation.ended ? EVALUATION_ENDED : EVALUATION_TIMED_OUT;
	}
	if (RB_SPECIAL_CONST_P(evaluation.error)) {
		*jump = evaluation.failed;
		return EVALUATION_JUMPED;
	}
	if (!core_is_exception(evaluation.error)) {
		rb_set_errinfo(Qnil);
		return EVALUATION_THREW;
	}
	interrupts_forget_failure();
	*value = evaluation.error;
	return EVALUATION_RAISED;
}

struct undisturbed {
	VALUE (*run)(VALUE);
	VALUE argument;
	VALUE value;
	enum evaluation_outcome outcome;
	bool began;
};

static VALUE run_undisturbed(VALUE argument)
{
	struct undisturbed *undisturbed = (struct undisturbed *)argument;

	undisturbed->began = true;
	undisturbed->outcome = evaluate_quickly(undisturbed->run, undisturbed->argument, &undisturbed->value);
	return Qnil;
}

static VALUE defer_undisturbed(VALUE argument)
{
	return interrupts_deferred(run_undisturbed, argument, Qnil);
}

enum evaluation_outcome evaluate_undisturbed(VALUE (*run)(VALUE), VALUE argument, VALUE *value, int *jump)
{
	struct undisturbed undisturbed = {.run = run, .argument = argument, .value = Qnil, .outcome = EVALUATION_RAISED};
	int interrupted = 0;

	rb_protect(defer_undisturbed, (VALUE)&undisturbed, &interrupted);
	*value = undisturbed.value;
	if (!interrupted)
		return undisturbed.outcome;
	if (!undisturbed.began)
		*value = rb_errinfo();
	if (interrupts_lacked())
		return undisturbed.outcome;
	if (undisturbed.began)
		*jump = interrupted;
	else
		rb_set_errinfo(Qnil);
	return undisturbed.outcome;
}

enum evaluation_outcome evaluate_quickly(VALUE (*run)(VALUE), VALUE argument, VALUE *value)
{
	int failed = 0;

	*value = rb_protect(run, argument, &failed);
	if (!failed)
		return EVALUATION_DONE;
	*value = rb_errinfo();
	interrupts_forget_failure();
	return EVALUATION_RAISED;
}
