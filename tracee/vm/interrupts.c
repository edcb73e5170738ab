/* Interrupts that are not ours. See interrupts.h. */

#include "tracee/vm/interrupts.h"

#include "proto/clock.h"
#include "tracee/vm/builtin_find.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/evaluation.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/interrupts_mask.h"
#include "tracee/vm/interrupts_queue.h"
#include "tracee/vm/layout.h"
#include "tracee/vm/own.h"
#include "tracee/vm/stack_room.h"

#include <ruby/thread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#define SENT_WITHIN_MS 200 /* else it comes later */
#define END_TRIES_MAX 20
#define END_PAUSE_MS 500
#define GO_FIRST_MAX 3

#define THROW_WORDS 5 /* of an object's slot */

static struct {
	VALUE never, immediate; /* Symbols */
	VALUE end;              /* class of exceptions */
	VALUE block;            /* runs what is in passed; nil until builtin_init() has been */
} ids = {.block = Qnil};

struct deferred {
	VALUE (*run)(VALUE);
	VALUE argument;
};

/*
 * From the caller of handle_interrupt to its block. Where interrupts are pending, handle_interrupt looks for them before it calls
 * the block: a job may run there, with a handle_interrupt of its own.
 */
static __thread const struct deferred *passed;

static VALUE run_passed(RB_BLOCK_CALL_FUNC_ARGLIST(unused, nothing))
{
	const struct deferred *deferred = passed;

	(void)unused;
	(void)nothing;
	(void)argc;
	(void)argv;
	(void)blockarg;
	return deferred->run(deferred->argument);
}

static VALUE throw_tag(VALUE tag)
{
	rb_throw_obj(tag, Qnil);
	return Qnil;
}

static bool is_throw(VALUE error)
{
	return !RB_SPECIAL_CONST_P(error) && RB_BUILTIN_TYPE(error) == RUBY_T_IMEMO;
}

static VALUE learn_throw(RB_BLOCK_CALL_FUNC_ARGLIST(tag, unused))
{
	int failed = 0;

	(void)unused;
	(void)argc;
	(void)argv;
	(void)blockarg;
	rb_protect(throw_tag, tag, &failed);
	if (failed && is_throw(rb_errinfo()))
		for (unsigned i = 1; i < THROW_WORDS && !layout_is_known(LAYOUT_JUMP_VALUE); i++)
			if (((const VALUE *)rb_errinfo())[i] == tag)
				layout_found(LAYOUT_JUMP_VALUE, i);
	layout_not_found(LAYOUT_JUMP_VALUE, "what a throw unwinds frames with did not hold the tag");
	if (failed)
		exception_drop(Qnil);
	return Qnil;
}

void interrupts_init(void)
{
	if (!ids.never) {
		own_register(&ids.end); /* first: it allocates, and may collect */
		own_register(&ids.block);
		ids.end = own_class_new(rb_eException);
		ids.never = ID2SYM(rb_intern("never"));
		ids.immediate = ID2SYM(rb_intern("immediate"));
	}
	if (NIL_P(ids.block))
		ids.block = builtin_block(run_passed);
	if (!layout_is_known(LAYOUT_JUMP_VALUE))
		rb_catch_obj(rb_obj_alloc(rb_cObject), learn_throw, Qnil);
}

static VALUE run_deferred(RB_BLOCK_CALL_FUNC_ARGLIST(unused, data))
{
	const struct deferred *deferred = (const struct deferred *)data;

	(void)unused;
	(void)argc;
	(void)argv;
	(void)blockarg;
	return deferred->run(deferred->argument);
}

#ifdef HAVE_RB_IDENT_HASH_NEW
/* Exported, in no header. The same from 2.7 to 4.1. */
VALUE rb_ident_hash_new(void);
#endif

/*
 * By identity: asking a class for its hash may run the application's code, and gives it an object_id, which the next one to be
 * given shows.
 */
static VALUE new_mask(void)
{
#ifdef HAVE_RB_IDENT_HASH_NEW
	return rb_ident_hash_new();
#else
	return builtin_call0(BUILTIN_HASH_COMPARE_BY_IDENTITY, rb_hash_new());
#endif
}

struct passing {
	VALUE mask;
	const struct deferred *deferred, *before;
};

static VALUE pass(VALUE argument)
{
	const struct passing *passing = (const struct passing *)argument;

	passed = passing->deferred;
	return builtin_call_with(BUILTIN_THREAD_HANDLE_INTERRUPT, rb_cThread, 1, &passing->mask, ids.block);
}

static VALUE pass_end(VALUE argument)
{
	const struct passing *passing = (const struct passing *)argument;

	passed = passing->before;
	return Qnil;
}

/*
 * The block is a Proc that was made before. rb_block_call would write its block into the current frame. In an event of a C call
 * that is the caller's frame, where the VM has just put the block that the C method is to get: that would get ours (a crash
 * seen on 3.1 and 4.0).
 */
static VALUE handle_interrupt(VALUE mask, struct deferred *deferred)
{
	struct passing passing = {.mask = mask, .deferred = deferred, .before = passed};

	if (NIL_P(ids.block))
		return builtin_iterate(BUILTIN_THREAD_HANDLE_INTERRUPT, rb_cThread, 1, &mask, run_deferred, (VALUE)deferred);
	return rb_ensure(pass, (VALUE)&passing, pass_end, (VALUE)&passing);
}

VALUE interrupts_deferred(VALUE (*run)(VALUE), VALUE argument, VALUE ours)
{
	struct deferred deferred = {run, argument};
	VALUE mask = new_mask();

	rb_hash_aset(mask, rb_cObject, ids.never);
	if (!NIL_P(ours))
		rb_hash_aset(mask, ours, ids.immediate);
	return handle_interrupt(mask, &deferred);
}

const char *interrupts_missing(void)
{
	const char *why = builtin_missing(BUILTIN_THREAD_HANDLE_INTERRUPT);

	return why ? why : builtin_missing(BUILTIN_THREAD_PENDING_INTERRUPT_P);
}

VALUE interrupts_admitted(VALUE (*run)(VALUE), VALUE argument)
{
	struct deferred admitted = {run, argument};
	VALUE mask = new_mask();

	rb_hash_aset(mask, rb_cObject, ids.immediate);
	return handle_interrupt(mask, &admitted);
}

/*
 * A kill that the VM has delivered cannot be sent again: the thread is marked as being killed, and Thread#kill and the end of the
 * process pass over such. So it is ended by an exception, of which nothing is said (but by Thread#join). One that the thread
 * rescues is followed by another. This is for what interrupts_queue_take_kills() could not take before the VM delivered it.
 */
static void end_thread(VALUE thread, _Atomic bool *sent)
{
	builtin_call1(BUILTIN_THREAD_SET_REPORT, thread, Qfalse);
	builtin_call1(BUILTIN_THREAD_SET_ABORT, thread, Qfalse);
	for (int i = 0; i < END_TRIES_MAX && RTEST(builtin_call0(BUILTIN_THREAD_ALIVE_P, thread)); i++) {
		builtin_call1(BUILTIN_THREAD_RAISE, thread, builtin_exception(ids.end, "killed"));
		atomic_store(sent, true);
		for (int ms = 0; ms < END_PAUSE_MS && RTEST(builtin_call0(BUILTIN_THREAD_ALIVE_P, thread)); ms += 10)
			rb_thread_wait_for((struct timeval){.tv_usec = 10000});
	}
}

/*
 * For the thread that sends it and the one that waits. Nobody marks what a new thread is given until it runs: so these are roots.
 */
struct parcel {
	VALUE receiver;  /* a Thread */
	VALUE exception; /* or an Array, taken by interrupts_queue.h; nil: a kill that was delivered; Qundef: find_places() */
	_Atomic bool sent;
	unsigned users; /* under the GVL */
};

/*
 * What is to be sent for what was delivered. To deliver an exception the VM asks it for its `exception`. Up to 3.1 that of a
 * Timeout::Error throws instead, with itself for the tag: being sent, it does so again. Undefined: a throw of something else,
 * which nobody can repeat. A number: a kill.
 */
static VALUE sendable(VALUE error)
{
	VALUE tag;

	if (RB_SPECIAL_CONST_P(error))
		return Qnil;
	if (!is_throw(error))
		return error;
	tag = layout_is_known(LAYOUT_JUMP_VALUE) ? ((const VALUE *)error)[layout_value(LAYOUT_JUMP_VALUE)] : Qnil;
	return RTEST(rb_obj_is_kind_of(tag, rb_eException)) ? tag : Qundef;
}

static struct parcel *parcel_new(VALUE receiver, VALUE exception)
{
	struct parcel *parcel = malloc(sizeof(*parcel));

	if (!parcel)
		return NULL;
	*parcel = (struct parcel){.receiver = receiver, .exception = exception, .users = 1};
	rb_gc_register_address(&parcel->receiver);
	rb_gc_register_address(&parcel->exception);
	return parcel;
}

static void parcel_leave(struct parcel *parcel)
{
	if (--parcel->users > 0)
		return;
	rb_gc_unregister_address(&parcel->receiver);
	rb_gc_unregister_address(&parcel->exception);
	free(parcel);
}

static void find_places(bool apart);

static VALUE send_protected(VALUE argument)
{
	struct parcel *parcel = (struct parcel *)argument;

	builtin_call1(BUILTIN_THREAD_SET_REPORT, rb_thread_current(), Qfalse);
	if (NIL_P(parcel->exception))
		end_thread(parcel->receiver, &parcel->sent);
	else if (parcel->exception == Qundef)
		find_places(true);
	else if (RB_TYPE_P(parcel->exception, T_ARRAY))
		interrupts_queue_send(parcel->receiver, parcel->exception);
	else
		builtin_call1(BUILTIN_THREAD_RAISE, parcel->receiver, parcel->exception);
	return Qnil;
}

/* In a thread of its own. */
static VALUE send_to(void *data)
{
	struct parcel *parcel = data;
	int failed = 0;

	rb_protect(send_protected, (VALUE)parcel, &failed);
	if (failed)
		exception_drop(Qnil);
	atomic_store(&parcel->sent, true);
	parcel_leave(parcel);
	return Qnil;
}

/* Without the GVL. */
static void *wait_until_sent(void *data)
{
	const struct parcel *parcel = data;

	for (int i = 0; i < SENT_WITHIN_MS * 10 && !atomic_load(&parcel->sent); i++) {
		struct timespec pause = {.tv_nsec = 100000};

		nanosleep(&pause, NULL);
	}
	return NULL;
}

bool interrupts_lacked(void)
{
	if (!builtin_find_is_lack(rb_errinfo()))
		return false;
	exception_drop(Qnil);
	return true;
}

void interrupts_forget_failure(void)
{
	exception_drop(Qnil);
}

static VALUE send_by_thread(VALUE parcel)
{
	own_thread_new(send_to, (void *)parcel);
	return Qnil;
}

/* exception: as in a parcel. wait: as interrupts_send_again(). Raises nothing. */
static void send_by_another(VALUE exception, bool wait)
{
	struct parcel *parcel = parcel_new(rb_thread_current(), exception);
	int failed = 0;

	if (!parcel)
		return;
	parcel->users++;
	rb_protect(send_by_thread, (VALUE)parcel, &failed);
	if (failed) {
		exception_drop(Qnil);
		parcel->users--;
	} else if (wait) {
		/* This raises nothing, also if there is more to come. */
		rb_thread_call_without_gvl2(wait_until_sent, parcel, NULL, NULL);
	}
	parcel_leave(parcel);
}

void interrupts_send_again(bool wait)
{
	VALUE error;

	if (interrupts_lacked())
		return;
	error = sendable(rb_errinfo());
	exception_drop(Qnil);
	if (error != Qundef && !evaluation_take_back(error))
		send_by_another(error, wait);
	RB_GC_GUARD(error);
}

static VALUE ask_pending(VALUE unused)
{
	(void)unused;
	return builtin_call0(BUILTIN_THREAD_PENDING_INTERRUPT_P, rb_cThread);
}

/* Lets none in. */
static bool are_pending(void)
{
	long waiting = interrupts_queue_length();
	int failed = 0;
	uint64_t began_ns;
	bool lacks;
	VALUE pending;

	if (waiting >= 0)
		return waiting > 0;
	began_ns = clock_now_ns();
	pending = rb_protect(ask_pending, Qnil, &failed);
	lacks = failed && builtin_find_is_lack(rb_errinfo());
	/* One that came meanwhile was delivered on the way out. */
	if (failed)
		interrupts_send_again(true);
	if (lacks)
		stack_room_note_lack(began_ns);
	return failed || RTEST(pending);
}

bool interrupts_go_first(void)
{
	static unsigned times; /* in a row */

	if (are_pending() && times < GO_FIRST_MAX) {
		times++;
		return true;
	}
	times = 0;
	return false;
}

struct job {
	VALUE (*run)(VALUE);
	VALUE argument;
	struct interrupts_mask mask;
	volatile VALUE taken; /* where that holds nothing: what came while it ran and must not be delivered in it */
	bool began;
};

static VALUE nothing(VALUE unused)
{
	return unused;
}

static VALUE admit_end(VALUE unused)
{
	struct deferred deferred = {nothing, unused};
	VALUE mask = new_mask();

	rb_hash_aset(mask, ids.end, ids.immediate);
	return handle_interrupt(mask, &deferred);
}

struct finding {
	volatile VALUE taken; /* as in a job */
	bool began;
	bool bad_moment;
};

static VALUE find_deferred(VALUE argument)
{
	struct finding *finding = (struct finding *)argument;
	int failed = 0;

	finding->began = true;
	/* The main thread, while others hold up the process's end: nothing can be sent to it. */
	if (!RTEST(builtin_call0(BUILTIN_THREAD_ALIVE_P, rb_thread_current())))
		return Qnil;
	if (!interrupts_queue_find(ids.end))
		rb_protect(admit_end, Qnil, &failed);
	if (failed)
		interrupts_forget_failure();
	finding->bad_moment = interrupts_mask_find(ids.end);
	finding->taken = interrupts_queue_take_kills();
	return Qnil;
}

static VALUE find(VALUE finding)
{
	return interrupts_deferred(find_deferred, finding, Qnil);
}

/*
 * After what began with all held back: sends again what the VM delivered at its end, and what was taken. If it had not begun,
 * what it raised is a failure of ours.
 */
static void send_what_came(int failed, bool began, VALUE taken)
{
	if (failed && began)
		interrupts_send_again(true);
	else if (failed)
		interrupts_forget_failure();
	if (!NIL_P(taken))
		send_by_another(taken, true);
}

/*
 * What is sent at this moment is delivered at its end, as in interrupts_job(). Where this thread tells nothing, as within the
 * application's finalizers, one of our own does: `apart` is in there.
 */
static void find_places(bool apart)
{
	struct finding finding = {.taken = Qnil};
	int failed = 0;

	rb_protect(find, (VALUE)&finding, &failed);
	send_what_came(failed, finding.began, finding.taken);
	if (finding.bad_moment && !apart)
		send_by_another(Qundef, true);
}

static VALUE begin_job(VALUE argument)
{
	struct job *job = (struct job *)argument;

	job->began = true;
	job->run(job->argument);
	if (!interrupts_mask_holds(&job->mask))
		job->taken = interrupts_queue_take_kills();
	return Qnil;
}

static VALUE defer_job(VALUE argument)
{
	return interrupts_deferred(begin_job, argument, Qnil);
}

bool interrupts_job(VALUE (*run)(VALUE), VALUE argument)
{
	struct job job = {.run = run, .argument = argument, .taken = Qnil};
	int failed = 0;

	if (!interrupts_mask_is_decided())
		find_places(false);
	job.mask = interrupts_mask_begin();
	rb_protect(defer_job, (VALUE)&job, &failed);
	interrupts_mask_end(&job.mask);
	send_what_came(failed, job.began, job.taken);
	return job.began;
}
