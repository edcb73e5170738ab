/* What a target makes us remember, and how much of it. See calls_memory.h. */

#include "tracer/stream/calls_memory.h"

#include <errno.h>
#include <stdlib.h>

#define SWEEP_MIN (64u << 20) /* bytes */

void calls_text_free(struct slice text)
{
	free((char *)text.bytes);
}

static size_t labels_size(const struct labels *labels)
{
	size_t size = 2 * labels->count * sizeof(struct slice);

	for (uint32_t i = 0; i < labels->count; i++)
		size += labels->names[i].size + labels->shown[i].size;
	return size;
}

static void labels_free(const struct labels *labels)
{
	for (uint32_t i = 0; i < labels->count; i++) {
		calls_text_free(labels->names[i]);
		calls_text_free(labels->shown[i]);
	}
	free(labels->names);
	free(labels->shown);
}

size_t calls_method_size(const struct method *method)
{
	return sizeof(*method) + method->class_name.size + method->method_name.size + method->file.size + method->shown.size +
	       method->prepared.capacity + labels_size(&method->labels) + labels_size(&method->locals);
}

static void method_free_one(struct method *method)
{
	labels_free(&method->labels);
	labels_free(&method->locals);
	calls_text_free(method->class_name);
	calls_text_free(method->method_name);
	calls_text_free(method->file);
	calls_text_free(method->shown);
	buffer_free(&method->prepared);
	free(method);
}

void calls_method_free(void *thing)
{
	struct method *method = thing;

	while (method) {
		struct method *replaced = method->replaced;

		method_free_one(method);
		method = replaced;
	}
}

static void mark_open(const struct stream *stream, bool is_open)
{
	for (size_t i = 0; i < REF_PAGES; i++)
		for (size_t k = 0; stream->fibers.pages[i] && k < REFS_PER_PAGE; k++) {
			const struct fiber *fiber = stream->fibers.pages[i][k];

			for (uint32_t c = 0; fiber && c < fiber->depth; c++)
				fiber->calls[c].method->is_open = is_open;
		}
}

/* Frees methods that were replaced and are in no open call. */
static void sweep(struct stream *stream)
{
	mark_open(stream, true);
	for (size_t i = 0; i < REF_PAGES; i++)
		for (size_t k = 0; stream->methods.pages[i] && k < REFS_PER_PAGE; k++) {
			struct method *method = stream->methods.pages[i][k];

			while (method && method->replaced) {
				struct method *replaced = method->replaced;

				if (replaced->is_open) {
					method = replaced;
					continue;
				}
				method->replaced = replaced->replaced;
				stream->memory -= calls_method_size(replaced);
				method_free_one(replaced);
			}
		}
	mark_open(stream, false);
	stream->sweep_at = 2 * stream->memory > SWEEP_MIN ? 2 * stream->memory : SWEEP_MIN;
}

int calls_memory_check(struct stream *stream, struct error *err)
{
	if (stream->memory >= stream->sweep_at || stream->memory > STREAM_MEMORY_MAX)
		sweep(stream);
	if (stream->memory <= STREAM_MEMORY_MAX)
		return 0;
	return error_set(err, -ENOMEM,
	                 "malformed stream: process %d has announced methods, fibers and open calls of more than %llu MiB",
	                 (int)stream->pid, STREAM_MEMORY_MAX >> 20);
}

void calls_count(struct stream *stream, struct fiber *fiber)
{
	uint64_t now = fiber->capacity * sizeof(*fiber->calls) + fiber->kept.capacity + fiber->prepared.capacity;

	stream->memory += now - fiber->counted;
	fiber->counted = now;
}
