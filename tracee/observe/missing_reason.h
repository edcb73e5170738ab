#ifndef RBPROBE_MISSING_REASON_H
#define RBPROBE_MISSING_REASON_H

#include <ruby.h>

/*
 * The VM notes for a thread why the last method was missing, and what `super` in a method_missing raises goes by that. An
 * expression that names something unknown leaves its own note: for the application NoMethodError became NameError.
 *
 * After an expression that raised this: makes the note the common one (vm_eval.c: MISSING_NOENTRY), with which NoMethodError is
 * raised, which is a NameError as well. What it was before cannot be asked for. Event context, with events suppressed; runs no
 * code of the application's, raises nothing.
 */
void missing_reason_reset(VALUE raised);

#endif
