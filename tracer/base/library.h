#ifndef RBPROBE_LIBRARY_H
#define RBPROBE_LIBRARY_H

#include "tracer/base/buffer.h"

#include "proto/error.h"

#include <stdbool.h>

/*
 * Libraries that rbprobe can be built without (mk/libraries). Where one is missing, a file X.c that needs it is empty, and
 * X_without.c stands in for it: what would be called there refuses before, by library_require().
 */
enum library {
	LIBRARY_SIMDJSON,
	LIBRARY_JANSSON,
	LIBRARY_DW,
	LIBRARY_NCURSES,
	LIBRARY_READLINE,
	LIBRARY_ZLIB,
	LIBRARY_ZSTD,
	LIBRARY_PROTOBUF,
	LIBRARY_CURL,
	LIBRARY_COUNT,
};

bool library_is_there(enum library library);

/* 0; or -ENOTSUP and err: this rbprobe was built without it, and cannot do `what`. */
int library_require(enum library library, const char *what, struct error *err);

/* For --version: a line for each that is missing; of a static rbprobe also one that names those that are there. */
void library_list(struct buffer *to);

#endif
