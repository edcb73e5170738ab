#ifndef RBPROBE_TRACE_PERMISSION_H
#define RBPROBE_TRACE_PERMISSION_H

#include "tracer/process/target.h"

#include "proto/error.h"

#include <stdbool.h>

/*
 * Why the kernel does not let us trace a process, or look at its memory: it just says EPERM for half a dozen reasons.
 * Fills err with the one that applies and its remedy, and returns a negative code. `code` is what ptrace gave.
 */
int trace_permission_explain(const struct target *target, int code, struct error *err);

/* What the answer is made of. */
struct trace_facts {
	pid_t pid;
	int code;       /* what ptrace gave */
	bool has_ended; /* or is another process by now */
	pid_t tracer;   /* who traces it; 0: nobody */
	char tracer_name[64];
	bool ptrace_forbidden; /* to us, for any process: a seccomp filter */
	int yama_scope;        /* kernel.yama.ptrace_scope; -1: there is none */
	bool have_capability;  /* CAP_SYS_PTRACE */
	bool no_new_privs;     /* ours */
	bool same_user_namespace;
	uid_t own_euid, target_euid;
};

/* The answer; err's code is the result. */
int trace_permission_judge(const struct trace_facts *facts, struct error *err);

/* Whether only another rbprobe is in the way, which will be gone in a moment. */
bool trace_permission_waits_for_us(const struct target *target);

/* The same in a word or two, before trying. NULL: nothing is known to be in the way. */
const char *trace_permission_obstacle(const struct target *target);

#endif
