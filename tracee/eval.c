/*
 * The eval request: runs a piece of the user's Ruby in a thread of its own. Context: job (begin, cancel), and the thread that runs the code; GVL held in
 * both.
 *
 * The thread is made by a job, in which all interrupts are held back, and inherits that: so it can be killed, or cancelled, only where it lets
 * interrupts in, around the user's code, and its end is always told.
 *
 * Who cancels it is one more thread, for a moment: the job may run on the very thread that is to be interrupted, where the VM would catch what it
 * raises. It comes back after a while with Thread#kill, which no rescue stops.
 */

#define _GNU_SOURCE
#include "eval.h"

#include "core.h"
#include "interrupts.h"
#include "session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KILL_AFTER_S 0.5 /* that code may go on after it was told to end */

static struct {
	struct eval *first; /* under way */
	uint64_t serial;    /* of the last */
	VALUE keeper;       /* marks what they refer to */
	VALUE exception_class;
} evals;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void mark_exception(const struct eval_exception *exception)
{
	rb_gc_mark(exception->class_name);
	rb_gc_mark(exception->message);
	rb_gc_mark(exception->detail);
	rb_gc_mark(exception->backtrace);
}

static void mark_all(void *unused)
{
	(void)unused;
	for (const struct eval *eval = evals.first; eval; eval = eval->next) {
		rb_gc_mark(eval->code);
		rb_gc_mark(eval->name);
		rb_gc_mark(eval->binding);
		rb_gc_mark(eval->base);
		rb_gc_mark(eval->thread);
		rb_gc_mark(eval->group);
		rb_gc_mark(eval->exception);
		rb_gc_mark(eval->class_name);
		rb_gc_mark(eval->text);
		for (unsigned i = 0; i < eval->raised_count; i++)
			mark_exception(&eval->raised[i]);
	}
}

static const rb_data_type_t keeper_type = {
	.wrap_struct_name = "rbprobe evaluations",
	.function = {.dmark = mark_all},
};

void eval_init(void)
{
	evals.keeper = TypedData_Wrap_Struct(0, &keeper_type, &evals);
	rb_gc_register_address(&evals.keeper);
	evals.exception_class = rb_class_new(rb_eException);
	rb_gc_register_address(&evals.exception_class);
	eval_output_init();
}

static struct eval *find(uint64_t serial)
{
	for (struct eval *eval = evals.first; eval; eval = eval->next)
		if (eval->serial == serial)
			return eval;
	return NULL;
}

struct eval *eval_current(void)
{
	VALUE thread, group;

	if (!evals.first)
		return NULL;
	thread = rb_thread_current();
	group = core_call0(CORE_THREAD_GROUP, thread);
	for (struct eval *eval = evals.first; eval; eval = eval->next)
		if (eval->pid == getpid() && (eval->thread == thread || (!NIL_P(group) && eval->group == group)))
			return eval;
	return NULL;
}

/* What makes our threads recognisable, and keeps them out of the way. */
static VALUE introduce(VALUE name)
{
	VALUE thread = rb_thread_current();

	rb_funcall(thread, rb_intern("name="), 1, name);
	/* Puma warns of threads at its fork that have not this. */
	rb_funcall(thread, rb_intern("thread_variable_set"), 2, ID2SYM(rb_intern("fork_safe")), Qtrue);
	rb_funcall(thread, rb_intern("report_on_exception="), 1, Qfalse);
	rb_funcall(thread, rb_intern("priority="), 1, INT2FIX(0));
	return Qnil;
}

static void try(VALUE (*function)(VALUE), VALUE argument)
{
	int failed = 0;

	rb_protect(function, argument, &failed);
	if (failed)
		rb_set_errinfo(Qnil);
}

static VALUE thread_groups(void)
{
	return rb_const_get(rb_cObject, rb_intern("ThreadGroup"));
}

static VALUE enter_group(VALUE thread)
{
	VALUE group = rb_funcall(thread_groups(), rb_intern("new"), 0);

	rb_funcall(group, rb_intern("add"), 1, thread);
	return group;
}

/* Threads that the code has left behind are the application's from now on. */
static VALUE leave_group(VALUE group)
{
	VALUE all = rb_funcall(group, rb_intern("list"), 0);
	VALUE standard = rb_const_get(thread_groups(), rb_intern("Default"));

	for (long i = 0; i < RARRAY_LEN(all); i++)
		rb_funcall(standard, rb_intern("add"), 1, rb_ary_entry(all, i));
	return Qnil;
}

static VALUE run_code(VALUE argument)
{
	struct eval *eval = (struct eval *)argument;
	VALUE result = eval_code_run(eval);

	eval->outcome = EVAL_RETURNED;
	/* What becomes a console's subject is not looked at: its inspect may be costly, or broken. */
	if (!(eval->flags & EVAL_SUBJECT))
		eval_result_returned(eval, result);
	RB_GC_GUARD(result);
	return Qnil;
}

static VALUE run_admitted(VALUE argument)
{
	return interrupts_admitted(run_code, argument);
}

struct raised {
	struct eval *eval;
	VALUE error;
};

static VALUE look_at_error(VALUE argument)
{
	struct raised *raised = (struct raised *)argument;

	eval_result_raised(raised->eval, raised->error);
	if (RTEST(rb_obj_is_kind_of(raised->error, rb_eSyntaxError)))
		eval_syntax_look(raised->eval);
	return Qnil;
}

static VALUE look_admitted(VALUE argument)
{
	return interrupts_admitted(look_at_error, argument);
}

/* What unwinds a frame may also be a throw, an internal object without a class, or a number: the thread is being killed. */
static bool is_exception(VALUE error)
{
	return !RB_SPECIAL_CONST_P(error) && RB_BUILTIN_TYPE(error) != T_IMEMO && RTEST(rb_obj_is_kind_of(error, rb_eException));
}

static void run(struct eval *eval)
{
	struct raised raised = {eval, Qnil};
	int failed = 0;

	eval->began_ns = now_ns();
	eval->interruptible = true;
	eval->outcome = EVAL_KILLED;
	rb_protect(run_admitted, (VALUE)eval, &failed);
	if (failed) {
		raised.error = rb_errinfo();
		rb_set_errinfo(Qnil);
		eval->outcome = RB_SPECIAL_CONST_P(raised.error) ? EVAL_KILLED : EVAL_RAISED;
		/* Its methods are the application's, and may be interrupted like its code. */
		if (is_exception(raised.error))
			try(raised.error == eval->exception ? look_at_error : look_admitted, (VALUE)&raised);
	}
	eval->interruptible = false;
	eval->ended_ns = now_ns();
	if (eval->interrupted)
		eval->outcome = eval->reason == CANCEL_TIMEOUT ? EVAL_TIMED_OUT : EVAL_CANCELLED;
	RB_GC_GUARD(raised.error);
}

static void unlink_eval(struct eval *eval)
{
	struct eval **link = &evals.first;

	while (*link != eval)
		link = &(*link)->next;
	*link = eval->next;
}

/* What DONE says to a client that does not look at DATA. */
static const struct {
	int code;
	const char *text;
} endings[EVAL_OUTCOME_COUNT] = {
	[EVAL_RETURNED] = {0, ""},
	[EVAL_RAISED] = {EIO, "the code raised an exception"},
	[EVAL_SYNTAX_ERROR] = {EINVAL, "the code is not valid Ruby"},
	[EVAL_INCOMPLETE] = {0, ""},
	[EVAL_CANCELLED] = {ECANCELED, "the code was cancelled"},
	[EVAL_TIMED_OUT] = {ETIMEDOUT, "the code took longer than its time limit, and was cancelled"},
	[EVAL_KILLED] = {ECANCELED, "the thread that ran the code was killed"},
};

static void finish(struct eval *eval)
{
	unlink_eval(eval);
	eval->request->state = NULL;
	eval_result_send(eval);
	request_finish(eval->request, endings[eval->outcome].code, "%s", endings[eval->outcome].text);
	free(eval);
}

static VALUE enter_thread(VALUE argument)
{
	(void)argument;
	introduce(rb_str_new_cstr("rbprobe eval"));
	eval_output_begin();
	return Qnil;
}

static VALUE enter_own_group(VALUE argument)
{
	struct eval *eval = (struct eval *)argument;

	eval->group = enter_group(eval->thread);
	return Qnil;
}

static VALUE thread_deferring(VALUE argument)
{
	struct eval *eval = (struct eval *)argument;
	VALUE group;

	try(enter_own_group, argument);
	try(enter_thread, argument);
	run(eval);
	group = eval->group;
	eval_output_end();
	if (!NIL_P(group))
		try(leave_group, group);
	finish(eval);
	return Qnil;
}

static VALUE thread_protected(VALUE argument)
{
	return interrupts_deferred(thread_deferring, argument, Qnil);
}

static VALUE thread_main(void *argument)
{
	try(thread_protected, (VALUE)argument);
	return Qnil;
}

/* In a thread of its own. pair: the serial of the evaluation, and nothing that could be gone by then. */
static VALUE interrupt(VALUE number)
{
	struct eval *eval;
	VALUE thread;

	introduce(rb_str_new_cstr("rbprobe cancel"));
	eval = find(NUM2ULL(number));
	if (!eval || !eval->interruptible)
		return Qnil;
	thread = eval->thread;
	eval->interrupted = true;
	rb_funcall(thread, rb_intern("raise"), 1, eval->exception);
	rb_funcall(thread, rb_intern("join"), 1, DBL2NUM(KILL_AFTER_S));
	eval = find(NUM2ULL(number));
	if (eval && eval->interruptible)
		rb_funcall(thread, rb_intern("kill"), 0);
	RB_GC_GUARD(thread);
	return Qnil;
}

static VALUE interrupter_main(void *argument)
{
	try(interrupt, (VALUE)argument);
	return Qnil;
}

static void cancel(struct request *request, enum cancel_reason reason)
{
	struct eval *eval = request->state;

	if (reason == CANCEL_EXIT || !eval || !NIL_P(eval->exception))
		return;
	eval->reason = reason;
	eval->exception = rb_exc_new_cstr(evals.exception_class, reason == CANCEL_TIMEOUT ? "time limit" : "cancelled");
	rb_thread_create(interrupter_main, (void *)ULL2NUM(eval->serial));
}

static VALUE start_thread(VALUE argument)
{
	struct eval *eval = (struct eval *)argument;

	eval->binding = eval_code_binding(eval);
	eval->thread = rb_thread_create(thread_main, eval);
	return Qnil;
}

static void begin(struct request *request, const struct command *command)
{
	struct eval *eval = calloc(1, sizeof(*eval));
	const struct slice *code = &command->request.text, *name = &command->request.name;
	int failed = 0;

	if (!eval) {
		request_finish(request, ENOMEM, "no memory");
		return;
	}
	request->state = eval;
	eval->request = request;
	eval->serial = ++evals.serial;
	eval->flags = command->request.flags;
	eval->limit = command->request.limit && command->request.limit < EVAL_TEXT_MAX ? command->request.limit : EVAL_TEXT_MAX;
	eval->pid = getpid();
	eval->code = eval->name = eval->binding = eval->base = eval->thread = eval->group = eval->exception = Qnil;
	eval->class_name = eval->text = Qnil;
	eval->next = evals.first;
	evals.first = eval;
	eval->code = rb_utf8_str_new(code->bytes, (long)code->size);
	eval->name = name->size ? rb_utf8_str_new(name->bytes, (long)name->size) : rb_utf8_str_new_cstr("(rbprobe)");
	eval->interruptible = true;
	rb_protect(start_thread, (VALUE)eval, &failed);
	if (failed) {
		rb_set_errinfo(Qnil);
		unlink_eval(eval);
		free(eval);
		request_finish(request, EAGAIN, "the process cannot start a thread for the code");
	}
}

const struct request_kind request_eval = {.name = "eval", .begin = begin, .cancel = cancel};
