#ifndef RBPROBE_TRACER_FILE_H
#define RBPROBE_TRACER_FILE_H

#include "tracer/cli/selector.h"

#include "proto/error.h"
#include "proto/marks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A tracer: a file with selectors that belong together, as rbtrace has them, and lines that begin with `#:`, which are comments
 * to rbtrace. rbprobe-tracers(1) describes the format.
 */

#define TRACER_SIZE_MAX (256u << 10) /* bytes of a file */
#define TRACER_LIBRARIES_MAX 32u

struct tracer_file {
	char *name;              /* as it is called, without directory and suffix */
	char *path;              /* for people */
	char *text;              /* which everything below points into */
	const char *description; /* "": it has none */
	const char *libraries[TRACER_LIBRARIES_MAX];
	const char *versions[TRACER_LIBRARIES_MAX]; /* of each the constant that is its version; NULL: none is named */
	uint32_t library_count;
	struct selector_list selectors; /* .set is from 1 on in each tracer; .tracer is the number of the library, 0: of none */
	uint32_t sets;
	uint32_t marks;    /* bits by enum mark_kind: events that it wants */
	const char *raise; /* which exceptions, with those of MARK_RAISE; "": all */
};

/* What one file says. The text is cut up, and freed with the tracer, also where this fails: -EINVAL with err naming the line. */
int tracer_file_parse(struct tracer_file *file, const char *path, char *text, struct error *err);
void tracer_file_free(struct tracer_file *file);

/*
 * An expression as a tracer has it, `by statement: sql.upcase`: whether it is for `stat --by` alone. Then it loses its first
 * word.
 */
bool tracer_expression_is_key(struct slice *expression);

#endif
