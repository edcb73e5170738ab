#ifndef RBPROBE_LOAD_H
#define RBPROBE_LOAD_H

#include "tracer/inject/inject.h"
#include "tracer/inject/loader.h"
#include "tracer/inject/loader_file.h"
#include "tracer/inject/remote.h"
#include "tracer/inject/stop_check.h"
#include "tracer/process/target.h"

#include "proto/error.h"
#include "proto/startup.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * One load: what loader.c has a helper process do to a process, which may also be to ring in it, or to look at its
 * frames. load.c says in which order, the other load_*.c how. All return 0, or a negative code with the reason in
 * load->err. None of it is left when the helper ends, which it does right after it: so nothing is freed here.
 */
struct load {
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

/* The thread that was to be stopped has ended, and the process has not. */
#define LOAD_THREAD_LEFT (-EOWNERDEAD)

#define LOAD_PATIENCE_NS 3000000000u
#define LOAD_LOOK_PATIENCE_NS 100000000u

/* The whole of it. */
int load_run(struct load *load);

/* What the extension in the process says of itself; -1: nothing. Needs load->remote only. */
int load_startup_state(const struct load *load, const struct remote_module *extension, struct startup *startup);

/* --- load_stop.c */

/* Reads the process's map, and finds in it what is needed for stopping and calling. Pointers to its modules die. */
int load_map_read(struct load *load);

/*
 * Chooses the thread that is stopped, and becomes its tracer: the main one, or where a stop would cut short what that
 * waits in, another. Waits for one for a while. Its seize's -EPERM and the like are returned without a reason in
 * load->err.
 */
int load_seize(struct load *load);

/*
 * Stops that thread where dlopen may be called; or, where `anywhere`, at any place: system calls and the extension's own
 * functions take no lock and allocate nothing. inject_resume() lets it go on.
 */
int load_stop(struct load *load, bool anywhere, uint64_t patience_ns);

/* A call in the stopped process. */
int load_call(struct load *load, uint64_t function, uint64_t one, uint64_t two, uint64_t *result);

/* Private memory for the stopped process, as its mmap() gives it. */
int load_call_map(struct load *load, size_t size, uint64_t *address);

/* A system call in the stopped process; -1 is a failure like any other result, errno being the process's. */
int load_call_system(struct load *load, long number, uint64_t one, uint64_t two, uint64_t three, uint64_t four, int64_t *result);

/* --- load_look.c */

/* Calls a function of the extension in the thread that load->look names, which reports Ruby frames. */
int load_look(struct load *load, const struct remote_module *extension);

/* --- load_open.c */

/* Opens the extension in the stopped process, by its path or from memory. Its dlopen handle. */
int load_open(struct load *load, uint64_t *handle);

/* The address of what the library of that handle defines. */
bool load_symbol_of_handle(const struct load *load, uint64_t handle, const char *name, uint64_t *address);

/* --- load_confinement.c */

/* Whether the extension could do its work there: what a seccomp filter lets it. */
int load_check_confinement(struct load *load);

#endif
