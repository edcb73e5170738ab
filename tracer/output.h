#ifndef RBPROBE_OUTPUT_H
#define RBPROBE_OUTPUT_H

#include "buffer.h"

#include "proto/error.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Where results go: standard output or a file. Sinks add whole lines to `buffer` and call output_commit() after each;
 * it writes when enough has come together, so that a line is never torn between two writes.
 */
struct output {
	struct buffer buffer;
	int fd;
	bool own_fd;
	bool reader_gone;    /* a closed pipe: the end of the run, and no error */
	int status;          /* 0, or the first failure: then everything more is dropped */
	uint64_t written_ns; /* how long writing has taken so far: a reader that waits makes us wait */
	struct error error;
	const char *name;
};

#define OUTPUT_WRITE_SIZE (256u << 10)

/* path NULL: standard output. */
int output_open(struct output *output, const char *path, bool append, struct error *err);
void output_flush(struct output *output);
/* Flushes and closes; returns output->status. */
int output_close(struct output *output);

static inline bool output_is_over(const struct output *output)
{
	return output->status != 0 || output->reader_gone;
}

static inline void output_commit(struct output *output)
{
	if (output->buffer.size >= OUTPUT_WRITE_SIZE)
		output_flush(output);
}

#endif
