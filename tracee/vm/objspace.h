#ifndef RBPROBE_OBJSPACE_H
#define RBPROBE_OBJSPACE_H

#include "proto/error.h"

#include <ruby.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Ruby's objspace extension, used by its C functions and without `require`, which in many applications is code of their own. GVL
 * held; what may raise is under rb_protect in here.
 */

/* Where its library is, as the process sees it; checks that it is there. 0, or negative and err. Nothing is loaded. */
int objspace_find(char *path, size_t size, struct error *err);

/* Loads it, if that was not done before. It stays: as in the application itself, if it is the application that calls. */
int objspace_load(const char *path, struct error *err);

/*
 * All objects as JSON lines to that descriptor, which is closed. The GVL is kept, no Ruby code runs, and nothing else than
 * writing blocks: who reads at the other end must not wait for this process. Before them comes a root that refers to all objects
 * of rbprobe's, and to `also` (an Array, whose elements are not, or Qnil); *own is how many these are. It says that a root
 * `rbprobe end` follows as the last line, which refers to nothing.
 */
int objspace_dump(int descriptor, VALUE also, uint64_t *own, struct error *err);

/* Where objects are allocated is recorded from now on, until as many stops. */
int objspace_trace_allocations(struct error *err);
/* Whether somebody else in the process records them, too. Before objspace_trace_allocations(). */
bool objspace_is_tracing(void);
/* forget: also what was recorded. */
void objspace_stop_tracing(bool forget);

#endif
