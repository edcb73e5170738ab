#ifndef RBPROBE_STOP_CHECK_H
#define RBPROBE_STOP_CHECK_H

#include "tracer/inject/inject.h"
#include "tracer/inject/remote.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Whether a thread, stopped where it is, may call the dynamic loader. The loader allocates memory and takes locks, and so
 * must not be called from within itself or within malloc: the heap would be corrupted, or the thread would wait for a lock
 * that it holds itself.
 *
 * With musl, libc and the dynamic loader are one library, so that every system call is made from within the loader. Its locks are
 * all in that library's data, and it loads with the function dlopen and nothing else: that is looked for on the stack.
 */

#define STOP_CHECK_MODULES_MAX 8

struct stop_check {
	const struct remote *remote;
	const struct remote_module *libc;
	const struct remote_module *libpthread; /* NULL where it is a part of libc */
	const struct remote_module *loader;     /* ld.so; NULL: libc is the loader (musl) */
	uint64_t dlopen_start, dlopen_end;      /* musl's function */
	/* What else defines malloc: jemalloc, tcmalloc, ... */
	const struct remote_module *allocators[STOP_CHECK_MODULES_MAX];
	size_t allocator_count;
	uint64_t loader_state; /* address of _r_debug.r_state */
	uint64_t restorers[2]; /* where signal handlers return to: libc's and libpthread's; 0: none, or not looked for */
};

/* Finds all that in the process. False: it has no dynamic loader, or not glibc's or musl's. */
bool stop_check_init(struct stop_check *check, const struct remote *remote);

/* The objection that goes away when the map is read again: the thread has another stack than any that was there (a fiber's). */
extern const char stop_check_new_stack[];

/*
 * Judges a stop. NULL: the thread may call; else why not, as the end of a sentence about the thread ("it was allocating
 * memory"). Looks only at memory; the thread must be stopped.
 */
const char *stop_check_objection(const struct stop_check *check, const struct injection *injection);

/* The same for a call of anything. */
const char *stop_check_restartable(const struct stop_check *check, const struct injection *injection);

#endif
