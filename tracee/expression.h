#ifndef RBPROBE_EXPRESSION_H
#define RBPROBE_EXPRESSION_H

#include "call.h"
#include "proto/command.h"
#include "proto/error.h"
#include "text.h"

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
	char *label;       /* owned; as the user wrote it, or the parameter's name */
	ID id;             /* the variable's, of EXPRESSION_IVAR and EXPRESSION_LOCAL */
	VALUE code;        /* EXPRESSION_COMPILED: calls a method with the expression as its body (core_caller), ... */
	VALUE names;       /* ... and the Array of the parameters it takes, as Symbols: the first are the method's ... */
	long own_names;    /* ... and so many stand for what the expression would otherwise call: `caller`, `caller_locations` */
	unsigned number;   /* EXPRESSION_ARGUMENT: from 1, 0 is the block; EXPRESSION_REST: the first of them */
	bool optional;     /* left out where the call has no such argument */
	bool switched_off; /* it ran into its time limit once */
};

struct expression_list {
	uint32_t count;
	struct expression items[];
};

/*
 * Builds the list for a method: the selector's expressions, then, where arguments are wanted, all parameters; those of a C method whose arguments will
 * be at hand (`in_hand`) are arg1, arg2, ... and block. method is an UnboundMethod and owner its class, whose constants the expressions see. Job context, under rb_protect (raises SyntaxError with the compiler's words).
 * NULL where there is nothing to show. The caller frees it with expression_list_free(), and marks it.
 */
struct expression_list *expression_list_new(const struct selector *selector, VALUE method, VALUE owner, bool arguments,
                                            bool in_hand);
/* The number of a C method's argument with this name, a Symbol; 0: block. */
unsigned expression_argument_number(VALUE name);
void expression_list_free(struct expression_list *list);
void expression_list_mark(const struct expression_list *list);

/*
 * The values of all items at a call event, rendered into buffer as one msgpack array of texts. Returns its bytes. Runs application code where the
 * user asked for it; what that raises becomes the value. *jump is set to a rb_jump_tag() state where the thread must not go on
 * (killed, throw): the caller finishes its own work and then jumps.
 */
size_t expression_list_render(struct expression_list *list, const struct seen_call *call, const struct trace_options *options,
                              char *buffer, size_t size, int *jump);

/* One value, or an exception's class and message, as such an array. */
size_t expression_render_result(VALUE value, const struct trace_options *options, char *buffer, size_t size, int *jump);
size_t expression_render_exception(VALUE exception, const struct trace_options *options, char *buffer, size_t size, int *jump);

#endif
