#ifndef RBPROBE_CONSTANT_H
#define RBPROBE_CONSTANT_H

#include "proto/slice.h"

#include <ruby.h>

/*
 * The class or module that is now at a path of constants, "Billing::Order"; Qnil where there is none. Loads nothing, and runs no
 * code of the application's. Job context; may raise.
 */
VALUE constant_module(struct slice path);

#endif
