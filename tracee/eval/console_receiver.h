#ifndef RBPROBE_CONSOLE_RECEIVER_H
#define RBPROBE_CONSOLE_RECEIVER_H

#include "proto/slice.h"

#include <ruby.h>

#include <stdbool.h>

/*
 * What an expression in front of a cursor stands for, found out without running code of the application: no method of it is
 * called, no constant is autoloaded, nothing is printed. Understood are literals, self, variables, constants, `Foo.new`, methods
 * made by attr_reader, and methods of Ruby's own whose name tells the class of what they return (to_s, size). Job context, GVL
 * held, under rb_protect.
 */
struct receiver {
	VALUE value; /* Qundef: only its class is known */
	VALUE class; /* whose instance methods it has; Qundef: nothing is known */
};

struct receiver receiver_find(VALUE binding, struct slice expression);

/* A class's instance method, its own or inherited, private or not, as an UnboundMethod; nil: none. */
VALUE receiver_method(VALUE class, ID id);

/* Where the expression that ends at `end` begins; end, where there is none. */
size_t receiver_begin(struct slice line, size_t end);

#endif
