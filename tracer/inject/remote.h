#ifndef RBPROBE_REMOTE_H
#define RBPROBE_REMOTE_H

#include "proto/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Another process's memory: its map, its bytes, and what its libraries define. Everything is read from the process
 * itself and nothing from files, so that chroots, containers and libraries that have been replaced on disk are no
 * different. Who may trace the process may do this; the process need not be stopped, and what it says is not trusted.
 */
struct remote_mapping {
	uint64_t start, end, offset;
	bool readable, writable, executable;
	const char *path; /* "": anonymous; "[stack]", ... ; else a file, with " (deleted)" after it where it was */
};

/* A program or library. */
struct remote_module {
	const char *path;
	uint64_t start, end; /* what it occupies, data included */
	uint64_t bias;       /* added to the addresses in its tables */
	uint64_t dynamic;    /* its dynamic section */
};

struct remote {
	pid_t pid;
	int memory; /* -1: closed */
	char *map_text;
	struct remote_mapping *mappings;
	size_t mapping_count;
	struct remote_module *modules;
	size_t module_count;
};

#define REMOTE_CLOSED ((struct remote){.memory = -1})

/* Returns 0; -EACCES, -EPERM (may not be traced), -ESRCH (gone) and others, with err. */
int remote_open(struct remote *remote, pid_t pid, struct error *err);
void remote_close(struct remote *remote);

/* All bytes or nothing. */
bool remote_read(const struct remote *remote, uint64_t address, void *bytes, size_t size);
bool remote_write(const struct remote *remote, uint64_t address, const void *bytes, size_t size);
/* A text with its NUL, cut where it is longer. False where not even that can be read. */
bool remote_read_text(const struct remote *remote, uint64_t address, char *text, size_t size);

/* NULL: nothing is mapped there. */
const struct remote_mapping *remote_mapping_at(const struct remote *remote, uint64_t address);

/* By the beginning of the file's name up to its version: "libc" finds libc.so.6 and libc-2.31.so, not libcrypto. NULL: none. */
const struct remote_module *remote_module_named(const struct remote *remote, const char *name);
/* By its whole name, also where it was loaded from a memfd of that name, or deleted since. */
const struct remote_module *remote_module_file(const struct remote *remote, const char *name);
bool remote_module_has(const struct remote_module *module, uint64_t address);

/* The address of what a module defines under that name. False: it does not, or says nothing that makes sense. */
bool remote_symbol(const struct remote *remote, const struct remote_module *module, const char *name, uint64_t *address);
/* Where a function that it defines begins and ends. */
bool remote_function(const struct remote *remote, const struct remote_module *module, const char *name, uint64_t *start,
                     uint64_t *end);
/* The address of what is defined by a library that is known by its load bias and dynamic section (struct link_map has both). */
bool remote_symbol_in(const struct remote *remote, uint64_t bias, uint64_t dynamic, const char *name, uint64_t *address);

/* Looks for code by its bytes in a module's program text; `find` gives the offset in a piece of it, or -1. 0: not there. */
uint64_t remote_text_find(const struct remote *remote, const struct remote_module *module,
                          ssize_t (*find)(const uint8_t *text, size_t size));

#endif
