#ifndef RBPROBE_RUBY_PROCESSES_H
#define RBPROBE_RUBY_PROCESSES_H

#include "tracer/process/target.h"

#include <stddef.h>
#include <stdint.h>

/* Processes of which nobody knows whether they are Ruby. */
struct unseen_processes {
	size_t late;      /* there was no time for them */
	size_t of_others; /* users, whose processes only root may look at */
};

/*
 * Calls found(owner, target) for each Ruby process that may be looked at, in the order of their PIDs, also of a Ruby that is
 * no CRuby (target->other_ruby); not for copies that help rbprobe itself. At deadline_ns (clock.h) it stops. Returns 0, or a
 * negative code with err.
 */
int ruby_processes_each(enum target_detail detail, uint64_t deadline_ns, struct unseen_processes *unseen,
                        void (*found)(void *owner, const struct target *target), void *owner, struct error *err);

#endif
