/*
 * The eval request: the evaluations that are under way, from begin to DONE. See eval.h. Context: job, except where eval.h says
 * otherwise; GVL held.
 */

#define _GNU_SOURCE
#include "tracee/eval/eval.h"

#include "tracee/session/debug.h"
#include "tracee/session/session.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/own.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
	struct eval *first; /* under way */
	uint64_t serial;    /* of the last */
	VALUE keeper;       /* marks what they refer to */
	VALUE exception_class;
} evals;

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
	/* First: registering allocates, and may collect. What the keeper keeps is not rbprobe's. */
	rb_gc_register_address(&evals.keeper);
	own_register(&evals.exception_class);
	evals.keeper = TypedData_Wrap_Struct(0, &keeper_type, &evals);
	evals.exception_class = own_class_new(rb_eException);
	eval_output_init();
}

struct eval *eval_find(uint64_t serial)
{
	for (struct eval *eval = evals.first; eval; eval = eval->next)
		if (eval->serial == serial)
			return eval;
	return NULL;
}

struct eval *eval_waiting_for_main(void)
{
	struct eval *oldest = NULL;

	for (struct eval *eval = evals.first; eval; eval = eval->next)
		if ((eval->flags & EVAL_MAIN) && NIL_P(eval->thread) && eval->pid == getpid())
			oldest = eval;
	return oldest;
}

VALUE eval_exception_class(void)
{
	return evals.exception_class;
}

bool eval_try(VALUE (*function)(VALUE), VALUE argument)
{
	int failed = 0;

	rb_protect(function, argument, &failed);
	if (failed)
		exception_drop(Qnil);
	return !failed;
}

struct eval *eval_current(void)
{
	VALUE thread, group;

	if (!evals.first)
		return NULL;
	thread = rb_thread_current();
	group = builtin_call0(BUILTIN_THREAD_GROUP, thread);
	for (struct eval *eval = evals.first; eval; eval = eval->next)
		if (eval->pid == getpid() && (eval->thread == thread || (!NIL_P(group) && eval->group == group)))
			return eval;
	return NULL;
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

void eval_finish(struct eval *eval)
{
	unlink_eval(eval);
	eval->request->state = NULL;
	debug(eval->request->session, DEBUG_EVAL, "evaluation %llu: over, code %d%s%s", (unsigned long long)eval->serial,
	      endings[eval->outcome].code, endings[eval->outcome].code ? ": " : "", endings[eval->outcome].text);
	if (eval_result_send(eval))
		request_finish(eval->request, endings[eval->outcome].code, "%s", endings[eval->outcome].text);
	else
		request_finish(eval->request, ENOMEM, "no memory for the result");
	free(eval);
}

static void cancel(struct request *request, enum cancel_reason reason)
{
	struct eval *eval = request->state;

	if (reason == CANCEL_EXIT || !eval || !NIL_P(eval->exception))
		return;
	eval->reason = reason;
	if (NIL_P(eval->thread)) {
		/* The main thread has not come to it. */
		eval->outcome = reason == CANCEL_TIMEOUT ? EVAL_TIMED_OUT : EVAL_CANCELLED;
		eval_finish(eval);
		eval_main_stop();
		return;
	}
	eval->exception = builtin_exception(evals.exception_class, reason == CANCEL_TIMEOUT ? "time limit" : "cancelled");
	eval_thread_interrupt(eval);
}

static VALUE prepare(VALUE argument)
{
	struct eval *eval = (struct eval *)argument;

	eval->binding = eval_binding(eval);
	return Qnil;
}

static void eval_begin(struct request *request, const struct command *command)
{
	struct eval *eval = calloc(1, sizeof(*eval));
	const struct slice *code = &command->arguments.text, *name = &command->arguments.name;
	bool main = command->arguments.flags & EVAL_MAIN;

	if (!eval) {
		request_finish(request, ENOMEM, "no memory");
		return;
	}
	request->state = eval;
	eval->request = request;
	eval->serial = ++evals.serial;
	eval->flags = command->arguments.flags;
	eval->limit = command->arguments.result_size_max && command->arguments.result_size_max < EVAL_TEXT_MAX
	                      ? command->arguments.result_size_max
	                      : EVAL_TEXT_MAX;
	eval->pid = getpid();
	eval->outcome = EVAL_KILLED;
	eval->code = eval->name = eval->binding = eval->base = eval->thread = eval->group = eval->exception = Qnil;
	eval->class_name = eval->text = Qnil;
	eval->next = evals.first;
	evals.first = eval;
	eval->code = rb_utf8_str_new(code->bytes, (long)code->size);
	eval->name = name->size ? rb_utf8_str_new(name->bytes, (long)name->size) : rb_utf8_str_new_cstr("(rbprobe)");
	eval->interruptible = true;
	debug(request->session, DEBUG_EVAL, "evaluation %llu: %zu bytes of code, %s", (unsigned long long)eval->serial,
	      code->size, main ? "for a trap in the main thread" : "in a thread of its own");
	if (eval_try(prepare, (VALUE)eval) && (main ? eval_main_start : eval_thread_start)(eval))
		return;
	unlink_eval(eval);
	free(eval);
	request->state = NULL;
	request_finish(request, EAGAIN,
	               main ? "every signal that could bring the code to the main thread is in use by the application"
	                    : "the process cannot start a thread for the code");
}

const struct request_kind request_eval = {.name = "eval", .begin = eval_begin, .cancel = cancel};
