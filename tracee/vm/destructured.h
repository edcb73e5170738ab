#ifndef RBPROBE_DESTRUCTURED_H
#define RBPROBE_DESTRUCTURED_H

#include <ruby.h>

/*
 * The variables of destructured parameters: b and c of `def f(a, (b, *c))`. Ruby's `parameters` does not name them; the method's
 * instructions do. Job context, GVL held, under rb_protect. Runs no application code.
 *
 * Returns an Array with an Array of Symbols for each such parameter of the UnboundMethod, in their order. Where the instructions
 * are not of the expected kind, those that could be read.
 */
VALUE destructured_names(VALUE method);

#endif
