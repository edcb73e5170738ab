#ifndef RBPROBE_RUBY_PROCESSES_H
#define RBPROBE_RUBY_PROCESSES_H

#include "tracer/process/target.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Calls found(owner, target) for each Ruby process that may be looked at, in the order of their PIDs; not for copies that
 * help rbprobe itself. At deadline_ns (clock.h) it stops, and *late processes were not looked at. Returns 0, or a negative
 * code with err.
 */
int ruby_processes_each(enum target_detail detail, uint64_t deadline_ns, size_t *late,
                        void (*found)(void *owner, const struct target *target), void *owner, struct error *err);

#endif
