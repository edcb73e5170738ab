#ifndef RBPROBE_LOADER_FILE_H
#define RBPROBE_LOADER_FILE_H

#include "tracer/inject/remote.h"
#include "tracer/process/target.h"

#include "proto/error.h"

#include <limits.h>
#include <stdbool.h>

/*
 * The extension's file that fits a process's Ruby, held in memory so that it is not waited for while the process is
 * stopped. The memory is let go of by the end of our own process, which a load has to itself.
 */
struct loader_file {
	char path[PATH_MAX];
	bool visible; /* the process finds the very same file under that path */
	char *bytes;
	size_t size; /* of what a process maps of it: the symbols for debuggers after that are left out */
};

/* Whether the process's program is of a kind that libraries can be loaded into. 0, or -ENOEXEC and err. */
int loader_file_possible(const struct target *target, struct error *err);

/*
 * remote may be NULL; with it, the ABI is found out even where no file of the process's Ruby can be read. 0, or
 * negative and err.
 */
int loader_file_open(struct loader_file *file, const struct target *target, const struct remote *remote, struct error *err);

#endif
