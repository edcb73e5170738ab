#ifndef RBPROBE_CALLS_MEMORY_H
#define RBPROBE_CALLS_MEMORY_H

#include "tracer/stream/calls.h"

#include "proto/error.h"

#include <stddef.h>

/*
 * The memory that methods, fibers and open calls take, for calls.c, which counts it in stream->memory: a target may announce
 * them for ever. Methods that were replaced go when no open call needs them.
 */

/* Of a text that is a copy. */
void calls_text_free(struct slice text);

size_t calls_method_size(const struct method *method);
/* A method, and those that it has replaced. */
void calls_method_free(void *method);

/* Counts what the fiber's open calls take; to be called when many events have changed that. */
void calls_count(struct stream *stream, struct fiber *fiber);

/* After something was added. -ENOMEM and err: it is too much. */
int calls_memory_check(struct stream *stream, struct error *err);

#endif
