#ifndef RBPROBE_VISIT_H
#define RBPROBE_VISIT_H

#include "inject.h"
#include "loader.h"
#include "loader_file.h"
#include "remote.h"
#include "stop_check.h"
#include "target.h"

#include "proto/error.h"
#include "proto/startup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * One visit to a process: what loader.c has a helper process do. visit.c says in which order, the other visit_*.c how. All
 * return 0, or a negative code with the reason in visit->err. None of it is left when the helper ends, which it does right
 * behind it: so nothing is freed here.
 */
struct visit {
	const struct target *target;
	enum loader_mode mode;
	pid_t client;
	uint64_t began_ns;
	bool ring;                /* only that */
	struct loader_look *look; /* only that: Ruby frames; in memory that is shared with the client */
	bool interrupt;
	struct loader_report *report;
	struct error *err;

	struct remote remote;
	struct injection injection;
	struct stop_check check;
	struct loader_file file;
	uint64_t system_call, map, dlopen, dlerror, errno_location; /* functions in the process */
	uint64_t errno_address;  /* of the stopped thread, while it is being loaded into; 0: not known */
	bool errno_is_at_offset; /* from the thread pointer; else errno_location has to be called */
	uint64_t errno_offset;
	bool memory_file_forbidden; /* by a seccomp filter */
};

#define VISIT_LOAD_PATIENCE_NS 3000000000u
#define VISIT_LOOK_PATIENCE_NS 100000000u

/* The whole of it. */
int visit_run(struct visit *visit);

/* What the extension in the process says of itself; -1: nothing. Needs visit->remote only. */
int visit_startup_state(const struct visit *visit, const struct remote_module *extension, struct startup *startup);

/* --- visit_stop.c */

/* Reads the process's map, and finds in it what is needed for stopping and calling. Pointers to its modules die. */
int visit_map_read(struct visit *visit);

/*
 * Chooses the thread that is stopped, and becomes its tracer: the main one, or where a stop would cut short what that waits in, another. Waits for one
 * for a while. Its seize's -EPERM and the like are returned without a reason in visit->err.
 */
int visit_seize(struct visit *visit);

/*
 * Stops that thread where dlopen may be called; or, where `anywhere`, at any place: system calls and the extension's own
 * functions take no lock and allocate nothing. inject_resume() lets it go on.
 */
int visit_stop(struct visit *visit, bool anywhere, uint64_t patience_ns);

/* A call in the stopped process. */
int visit_call(struct visit *visit, uint64_t function, uint64_t one, uint64_t two, uint64_t *result);

/* Private memory for the stopped process, as its mmap() gives it. */
int visit_call_map(struct visit *visit, size_t size, uint64_t *address);

/* A system call in the stopped process; -1 is a failure like any other result, errno being the process's. */
int visit_call_system(struct visit *visit, long number, uint64_t one, uint64_t two, uint64_t three, uint64_t four,
                      int64_t *result);

/* --- visit_look.c */

/* Has the thread that visit->look names tell Ruby frames, by a function of the extension's. */
int visit_look(struct visit *visit, const struct remote_module *extension);

/* --- visit_open.c */

/* Opens the extension in the stopped process, by its path or from memory. Its dlopen handle. */
int visit_open(struct visit *visit, uint64_t *handle);

/* The address of what the library of that handle defines. */
bool visit_symbol_of_handle(const struct visit *visit, uint64_t handle, const char *name, uint64_t *address);

/* --- visit_confinement.c */

/* Whether the extension could do its work there: what a seccomp filter lets it. */
int visit_check_confinement(struct visit *visit);

#endif
