/* Who called. See callers.h. */

#include "tracer/stream/callers.h"

#include "tracer/base/json.h"
#include "tracer/stream/calls_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* They come in order, so a caller's frame is always known before its own. */
const struct caller *callers_get(const struct stream *stream, uint64_t number)
{
	return number && number <= stream->caller_count ? stream->callers[number - 1] : NULL;
}

static struct slice copy_of(char **to, struct slice text)
{
	struct slice copy = {*to, text.size};

	if (text.size)
		memcpy(*to, text.bytes, text.size);
	*to += text.size;
	return copy;
}

int callers_note(struct stream *stream, const struct record_caller *record, struct error *err)
{
	const struct caller *parent = callers_get(stream, record->parent);
	struct caller *caller;
	char *text;

	if (record->ref != stream->caller_count + 1 || (record->parent && !parent) ||
	    (parent && parent->depth + 1 >= STACK_FRAMES_MAX))
		return error_set(err, -EPROTO, "malformed stream: a frame (%u, called by %u) that does not follow those before",
		                 record->ref, record->parent);
	if (stream->caller_count == stream->caller_room) {
		stream->caller_room = stream->caller_room ? 2 * stream->caller_room : 64;
		stream->callers = memory_resize(stream->callers, stream->caller_room * sizeof(struct caller *));
	}
	caller = memory_resize(NULL, sizeof(*caller) + record->label.size + record->file.size);
	text = (char *)(caller + 1);
	caller->parent = parent;
	caller->depth = parent ? parent->depth + 1 : 0;
	caller->label = copy_of(&text, record->label);
	caller->file = copy_of(&text, record->file);
	caller->line = record->line;
	stream->callers[stream->caller_count++] = caller;
	stream->memory += sizeof(*caller) + 2 * sizeof(struct caller *) + record->label.size + record->file.size;
	return calls_memory_check(stream, err);
}

void callers_add_text(struct buffer *to, const struct caller *caller)
{
	buffer_add_text(to, "from ");
	if (!caller) {
		buffer_add_char(to, '?');
		return;
	}
	buffer_add_printable(to, caller->file.bytes, caller->file.size);
	buffer_add_format(to, ":%d", caller->line);
	buffer_add_text(to, " in ");
	buffer_add_printable(to, caller->label.bytes, caller->label.size);
}

void callers_add_json(struct buffer *to, const struct stream *stream, uint64_t number)
{
	if (number && !callers_get(stream, number)) {
		json_add_null(json_key(to, "stack"));
		return;
	}
	json_open_array(json_key(to, "stack"));
	for (const struct caller *caller = callers_get(stream, number); caller; caller = caller->parent) {
		json_open_object(to);
		json_member_text(to, "file", caller->file);
		json_member_int(to, "line", caller->line);
		json_member_text(to, "label", caller->label);
		json_close_object(to);
	}
	json_close_array(to);
}

void callers_free(struct stream *stream)
{
	for (uint32_t i = 0; i < stream->caller_count; i++)
		free(stream->callers[i]);
	free(stream->callers);
}
