#ifndef RBPROBE_EVAL_H
#define RBPROBE_EVAL_H

#include "tracee/session/request.h"
#include "tracee/vm/quiet.h"

#include <ruby.h>

#include <stdbool.h>
#include <stdint.h>

/*
 * One evaluation, shared by the files eval*.c only. Context: GVL held. Everything in here is freed by the thread that runs the
 * code, when the code is over; its request may have lost its session before.
 */

enum eval_outcome {
	EVAL_RETURNED,
	EVAL_RAISED,
	EVAL_SYNTAX_ERROR,
	EVAL_INCOMPLETE, /* a syntax error that more code could mend */
	EVAL_CANCELLED,
	EVAL_TIMED_OUT,
	EVAL_KILLED, /* its thread was: by the code itself, or at the end of the process */
	EVAL_OUTCOME_COUNT,
};

/* What is told about an exception; any of it may be nil. */
struct eval_exception {
	VALUE class_name;
	VALUE message;
	VALUE detail;    /* the message as Exception#detailed_message has it */
	VALUE backtrace; /* Array of Strings, without our own frames */
};

#define EVAL_CAUSES_MAX 4u

struct eval {
	struct request *request;
	struct eval *next;
	uint64_t serial; /* by which those know it who may come too late */
	uint32_t flags;  /* enum eval_flag */
	uint64_t limit;  /* bytes of the shown result */
	bool started;    /* the thread that is its own runs, or has run */
	pid_t pid;       /* of the process that began it: a forked child has a copy */
	VALUE code, name;
	VALUE binding;      /* in which it runs */
	struct quiet heard; /* while the code runs, which the application may hear of */
	VALUE base;         /* the backtrace behind the code's own */
	VALUE thread;
	VALUE group; /* the ThreadGroup of it and of the threads that its code starts; Qnil: it could not have one */

	/* Cancelling. */
	bool interruptible; /* the user's code runs, or is about to */
	bool interrupted;   /* exception has been raised in it */
	VALUE exception;    /* what is to be raised in it; Qnil: nobody wants to cancel it */
	enum cancel_reason reason;

	/* How it ended. */
	enum eval_outcome outcome;
	uint64_t began_ns, ended_ns;
	VALUE class_name; /* of the result */
	VALUE text;       /* its inspect, cut to the limit; Qnil: sent as output */
	uint64_t text_size;
	bool cut;
	struct eval_exception raised[1 + EVAL_CAUSES_MAX]; /* the exception, and its causes */
	unsigned raised_count;
	uint64_t line, column; /* of a syntax error; 0: not known */
};

/* eval.c. The evaluation that runs in the current thread, or in one that its code started; NULL: none. */
struct eval *eval_current(void);
/* NULL: it is over. */
struct eval *eval_find(uint64_t serial);
/* The oldest that is to run in the main thread and has not begun; NULL: none. */
struct eval *eval_waiting_for_main(void);
/* Of what is raised to cancel. */
VALUE eval_exception_class(void);
/* Tells the client, and frees it. */
void eval_finish(struct eval *eval);
/* Calls function under rb_protect. False: it raised, and that is forgotten. */
bool eval_try(VALUE (*function)(VALUE), VALUE argument);

/* eval_thread.c. Runs it in a thread of its own; false: there can be none. */
bool eval_thread_start(struct eval *eval);
/* Raises eval->exception in its thread, and goes on where that does not help. */
void eval_thread_interrupt(const struct eval *eval);

/* eval_main.c. Has it run in the main thread; false: there is no way. */
bool eval_main_start(struct eval *eval);
/* When one that was to run there has been given up. */
void eval_main_stop(void);

/* eval_run.c. In the job: the binding the code is to run in. May raise. */
VALUE eval_binding(const struct eval *eval);
/* Runs the code in the current thread, in which interrupts are held back, and notes what came of it. Does not raise. */
void eval_run(struct eval *eval);
/* Takes our own frames off the end of a backtrace of the code. */
VALUE eval_own_frames(const struct eval *eval, VALUE backtrace);

/* eval_syntax.c. If the exception in raised[0] is about the code itself: sets the outcome, and line and column. */
void eval_syntax_look(struct eval *eval);

/* eval_result.c. May run the application's methods (inspect, message), and raise. */
void eval_result_returned(struct eval *eval, VALUE result);
void eval_result_raised(struct eval *eval, VALUE error);
/* A throw to a catch of the application's, which it does not reach. */
void eval_result_thrown(struct eval *eval);
/* Sends the DATA; false where there was no memory for it. Runs no Ruby code. */
bool eval_result_send(struct eval *eval);

/*
 * eval_connections.c. Has ActiveRecord, where there is one, take back the connections of the current thread, which is about to
 * end. May run the application's methods, and raise.
 */
VALUE eval_connections_give_back(VALUE unused);

/*
 * eval_output.c: what the code writes to $stdout and $stderr goes to the client from begin to end. Both are called in the thread
 * that runs it, and do not raise.
 */
void eval_output_init(void);
void eval_output_begin(void);
void eval_output_end(void);
/*
 * Sends bytes, and waits while the client does not keep up. May raise: the thread may be interrupted meanwhile. False: there is
 * no such evaluation any more.
 */
bool eval_output_send(enum output_stream stream, const char *bytes, size_t size);

#endif
