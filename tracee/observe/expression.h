#ifndef RBPROBE_EXPRESSION_H
#define RBPROBE_EXPRESSION_H

#include "proto/command.h"
#include "proto/error.h"
#include "tracee/base/text.h"
#include "tracee/observe/call.h"

#include <ruby.h>
#include <ruby/debug.h>

#include <stdbool.h>

/* What is shown of each call of a method: compiled once, when the method is armed. */

enum expression_kind {
	EXPRESSION_SELF,
	EXPRESSION_IVAR,     /* read directly, no method is called */
	EXPRESSION_LOCAL,    /* a parameter */
	EXPRESSION_ARGUMENT, /* of a C method, by its number */
	EXPRESSION_REST,     /* those behind the last that has a label */
	EXPRESSION_SOURCE,   /* __source__: the place of the call */
	EXPRESSION_COMPILED, /* anything else */
};

struct expression {
	enum expression_kind kind;
	char *label; /* owned; as the user wrote it, or the parameter's name */
	ID id;       /* the variable's, of EXPRESSION_IVAR and EXPRESSION_LOCAL */
	VALUE code;  /* EXPRESSION_COMPILED: calls a method with the expression as its body (builtin_caller), ... */
	VALUE names; /* ... and the Array of the parameters it takes, as Symbols: the first are the method's ... */
	/* ... and so many stand for what is no parameter: `caller`, `caller_locations`, and in conditions how the call ended */
	long own_names;
	unsigned number;   /* EXPRESSION_ARGUMENT: from 1, 0 is the block; EXPRESSION_REST: the first of them */
	unsigned place;    /* EXPRESSION_LOCAL: where the frames of ... */
	uintptr_t in_code; /* ... these instructions have it (frame_locals.h); 0: not known */
	bool is_block;     /* EXPRESSION_LOCAL: it is the method's block, which no frame has */
	bool is_nameless;  /* EXPRESSION_LOCAL: `*` or `**`, which only the frame has; left out where it does not */
	unsigned position; /* ... and which of its variables that is, from 1, if none has the name */
	bool optional;     /* left out where the call has no such argument, or the line no such variable at that moment */
	bool switched_off; /* it ran into its time limit once */
};

struct expression_list {
	uint32_t count;
	uint32_t ends; /* of a list for the end: so many are expressions, and stand before the variables */
	struct expression items[];
};

struct expression_wish {
	bool all;     /* parameters or variables, too */
	bool in_hand; /* of a C method whose arguments will be at hand: they are arg1, arg2, ... and block */
	bool ends;    /* expressions about the end of a call are in the list for that alone */
};

/*
 * Builds the list for a method: the selector's expressions, then, where all are wanted, its parameters. method is an
 * UnboundMethod and owner its class, whose constants the expressions see. Job context, under rb_protect (raises SyntaxError with
 * the compiler's words). NULL where there is nothing to show. The caller frees it with expression_list_free(), and marks it.
 */
struct expression_list *expression_list_new(const struct selector *selector, VALUE method, VALUE owner,
                                            struct expression_wish wish);
/* The same for a line that sees the local variables `names`, an Array of Symbols; with `all` these follow. */
struct expression_list *expression_list_new_for_line(const struct selector *selector, VALUE names, VALUE owner, bool all);
/*
 * What is shown when a call ends: the selector's expressions about that, which read a `result`, `error` or `elapsed` that is no
 * parameter of the method, if they are wished for; then all local variables of a method that is written in Ruby, those of its
 * blocks not among them, where these are.
 */
struct expression_list *expression_list_new_for_end(const struct selector *selector, VALUE method, VALUE owner,
                                                    struct expression_wish wish);
/* The number of a C method's argument with this name, a Symbol; 0: block. */
unsigned expression_argument_number(VALUE name);
void expression_list_free(struct expression_list *list);
void expression_list_mark(const struct expression_list *list);

/*
 * A condition, compiled for a method as above: a list of one. The names of struct call_outcome go before parameters of these
 * names. expression_condition_check() raises SyntaxError where it would compile for no method.
 */
struct expression_list *expression_condition_new(struct slice source, VALUE method, VALUE owner, bool in_hand);
struct expression_list *expression_condition_new_for_line(struct slice source, VALUE names, VALUE owner);
void expression_condition_check(struct slice source);

enum expression_truth {
	EXPRESSION_FALSE,
	EXPRESSION_TRUE,
	EXPRESSION_FAILED, /* it raised, or ran into its time limit, now (`why` has the words) or before */
};

/* Evaluates a condition. Event context; runs application code. *jump as below. */
enum expression_truth expression_test(struct expression_list *condition, const struct seen_call *call,
                                      const struct trace_options *options, struct text *why, int *jump);

/*
 * The value of a list's only expression, when a call begins, as the name of a key. What it raises is "(error: Class)", and `why`,
 * unless it is NULL, has the words; nothing is left in the name where it was given up. False: it ran into its time limit, and is
 * switched off. Event context; runs application code where the expression does. *jump as below.
 */
bool expression_key(struct expression_list *list, const struct seen_call *call, const struct trace_options *options,
                    struct text *name, struct text *why, int *jump);

/*
 * The values of all items at a call event, rendered into buffer as one msgpack array of texts. Returns its bytes. Runs
 * application code where the user asked for it; what that raises becomes the value. *jump is set to a rb_jump_tag() state where
 * the thread must not go on (killed, throw): the caller finishes its own work and then jumps.
 */
size_t expression_list_render(struct expression_list *list, const struct seen_call *call, const struct trace_options *options,
                              char *buffer, size_t size, int *jump);

/*
 * The same where nothing has to be called for any of them, as for most numbers and texts: no Ruby code runs, nothing raises or
 * allocates, and no other thread gets in between. 0: it is not so, and nothing has happened.
 */
size_t expression_list_render_plain(struct expression_list *list, const struct seen_call *call,
                                    const struct trace_options *options, char *buffer, size_t size);

/* Puts what the above gives into an array that takes `used` bytes of the buffer, as its last element; 0: there is none yet. */
size_t expression_append_ends(struct expression_list *list, const struct seen_call *call, const struct trace_options *options,
                              char *buffer, size_t used, size_t size, int *jump);

/* One value, or an exception's class and message, as such an array. */
size_t expression_render_result(VALUE value, const struct trace_options *options, char *buffer, size_t size, int *jump);
size_t expression_render_exception(VALUE exception, const struct trace_options *options, char *buffer, size_t size, int *jump);

#endif
