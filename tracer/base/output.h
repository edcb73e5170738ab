#ifndef RBPROBE_OUTPUT_H
#define RBPROBE_OUTPUT_H

#include "tracer/base/buffer.h"

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
	bool replaces;  /* the file has what was in it before, until the first byte is written or the output ends well */
	char *made;     /* the path of a file that was not there before, until something is written */
	bool is_spared; /* nothing was written, and that is no result: output_close() leaves the file as output_give_up() does */
	bool reader_gone;    /* a closed pipe: the end of the run, and no error */
	bool held;           /* nothing is written before it is cleared, or before there is very much */
	unsigned width;      /* not 0: longer lines are folded */
	int status;          /* 0, or the first failure: then everything more is dropped */
	uint64_t written_ns; /* how long writing has taken so far: a reader that waits makes us wait */
	uint64_t before;     /* bytes that the file had, to which is appended; */
	uint64_t flushed;    /* that have left the buffer since; and those that what was received may become */
	uint64_t earned;
	struct error error;
	const char *name;
};

/* Of a file that is made: what it shows of a process is for its owner. One that was there keeps its own. */
#define OUTPUT_MODE 0600
#define OUTPUT_WRITE_SIZE (256u << 10)
#define OUTPUT_HELD_MAX (64u << 20)
#define OUTPUT_FOLD_INDENTATION 6

/* path NULL: standard output. What a file had is replaced by the first byte that is written, or by output_close(). */
int output_open(struct output *output, const char *path, bool append, struct error *err);
void output_flush(struct output *output);
/*
 * Nobody else writes to the same file until it is closed: two writers would spoil it. Negative with err: somebody does. What is
 * no file, or cannot be locked where it is, is as it was.
 */
int output_lock(const struct output *output, struct error *err);
/* What has not been written yet is as it would be written, and is not held any more. */
void output_release(struct output *output);
/* Flushes and closes; returns output->status. */
int output_close(struct output *output);
/* As well, but a file to which nothing was written stays what it was, or goes again. */
int output_give_up(struct output *output);
/* Whether it goes into a file, and not into a device or a pipe. */
bool output_is_regular(const struct output *output);
/* Whether it goes into this file; - is standard input. */
bool output_is_file(const struct output *output, const char *path);

/* Bytes of the file, with what was in it before. */
static inline uint64_t output_size(const struct output *output)
{
	return output->before + output->flushed;
}

static inline bool output_is_over(const struct output *output)
{
	return output->status != 0 || output->reader_gone;
}

/*
 * A process may make few bytes become many, by long names in short events. What real ones send becomes some hundred
 * times as much at most; more than this is a flood, meant to fill a disk.
 */
#define OUTPUT_FACTOR 2000u
#define OUTPUT_FREE (256ull << 20)

static inline void output_earn(struct output *output, size_t received)
{
	output->earned += (uint64_t)received * OUTPUT_FACTOR;
}

static inline bool output_is_flood(const struct output *output)
{
	return output->flushed + output->buffer.size > output->earned + OUTPUT_FREE;
}

static inline void output_commit(struct output *output)
{
	if (output->buffer.size >= OUTPUT_WRITE_SIZE)
		output_flush(output);
}

#endif
