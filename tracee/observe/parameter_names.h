#ifndef RBPROBE_PARAMETER_NAMES_H
#define RBPROBE_PARAMETER_NAMES_H

#include <ruby.h>

#include <stdbool.h>

/* The arguments of a C method that takes any number: so many have names of their own. */
#define C_ARGUMENTS_LABELLED 16

/* What a method, an UnboundMethod, calls its arguments. Job context, GVL held; all may raise but parameter_is_nameless(). */

/* The parameters, as Symbols, as far as a call has them when it is seen. */
VALUE parameter_names(VALUE method);
/* Those of a method in C, whose arguments are at hand: arg1, arg2, ... and block, as far as it takes them. */
VALUE parameter_names_in_hand(VALUE method);

/* `*`, `**` and `&` by themselves. */
bool parameter_is_nameless(VALUE name);
/* Which of the frame's variables `*` or `**` is, from 1; 0: the one of that name, if any is. */
unsigned parameter_position(VALUE method, VALUE name);

#endif
