#ifndef RBPROBE_DUMP_FILE_H
#define RBPROBE_DUMP_FILE_H

#include "proto/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A file that is there as a whole or not at all: until dump_file_commit() it has no name, or, where the file system has no
 * such files, another one in the same directory. Standard output, and what is no regular file (a pipe, a device), are written
 * to directly.
 */

enum dump_packing {
	DUMP_PLAIN,
	DUMP_GZIP,
	DUMP_ZSTD,
};

struct dump_file;

/* What a packed file's name ends in: "", ".gz", ".zst". */
const char *dump_packing_suffix(enum dump_packing packing);

/*
 * path "-": standard output. The path is not copied. is_new: nobody has chosen the name, so whatever has it already is not
 * ours, and stays. A file or a link of that name is replaced, never written to. A pipe is written to only where it is the
 * user's own, or root's: another user's would get the dump. Of devices those are that do nothing of their own, and no disk. No
 * other user's link is followed (place.h). Returns 0, or negative and err.
 */
int dump_file_open(struct dump_file **made, const char *path, bool is_new, enum dump_packing packing, struct error *err);

/* What messages call it from now on, in the place of its path. The name is not copied. */
void dump_file_call(struct dump_file *file, const char *name);

/* Negative with err: it cannot be written; discard it. -EPIPE: the reader of a pipe is gone. */
int dump_file_write(struct dump_file *file, const void *bytes, size_t size, struct error *err);

/* Writes what is left, makes sure that it is on the disk, and gives it its name. Frees it in any case. */
int dump_file_commit(struct dump_file *file, struct error *err);
/* As if it had never been. NULL is allowed. */
void dump_file_discard(struct dump_file *file);

#endif
