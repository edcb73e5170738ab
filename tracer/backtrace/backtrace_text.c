/* Backtraces for people. See backtrace_text.h. */

#include "tracer/backtrace/backtrace_text.h"

#include "tracer/backtrace/app_frames.h"
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
	if (value_bool(value_get(process, "fibers_missing")))
		buffer_add_text(buffer, ractors ? ", nor are any fibers" : ", no fibers, as they cannot be told");
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

/* Why local variables that were asked for are not there. */
static void add_missing(struct buffer *buffer, const msgpack_object *map)
{
	struct slice missing = value_text(value_get(map, "locals_missing"));

	if (!missing.size)
		return;
	if (slice_is(missing, "time"))
		buffer_add_text(buffer, "; no local variables: those of the others took 50 ms, -t or --limit asks for fewer");
	else if (slice_is(missing, "hooks"))
		buffer_add_text(buffer,
		                "; no local variables: where Ruby keeps them is tried once, and not while the application has a "
		                "TracePoint on");
	else if (slice_is(missing, "moved"))
		buffer_add_text(buffer, "; no local variables: it ran on while it was looked at");
	else
		buffer_add_text(buffer, "; no local variables: where this Ruby keeps them is not known");
}

/* Ruby has none for us, though there may be some. */
static bool lacks_frames(const msgpack_object *map)
{
	const msgpack_object *known = value_get(map, "frames_known");

	return known && !value_bool(known);
}

void backtrace_text_label(struct buffer *buffer, const msgpack_object *map)
{
	uint64_t native_id = value_uint(value_get(map, "native_id"));
	struct slice name = value_text(value_get(map, "name"));

	add_printable(buffer, value_text(value_get(map, "type")));
	if (native_id)
		buffer_add_format(buffer, " %llu", (unsigned long long)native_id);
	else if (!name.size)
		buffer_add_format(buffer, " 0x%llx", (unsigned long long)value_uint(value_get(map, "id")));
	if (name.size) {
		buffer_add_text(buffer, " \"");
		add_printable(buffer, name);
		buffer_add_char(buffer, '"');
	}
	if (value_bool(value_get(map, "main")))
		buffer_add_text(buffer, name.size ? ", main" : " main");
}

static void add_thread(struct buffer *buffer, const msgpack_object *thread, const struct native_state *native, size_t *cpu_end)
{
	const msgpack_object *priority = value_get(thread, "priority"), *cpu = value_get(thread, "cpu_ns");
	struct slice name = value_text(value_get(thread, "name")), sql = value_text(value_get(thread, "sql"));

	backtrace_text_label(buffer, thread);
	if (!value_bool(value_get(thread, "main")) && !name.size && value_get(thread, "created_at")) {
		buffer_add_text(buffer, " of ");
		add_printable(buffer, value_text(value_get(thread, "created_at")));
	}
	buffer_add_text(buffer, ", ");
	backtrace_state_add(buffer, thread, native);
	if (cpu) {
		buffer_add_format(buffer, ", %.3f s CPU", (double)value_uint(cpu) / 1e9);
		*cpu_end = buffer->size;
	}
	if (value_number(priority) != 0)
		buffer_add_format(buffer, ", priority %.0f", value_number(priority));
	if (value_get(thread, "group"))
		buffer_add_format(buffer, ", group 0x%llx", (unsigned long long)value_uint(value_get(thread, "group")));
	if (lacks_frames(thread))
		buffer_add_text(buffer, "; it is being killed, and Ruby does not report where it is");
	add_missing(buffer, thread);
	buffer_add_char(buffer, '\n');
	add_labels(buffer, value_get(thread, "labels"));
	if (sql.size) {
		buffer_add_text(buffer, "   SQL ");
		add_printable(buffer, sql);
		buffer_add_char(buffer, '\n');
	}
}

static void add_fiber(struct buffer *buffer, const msgpack_object *fiber)
{
	backtrace_text_label(buffer, fiber);
	if (value_get(fiber, "created_at")) {
		buffer_add_text(buffer, " of ");
		add_printable(buffer, value_text(value_get(fiber, "created_at")));
	}
	buffer_add_text(buffer, ", ");
	add_printable(buffer, value_text(value_get(fiber, "status")));
	if (lacks_frames(fiber))
		buffer_add_text(buffer, "; this Ruby does not report where");
	add_missing(buffer, fiber);
	buffer_add_char(buffer, '\n');
}

void backtrace_text_heading(struct buffer *buffer, const msgpack_object *map, const struct native_state *native, size_t *cpu_end)
{
	*cpu_end = 0;
	if (slice_is(value_text(value_get(map, "type")), "fiber"))
		add_fiber(buffer, map);
	else
		add_thread(buffer, map, native, cpu_end);
}

/* Below their frame, each as name=value. */
static void add_locals(struct buffer *buffer, const msgpack_object *frame)
{
	const msgpack_object *locals = value_get(frame, "locals");
	uint64_t more = value_uint(value_get(frame, "locals_more"));
	uint32_t count = locals && locals->type == MSGPACK_OBJECT_MAP ? locals->via.map.size : 0;

	if (!count && !more)
		return;
	buffer_add_text(buffer, "     ");
	for (uint32_t i = 0; i < count; i++) {
		buffer_add_char(buffer, ' ');
		add_printable(buffer, value_text(&locals->via.map.ptr[i].key));
		buffer_add_char(buffer, '=');
		add_printable(buffer, value_text(&locals->via.map.ptr[i].val));
	}
	if (more)
		buffer_add_format(buffer, " and %llu more", (unsigned long long)more);
	buffer_add_char(buffer, '\n');
}

/* Frames of libraries that are left out, one after the other. */
struct folded {
	size_t count;
	struct slice first; /* of which library the first one is */
	const char *prefix;
	bool several; /* they are not all of that one */
};

static void folded_write(struct buffer *buffer, struct folded *folded)
{
	if (!folded->count)
		return;
	buffer_add_format(buffer, "   ... %zu frame%s of %s", folded->count, plural(folded->count), folded->prefix);
	add_printable(buffer, folded->first);
	buffer_add_text(buffer, folded->several ? " and others\n" : "\n");
	*folded = (struct folded){0};
}

static void folded_add(struct folded *folded, const struct frame_origin *origin)
{
	if (!folded->count) {
		folded->first = origin->library;
		folded->prefix = origin->prefix;
	}
	folded->several = folded->several || folded->first.size != origin->library.size ||
	                  memcmp(folded->first.bytes, origin->library.bytes, origin->library.size) != 0;
	folded->count++;
}

static void add_frame(struct buffer *buffer, const msgpack_object *frame, const struct frame_origin *origin)
{
	int32_t line = value_line(value_get(frame, "line"));

	buffer_add_text(buffer, "   ");
	if (origin && origin->library.size) {
		buffer_add_text(buffer, origin->prefix);
		add_printable(buffer, origin->library);
		buffer_add_char(buffer, ':');
	}
	add_printable(buffer, origin ? origin->file : value_text(value_get(frame, "path")));
	if (line)
		buffer_add_format(buffer, ":%d", line);
	buffer_add_text(buffer, " in ");
	add_printable(buffer, value_text(value_get(frame, "label")));
	buffer_add_char(buffer, '\n');
	add_locals(buffer, frame);
}

void backtrace_text_frames(struct buffer *buffer, const msgpack_object *map, bool app)
{
	const msgpack_object *frames = value_get(map, "frames");
	struct folded folded = {0};

	for (uint32_t i = 0; i < value_count(frames); i++) {
		const msgpack_object *frame = value_at(frames, i);
		struct frame_origin origin = frame_origin_of(value_text(value_get(frame, "path")));

		/* The innermost one says what the thread is in. */
		if (app && i > 0 && origin.library.size) {
			folded_add(&folded, &origin);
			continue;
		}
		folded_write(buffer, &folded);
		add_frame(buffer, frame, app ? &origin : NULL);
	}
	folded_write(buffer, &folded);
	if (value_bool(value_get(map, "more")))
		buffer_add_text(buffer, "   ...\n");
}
