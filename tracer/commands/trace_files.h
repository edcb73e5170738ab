#ifndef RBPROBE_TRACE_FILES_H
#define RBPROBE_TRACE_FILES_H

#include "tracer/base/output.h"
#include "tracer/cli/options.h"
#include "tracer/stream/sink.h"

#include <sys/types.h>

/* Where the processes of a run are shown: all in one place, or with %p in -o each in a file of its own. */

/* Who makes the sinks of a run. NULL functions: one of --format, which needs no end. */
struct sink_maker {
	struct sink *(*make)(void *owner, struct output *output);
	void (*end)(void *owner, struct sink *sink); /* shows what is left */
	void *owner;
	/* Each process's own file, before anything is written: 0, or negative with err. NULL: any will do. */
	int (*fit)(const struct output *output, const char *path, bool append, struct error *err);
};

struct sink *sink_make(const struct sink_maker *maker, const struct options *options, struct output *output);
/* Shows what is left in it, and frees it. NULL: nothing. */
void sink_end(const struct sink_maker *maker, struct sink *sink);

/* One process's. */
struct trace_file {
	struct output output;
	struct sink *sink; /* NULL: it has none */
};

/* 0, or negative with err. */
int trace_file_open(struct trace_file *file, pid_t pid, const struct options *options, const struct sink_maker *maker,
                    struct error *err);
/* 0, or negative after a line on stderr. Does nothing where none is open. */
int trace_file_close(struct trace_file *file, const struct sink_maker *maker);

#endif
