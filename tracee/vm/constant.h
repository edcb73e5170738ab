#ifndef RBPROBE_CONSTANT_H
#define RBPROBE_CONSTANT_H

#include "proto/slice.h"

#include <ruby.h>
#include <stdbool.h>

/*
 * The class or module that is now at a path of constants, "Billing::Order"; Qnil where there is none. Loads nothing, and runs no
 * code of the application's. Job context; may raise.
 */
VALUE constant_module(struct slice path);

/* The same of a constant of Object; not of those of a box. Also in an event, with the GVL held. Neither allocates nor raises. */
VALUE constant_module_at_hand(const char *name);

/* Whatever that constant of Object is; Qundef where there is none, or one that would have to be loaded. As above. */
VALUE constant_at_hand(const char *name);

/* Whether a text could be such a path. "Time::tm", "ARGF.class", "#<Class:0x1>" and "Billing::*" could not. Any context. */
bool constant_may_be_path(struct slice text);

#define CONSTANT_VERSION_MAX 64

/*
 * The String that is a library's version, at a path such as "Redis::VERSION", "ActiveRecord::VERSION::STRING" or "Rack::RELEASE";
 * Qnil where there is none. No other constant is told, and no String that is no version. As above.
 */
VALUE constant_version(struct slice path);

#endif
