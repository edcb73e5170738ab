/* Backtraces for people. See backtrace_text.h. */

#include "tracer/backtrace/backtrace_text.h"

#include "tracer/backtrace/backtrace_state.h"
#include "tracer/base/value.h"

#include <string.h>
#include <time.h>

#define NS_PER_SECOND 1000000000u

static void add_printable(struct buffer *buffer, struct slice text)
{
	buffer_add_printable(buffer, text.bytes, text.size);
}

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

void backtrace_text_process(struct buffer *buffer, int pid, const msgpack_object *process, const char *command)
{
	uint64_t time_ns = value_uint(value_get(process, "time_ns"));
	uint64_t threads = value_uint(value_get(process, "threads"));
	uint64_t ractors = value_uint(value_get(process, "other_ractors"));
	time_t seconds = (time_t)(time_ns / NS_PER_SECOND);
	struct tm local;
	char text[32];

	strftime(text, sizeof(text), "%H:%M:%S", localtime_r(&seconds, &local));
	buffer_add_format(buffer, "process %d, ruby ", pid);
	add_printable(buffer, value_text(value_get(process, "ruby")));
	buffer_add_format(buffer, ", %llu thread%s", (unsigned long long)threads, plural(threads));
	if (ractors)
		buffer_add_format(buffer, " and those of %llu more Ractor%s, which are not shown", (unsigned long long)ractors,
		                  plural(ractors));
	buffer_add_format(buffer, ", at %s.%03u: ", text, (unsigned)(time_ns % NS_PER_SECOND / 1000000));
	buffer_add_printable(buffer, command, strlen(command));
	buffer_add_char(buffer, '\n');
}

static void add_labels(struct buffer *buffer, const msgpack_object *labels)
{
	if (!labels || labels->type != MSGPACK_OBJECT_MAP || labels->via.map.size == 0)
		return;
	for (uint32_t i = 0; i < labels->via.map.size; i++) {
		buffer_add_text(buffer, i == 0 ? "   " : " ");
		add_printable(buffer, value_text(&labels->via.map.ptr[i].key));
		buffer_add_char(buffer, '=');
		add_printable(buffer, value_text(&labels->via.map.ptr[i].val));
	}
	buffer_add_char(buffer, '\n');
}

/* Ruby has none for us, though there may be some. */
static bool lacks_frames(const msgpack_object *map)
{
	const msgpack_object *known = value_get(map, "frames_known");

	return known && !value_bool(known);
}

static void add_thread(struct buffer *buffer, const msgpack_object *thread, bool was_asleep)
{
	uint64_t native_id = value_uint(value_get(thread, "native_id"));
	const msgpack_object *priority = value_get(thread, "priority"), *cpu = value_get(thread, "cpu_ns");
	struct slice name = value_text(value_get(thread, "name"));

	buffer_add_text(buffer, "thread");
	if (native_id)
		buffer_add_format(buffer, " %llu", (unsigned long long)native_id);
	else if (!name.size)
		buffer_add_format(buffer, " 0x%llx", (unsigned long long)value_uint(value_get(thread, "id")));
	if (name.size) {
		buffer_add_text(buffer, " \"");
		add_printable(buffer, name);
		buffer_add_char(buffer, '"');
	}
	if (value_bool(value_get(thread, "main"))) {
		buffer_add_text(buffer, name.size ? ", main" : " main");
	} else if (!name.size && value_get(thread, "created_at")) {
		buffer_add_text(buffer, " of ");
		add_printable(buffer, value_text(value_get(thread, "created_at")));
	}
	buffer_add_text(buffer, ", ");
	backtrace_state_add(buffer, thread, was_asleep);
	if (cpu)
		buffer_add_format(buffer, ", %.3f s CPU", (double)value_uint(cpu) / 1e9);
	if (value_number(priority) != 0)
		buffer_add_format(buffer, ", priority %.0f", value_number(priority));
	if (value_get(thread, "group"))
		buffer_add_format(buffer, ", group 0x%llx", (unsigned long long)value_uint(value_get(thread, "group")));
	if (lacks_frames(thread))
		buffer_add_text(buffer, "; it is being killed, and Ruby does not report where it is");
	buffer_add_char(buffer, '\n');
	add_labels(buffer, value_get(thread, "labels"));
}

static void add_fiber(struct buffer *buffer, const msgpack_object *fiber)
{
	buffer_add_format(buffer, "fiber 0x%llx", (unsigned long long)value_uint(value_get(fiber, "id")));
	if (value_get(fiber, "created_at")) {
		buffer_add_text(buffer, " of ");
		add_printable(buffer, value_text(value_get(fiber, "created_at")));
	}
	buffer_add_text(buffer, ", ");
	add_printable(buffer, value_text(value_get(fiber, "status")));
	if (lacks_frames(fiber))
		buffer_add_text(buffer, "; this Ruby does not report where");
	buffer_add_char(buffer, '\n');
}

void backtrace_text_heading(struct buffer *buffer, const msgpack_object *map, bool was_asleep)
{
	struct slice type = value_text(value_get(map, "type"));

	if (type.size == 5 && memcmp(type.bytes, "fiber", 5) == 0)
		add_fiber(buffer, map);
	else
		add_thread(buffer, map, was_asleep);
}

void backtrace_text_frames(struct buffer *buffer, const msgpack_object *map)
{
	const msgpack_object *frames = value_get(map, "frames");

	for (uint32_t i = 0; i < value_count(frames); i++) {
		const msgpack_object *frame = value_at(frames, i);
		uint64_t line = value_uint(value_get(frame, "line"));

		buffer_add_text(buffer, "   ");
		add_printable(buffer, value_text(value_get(frame, "path")));
		if (line)
			buffer_add_format(buffer, ":%llu", (unsigned long long)line);
		buffer_add_text(buffer, " in ");
		add_printable(buffer, value_text(value_get(frame, "label")));
		buffer_add_char(buffer, '\n');
	}
	if (value_bool(value_get(map, "more")))
		buffer_add_text(buffer, "   ...\n");
}
