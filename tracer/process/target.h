#ifndef RBPROBE_TARGET_H
#define RBPROBE_TARGET_H

#include "proto/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What a process does with SIGURG, the bell's signal. */
enum sigurg_use {
	SIGURG_DEFAULT,
	SIGURG_CAUGHT,
	SIGURG_IGNORED,
};

/* A process as /proc shows it. It is a moment's picture: ask target_is_same() before acting on it. */
struct target {
	pid_t pid;
	pid_t group_pid;      /* the process that it is a thread of: itself, unless a thread was meant */
	pid_t own_pid;        /* as the process sees itself; differs from pid in a container */
	uint64_t start_ticks; /* since boot: with the PID it names the process for good */
	char state;           /* R S D T t Z ... */
	uid_t euid;
	gid_t egid;
	enum sigurg_use sigurg;
	bool readable;         /* its memory map was read: it is ours, or we are root */
	bool is_ruby;          /* the maps below are known only if readable */
	int program_error;     /* negative: whether it is Ruby is not known, as its program cannot be looked at */
	bool has_memory;       /* a thread of the kernel's has none, nor has a process that has ended */
	bool extension_mapped; /* rbprobe.so is loaded */
	bool truffleruby_mapped;
	const char *other_ruby; /* "JRuby", ...: Ruby, but no CRuby (other_ruby.h), and so not is_ruby; NULL: not */
	bool musl_mapped;       /* its libc is musl */
	bool same_pid_namespace;
	bool same_ipc_namespace;
	char libruby[512]; /* the file that holds the VM, as its maps name it */
	char abi[32];      /* "3.1.0"; "": not known */
	char ruby_version[32];
	char program[640]; /* what it executes: device, inode and name of the file, as its maps have it; "": not known */
};

enum target_detail {
	TARGET_BASIC,   /* what attaching needs */
	TARGET_VERSION, /* and the version of Ruby, which means reading the VM's file */
};

/* --- target_describe.c */

/* Returns 0; -ESRCH (no such process), -EPERM (it may not be looked at) and others, with err. */
int target_describe(struct target *target, pid_t pid, enum target_detail detail, struct error *err);

/* Looks again whose it is. True: another user's than before, which it knows from now on. */
bool target_follow_user(struct target *target);

/* --- target_check.c */

/*
 * Whether the rbprobe command of this user can do anything with it: 0, or a negative code and why not, and what to do
 * about it.
 */
int target_check(const struct target *target, struct error *err);
/* Whether it can be attached to as it is, by SIGURG. */
int target_check_loaded(const struct target *target, struct error *err);

/* As target_check, in a word or two: "yes", "not loaded", ... For tables. */
const char *target_attachable(const struct target *target);

/* --- target.c */

/* Whether the PID is still the process that was described. */
bool target_is_same(const struct target *target);

/* The state letter now; 0: gone, or another process. */
char target_state(const struct target *target);

/* When the process started, by the wall clock. */
int64_t target_start_time(const struct target *target);

/* Its command line, words separated by blanks, into text. Empty for a process without one. */
void target_command_line(const struct target *target, char *text, size_t size);

#endif
