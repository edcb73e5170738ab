/*
 * Evaluations with a time limit. See evaluation.h.
 *
 * The writer thread notices that a limit has passed and rings the bell; the job has a short-lived Ruby thread raise an exception
 * of ours in the thread that evaluates. (The job cannot do that itself: it may run on that very thread, where the VM catches what
 * a job raises.) An exception on its way must not hit the application's own code: once there is one, the evaluation is not left
 * before that has arrived. Jobs run wherever the VM looks for interrupts, also just before and after what is evaluated; so only
 * what is open is sent one, and only while its fiber is the one that its thread runs. The thread that sends it knows the
 * evaluation by its number: that may be over by then.
 */

#include "tracee/vm/evaluation.h"

#include "proto/clock.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/event_flags.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/fiber.h"
#include "tracee/vm/interrupts.h"
#include "tracee/vm/interrupts_queue.h"
#include "tracee/vm/own.h"
#include "tracee/vm/thread_layout.h"
#include "tracee/vm/timeouts.h"

#include <ruby/debug.h>
#include <stdatomic.h>

#define PAUSE_MIN_MS 10
#define PAUSE_MAX_MS 1000

/* On the stack of the fiber that evaluates. */
struct protected_run {
	VALUE (*run)(VALUE);
	VALUE argument;
	VALUE value; /* what run returned, */
	int failed;  /* or how it ended otherwise: a state of rb_protect, */
	VALUE error; /* and what rb_errinfo() said */
	struct evaluation *evaluation;
};

static struct {
	struct evaluation *running;   /* under the GVL */
	_Atomic uint64_t earliest_ns; /* their earliest deadline, UINT64_MAX for none */
	uint64_t serial;              /* of the last one */
	VALUE exception_class;
	VALUE roots; /* marks what those that run hold */
} evaluations = {.earliest_ns = UINT64_MAX};

static void mark_running(void *data)
{
	(void)data;
	for (const struct evaluation *evaluation = evaluations.running; evaluation; evaluation = evaluation->next) {
		rb_gc_mark(evaluation->thread);
		rb_gc_mark(evaluation->mask);
		rb_gc_mark(evaluation->exception);
	}
}

static const rb_data_type_t roots_type = {
	.wrap_struct_name = "rbprobe evaluations",
	.function = {.dmark = mark_running},
	.flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

void evaluation_init(void)
{
	own_register(&evaluations.exception_class); /* first: it allocates, and may collect */
	own_register(&evaluations.roots);
	evaluations.exception_class = own_class_new(rb_eException);
	evaluations.roots = TypedData_Wrap_Struct(rb_cObject, &roots_type, &evaluations);
}

/* In the new thread, before its block. */
static void on_thread_begin(rb_event_flag_t event, VALUE data, VALUE self, ID id, VALUE class)
{
	(void)event;
	(void)data;
	(void)self;
	(void)id;
	(void)class;
	for (const struct evaluation *evaluation = evaluations.running; evaluation; evaluation = evaluation->next)
		if (!NIL_P(evaluation->mask))
			interrupts_queue_drop_mask(evaluation->mask);
}

void evaluation_hear_threads(bool hear)
{
	static bool heard;

	if (hear == heard)
		return;
	heard = hear;
	event_flags_look();
	event_flags_hold_light();
	if (hear)
		rb_add_event_hook(on_thread_begin, RUBY_EVENT_THREAD_BEGIN, Qnil);
	else
		rb_remove_event_hook(on_thread_begin);
	event_flags_release_light();
}

static void enter(struct evaluation *evaluation)
{
	evaluation->next = evaluations.running;
	evaluation->previous_next = &evaluations.running;
	if (evaluation->next)
		evaluation->next->previous_next = &evaluation->next;
	evaluations.running = evaluation;
}

static void leave(struct evaluation *evaluation)
{
	*evaluation->previous_next = evaluation->next;
	if (evaluation->next)
		evaluation->next->previous_next = evaluation->previous_next;
	evaluation->serial = 0;
}

void evaluation_drop(struct evaluation *evaluation)
{
	if (evaluation->serial)
		leave(evaluation);
}

static struct evaluation *find(uint64_t serial)
{
	struct evaluation *evaluation = evaluations.running;

	while (evaluation && evaluation->serial != serial)
		evaluation = evaluation->next;
	return evaluation;
}

static bool can_be_cancelled(const struct evaluation *evaluation)
{
	return evaluation->open && NIL_P(evaluation->exception);
}

static void update_earliest(void)
{
	uint64_t earliest = UINT64_MAX;

	for (const struct evaluation *evaluation = evaluations.running; evaluation; evaluation = evaluation->next)
		if (can_be_cancelled(evaluation) && evaluation->deadline_ns < earliest)
			earliest = evaluation->deadline_ns;
	atomic_store_explicit(&evaluations.earliest_ns, earliest, memory_order_relaxed);
}

bool evaluation_overdue(void)
{
	uint64_t earliest = atomic_load_explicit(&evaluations.earliest_ns, memory_order_relaxed);

	return earliest != UINT64_MAX && clock_now_ns() > earliest;
}

/* Otherwise its fiber waits, and it is another one, with the application's code, that would get the exception. */
static bool is_current(const struct evaluation *evaluation)
{
	return thread_running_context(evaluation->thread) == evaluation->context;
}

static void put_off(struct evaluation *evaluation)
{
	evaluation->exception = Qnil;
	evaluation->sent = false;
	evaluation->deadline_ns = clock_now_ns() + evaluation->pause_ms * NS_PER_MS;
	if (evaluation->pause_ms < PAUSE_MAX_MS)
		evaluation->pause_ms *= 2;
	update_earliest();
}

static VALUE raise_protected(VALUE argument)
{
	struct evaluation *evaluation = (struct evaluation *)argument;

	/* A trap of the application's, which runs in the midst of the code, takes the time that it takes. */
	if (!is_current(evaluation) || interrupts_mask_trap_runs(&evaluation->around)) {
		put_off(evaluation);
		return Qfalse;
	}
	return builtin_call1(BUILTIN_THREAD_RAISE, evaluation->thread, evaluation->exception);
}

/* In a thread of its own. Nothing runs between a look and what follows from it. */
static VALUE raise_in(void *serial)
{
	struct evaluation *evaluation;
	VALUE exception;
	int failed = 0;

	fiber_suppress_begin();
	evaluation = find((uintptr_t)serial);
	if (!evaluation)
		return Qnil;
	exception = evaluation->exception;
	rb_protect(raise_protected, (VALUE)evaluation, &failed);
	if (failed)
		exception_drop(Qnil);
	evaluation = find((uintptr_t)serial);
	if (evaluation && !NIL_P(exception) && evaluation->exception == exception)
		evaluation->sent = true;
	RB_GC_GUARD(exception);
	return Qnil;
}

static VALUE create_raiser(VALUE serial)
{
	return own_thread_new(raise_in, (void *)serial);
}

static VALUE make_exception(VALUE unused)
{
	(void)unused;
	return builtin_exception(evaluations.exception_class, "rbprobe: time limit of an expression");
}

static struct evaluation *first_overdue(uint64_t now)
{
	struct evaluation *evaluation = evaluations.running;

	while (evaluation && (!can_be_cancelled(evaluation) || now <= evaluation->deadline_ns))
		evaluation = evaluation->next;
	return evaluation;
}

void evaluation_cancel_overdue(void)
{
	uint64_t now = clock_now_ns();
	struct evaluation *evaluation;

	while ((evaluation = first_overdue(now))) {
		uint64_t serial = evaluation->serial;
		VALUE exception;
		int failed = 0;

		if (!is_current(evaluation)) {
			put_off(evaluation);
			continue;
		}
		/* What is allocated may collect a fiber that nobody has any more. */
		exception = rb_protect(make_exception, Qnil, &failed);
		if (!failed && (evaluation = find(serial))) {
			evaluation->exception = exception;
			rb_protect(create_raiser, (VALUE)serial, &failed);
		}
		if (!failed)
			continue;
		exception_drop(Qnil);
		if ((evaluation = find(serial)))
			put_off(evaluation);
	}
	update_earliest();
}

bool evaluation_take_back(VALUE exception)
{
	struct evaluation *evaluation = evaluations.running;

	if (RB_SPECIAL_CONST_P(exception) || rb_obj_class(exception) != evaluations.exception_class)
		return false;
	while (evaluation && evaluation->exception != exception)
		evaluation = evaluation->next;
	if (evaluation)
		put_off(evaluation);
	return true;
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

void evaluation_fork_child(void)
{
	for (struct evaluation *evaluation = evaluations.running, *next; evaluation; evaluation = next) {
		next = evaluation->next;
		/* What sends is not in the child. */
		evaluation->sent |= !NIL_P(evaluation->exception);
		if (!pthread_equal(evaluation->native_thread, pthread_self()))
			leave(evaluation);
	}
}

static VALUE wait_for_interrupt(VALUE unused)
{
	struct timeval pause = {.tv_usec = 1000};

	(void)unused;
	rb_thread_wait_for(pause);
	return Qnil;
}

static void set_open(struct evaluation *evaluation, bool open)
{
	evaluation->open = open;
	update_earliest();
}

/*
 * An exception of ours that is on its way must not reach the application. It takes the place of what the code has returned,
 * unless it is taken back meanwhile (evaluation_take_back()).
 */
static void await_exception(struct protected_run *protected)
{
	const struct evaluation *evaluation = protected->evaluation;

	while (!NIL_P(evaluation->exception) && protected->error != evaluation->exception) {
		VALUE awaited = evaluation->exception;
		bool sent = evaluation->sent;
		int failed = 0;

		rb_protect(wait_for_interrupt, Qnil, &failed);
		/* What had been sent before has arrived by now, or the code has rescued it. */
		if (evaluation->exception == awaited && (failed ? rb_errinfo() == awaited : sent)) {
			protected->failed = 1;
			protected->error = awaited;
		}
		RB_GC_GUARD(awaited);
	}
}

/* The user's code, with everything it does to end itself kept in `protected`. */
static VALUE run_protected(VALUE argument)
{
	struct protected_run *protected = (struct protected_run *)argument;
	struct evaluation *evaluation = protected->evaluation;

	evaluation->mask = interrupts_queue_innermost_mask();
	if (evaluation->ended) { /* before it began; both are nil */
		protected->failed = 1;
		return Qnil;
	}
	interrupts_mask_admit(&evaluation->around);
	set_open(evaluation, true);
	protected->value = rb_protect(protected->run, protected->argument, &protected->failed);
	protected->error = protected->failed ? rb_errinfo() : Qnil;
	await_exception(protected);
	set_open(evaluation, false);
	interrupts_mask_admit_end(&evaluation->around);
	timeouts_forget_ended(evaluation->around.waiting);
	return Qnil;
}

static VALUE run_deferring(VALUE argument)
{
	return interrupts_deferred(run_protected, argument, evaluations.exception_class);
}

/*
 * Traps run in the main thread, also while the code does. What leaves them cannot be told from what the code raises. But most of
 * those that raise do so to end the process, and code that is asked for a value does not.
 */
static bool ends_process(VALUE error)
{
	return builtin_is_exception(error) && rb_thread_current() == rb_thread_main() &&
	       (RTEST(rb_obj_is_kind_of(error, rb_eSystemExit)) || RTEST(rb_obj_is_kind_of(error, rb_eSignal)));
}

static enum evaluation_outcome outcome_of(const struct protected_run *protected, VALUE *value, int *jump)
{
	const struct evaluation *evaluation = protected->evaluation;

	*value = protected->value;
	if (!protected->failed)
		return EVALUATION_DONE;
	if (protected->error == evaluation->exception) {
		exception_drop(Qnil);
		return evaluation->ended ? EVALUATION_ENDED : EVALUATION_TIMED_OUT;
	}
	if (RB_SPECIAL_CONST_P(protected->error) || ends_process(protected->error) || timeouts_is_older(protected->error)) {
		*jump = protected->failed;
		return EVALUATION_JUMPED;
	}
	if (!builtin_is_exception(protected->error)) {
		exception_drop(Qnil);
		return EVALUATION_THREW;
	}
	interrupts_forget_failure();
	*value = protected->error;
	return EVALUATION_RAISED;
}

enum evaluation_outcome evaluate(VALUE (*run)(VALUE), VALUE argument, const void *owner, uint32_t limit_ms, VALUE *value,
                                 int *jump)
{
	struct evaluation *evaluation = &fiber_current_state()->evaluation;
	struct protected_run protected = {
		.run = run, .argument = argument, .value = Qnil, .error = Qnil, .evaluation = evaluation};
	VALUE thread = rb_thread_current();
	int interrupted = 0;

	*evaluation = (struct evaluation){.serial = ++evaluations.serial,
	                                  .thread = thread,
	                                  .native_thread = pthread_self(),
	                                  .context = thread_running_context(thread),
	                                  .mask = Qnil,
	                                  .exception = Qnil,
	                                  .owner = owner,
	                                  .deadline_ns = UINT64_MAX,
	                                  .pause_ms = PAUSE_MIN_MS};
	if (limit_ms)
		evaluation->deadline_ns = clock_now_ns() + (uint64_t)limit_ms * NS_PER_MS;
	enter(evaluation);
	evaluation->around = interrupts_mask_begin();
	rb_protect(run_deferring, (VALUE) & protected, &interrupted);
	/*
	 * Threads that the code has made, and whose beginning nobody has heard of (before 3.1 those that C code makes), hold back
	 * the same. Those which stay could never be killed, and the process would not end. Not before here: what waits would be
	 * let in too early.
	 */
	interrupts_queue_empty_mask(evaluation->mask);
	interrupts_mask_end(&evaluation->around);
	leave(evaluation);
	if (!interrupted)
		return outcome_of(&protected, value, jump);
	*value = rb_errinfo();
	if (interrupts_lacked())
		return EVALUATION_RAISED;
	/* Meant for the application: it goes on from the traced call. */
	*jump = interrupted;
	return EVALUATION_JUMPED;
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
	struct interrupts_mask mask = interrupts_mask_begin();
	int interrupted = 0;

	rb_protect(defer_undisturbed, (VALUE)&undisturbed, &interrupted);
	interrupts_mask_end(&mask);
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
		exception_drop(Qnil);
	return undisturbed.outcome;
}

enum evaluation_outcome evaluate_quickly(VALUE (*run)(VALUE), VALUE argument, VALUE *value)
{
	int failed = 0;

	*value = interrupts_mask_protect(run, argument, &failed);
	if (!failed)
		return EVALUATION_DONE;
	*value = rb_errinfo();
	interrupts_forget_failure();
	return EVALUATION_RAISED;
}
