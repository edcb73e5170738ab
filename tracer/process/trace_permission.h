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
	char own_label[64]; /* what AppArmor or SELinux confine us to, and it: "docker-default (enforce)"; "": nothing says so */
	char label[64];
	bool ptrace_forbidden; /* to us, for any process: a seccomp filter */
	int yama_scope;        /* kernel.yama.ptrace_scope; -1: there is none */
	bool have_capability;  /* CAP_SYS_PTRACE */
	bool no_new_privs;     /* ours */
	bool same_user_namespace;
	bool closed; /* as trace_permission_is_closed() says */
	uid_t own_euid, target_euid;
};

/* The answer; err's code is the result. */
int trace_permission_judge(const struct trace_facts *facts, struct error *err);

/* Whether only another rbprobe is in the way, which will be gone in a moment. */
bool trace_permission_waits_for_us(const struct target *target);

/* The same in a word or two, before trying. NULL: nothing is known to be in the way. */
const char *trace_permission_obstacle(const struct target *target);

/*
 * Whether the kernel keeps the process's own user from tracing it, since it changed its user or its program may not be read: what
 * /proc shows of it belongs to root then. Of a process of root's that cannot be told.
 */
bool trace_permission_is_closed(const struct target *target);

#endif
