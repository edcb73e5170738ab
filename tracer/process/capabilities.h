#ifndef RBPROBE_CAPABILITIES_H
#define RBPROBE_CAPABILITIES_H

#include "tracer/process/target.h"

#include "proto/error.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * What a root without all of its capabilities, as in a container, lacks to attach to a process of another user. The kernel
 * refuses one step after the other; here they are all named at once.
 */

/*
 * code: why something failed that attaching needs. Where that is a right, and we are such a root, err gets the capabilities that
 * are missing in the place of what it says. Gives code.
 */
int capabilities_explain(const struct target *target, int code, struct error *err);

/* The same before anything is tried, for what would be refused without a word: a message queue is not seen then. */
int capabilities_check(const struct target *target, struct error *err);

/* What is made of these facts. False: nothing is missing. */
struct capability_facts {
	uint64_t ours; /* CapEff */
	bool loads;    /* the extension has to be loaded */
	bool closed;   /* the kernel keeps the process's own user from tracing it, too: it changed its user without an exec */
	pid_t pid;
	uid_t user;
};
bool capabilities_judge(const struct capability_facts *facts, struct error *err);

#endif
