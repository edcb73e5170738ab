#ifndef RBPROBE_LOADER_H
#define RBPROBE_LOADER_H

#include "tracer/process/target.h"

#include "proto/error.h"
#include "proto/stuck.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Putting the extension into a process that never required it, and ringing its bell where the application uses SIGURG for
 * itself. The process's main thread is stopped for a millisecond or two, made to call dlopen, and goes on where it was;
 * load.c describes the steps. All functions wait for the result. After a failure all is as before, or the library is mapped
 * and all else is as before.
 */

/* What a process is that can be attached to without loading it, for messages. */
#define LOADER_READY_REMEDY "start it with the extension instead: ruby -I \"$(rbprobe extension-dir)\" -rrbprobe ..."

/* How a process learns that there is a command for it. */
enum loader_bell {
	LOADER_BELL_SIGNAL, /* by SIGURG, which the extension catches */
	LOADER_BELL_CALL,   /* by loader_ring(): SIGURG is the application's own */
};

struct loader_report {
	enum loader_bell bell;
	bool loaded;         /* it was not before */
	bool started;        /* the extension was asked to start, and makes its queue by itself: no ring is needed */
	bool from_memory;    /* the file is not visible to the process; it got a copy in memory */
	pid_t thread;        /* which was stopped */
	unsigned stops;      /* how often it was stopped until it could be done */
	uint64_t stopped_ns; /* the longest stop */
	uint64_t waited_ns;  /* of that: ready to run, thread or loader, and without a processor */
	uint64_t took_ns;
};

enum loader_mode {
	LOADER_LOOK,   /* as LOADER_ATTACH, but loads nothing */
	LOADER_ATTACH, /* loads where that is needed, for a session: its queue is made, and SIGURG given back afterwards */
	LOADER_STAY, /* loads where that is needed, and has the extension stay ready for clients who may not trace the process */
};

struct loader_wish {
	enum loader_mode mode;
	bool interrupt; /* stops the main thread even in a system call that then ends early; else another, or waits */
};

/*
 * Makes a process ready for a session. Returns 0 with the report. Negative with err: -ENOEXEC (the extension is not loaded
 * and LOADER_LOOK was asked for, or it cannot be loaded here), -EPERM, -ESRCH, -EBUSY, -ETIMEDOUT, ... Where the extension is
 * loaded and only the look at the bell is refused (another debugger, no permission to trace), that is no error: the signal is
 * used.
 */
int loader_prepare(const struct target *target, const struct loader_wish *wish, struct loader_report *report, struct error *err);

/* One line on what was done, for -v. */
void loader_describe(const struct loader_report *report, pid_t pid, char *text, size_t size);

/* Whether nobody has SIGURG: a bell of the kind LOADER_BELL_SIGNAL needs loader_prepare() again. */
bool loader_bell_is_gone(const struct target *target);

/* Rings a bell of the kind LOADER_BELL_CALL. 0; -EAGAIN (not now: ring again); other negatives with err. */
int loader_ring(const struct target *target, struct error *err);

/*
 * Whether a loaded extension has started in the VM: 1; 0: not yet; negative with err: it has failed to, and why. Reads memory
 * only; where that is not allowed it is taken for started.
 */
int loader_has_started(const struct target *target, struct error *err);

/*
 * Ruby frames of a process whose VM runs no job: a thread is stopped wherever it is, and reports its own and the
 * others' (rbprobe_stuck_look in tracee/session/stuck_look.c). The extension has to be mapped; it need not have
 * started.
 */
struct loader_look {
	pid_t tid;      /* the thread that is stopped, as we see it */
	bool others;    /* also those of other threads, where this one computes */
	bool cut;       /* there may be more threads */
	unsigned count; /* of looks; the first is the thread's own */
	struct stuck_look looks[STUCK_THREADS_MAX];
};

/* 0; -EAGAIN: that thread has not the GVL; other negatives with err. */
int loader_look(const struct target *target, struct loader_look *look, struct error *err);

/*
 * Why the extension could not be loaded into a process, in a word or two, for tables. NULL: it probably could; only
 * trying shows it.
 */
const char *loader_obstacle(const struct target *target);

#endif
