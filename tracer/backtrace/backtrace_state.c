/* Threads' states in words. See backtrace_state.h. */

#include "tracer/backtrace/backtrace_state.h"

#include "tracer/base/value.h"

#include <string.h>

/* Methods of Ruby's own that let their thread wait. */
static const char *const waiting_methods[] = {
	"<<",
	"accept",
	"accept_nonblock",
	"connect",
	"deq",
	"detach",
	"each_line",
	"enq",
	"enter",
	"flock",
	"getc",
	"gets",
	"join",
	"kernel_sleep",
	"lock",
	"open",
	"pop",
	"popen",
	"print",
	"push",
	"puts",
	"read",
	"read_nonblock",
	"readbyte",
	"readline",
	"readlines",
	"readpartial",
	"recv",
	"recvfrom",
	"recvmsg",
	"select",
	"shift",
	"sleep",
	"stop",
	"synchronize",
	"sysread",
	"system",
	"take",
	"value",
	"wait",
	"wait2",
	"wait_for_cond",
	"wait_readable",
	"wait_writable",
	"waitall",
	"waitpid",
	"waitpid2",
	"write",
	"`",
};

/* The method's own name: after the class, where the label has one. */
static struct slice method_of(struct slice label)
{
	for (size_t i = label.size; i > 0; i--)
		if (label.bytes[i - 1] == '#' || label.bytes[i - 1] == '.')
			return (struct slice){label.bytes + i, label.size - i};
	return label;
}

static bool lets_wait(struct slice label)
{
	struct slice method = method_of(label);

	for (size_t i = 0; i < sizeof(waiting_methods) / sizeof(*waiting_methods); i++)
		if (slice_is(method, waiting_methods[i]))
			return true;
	return false;
}

/* The frame that says what the thread waits in, and whether that is a method that waits; NULL: no frame. */
static const msgpack_object *telling_frame(const msgpack_object *frames, bool *waits)
{
	const msgpack_object *innermost = value_at(frames, 0), *caller = value_at(frames, 1);
	struct slice label = value_text(value_get(innermost, "label")), above = value_text(value_get(caller, "label"));

	*waits = lets_wait(label);
	/* ConditionVariable#wait has the Mutex sleep. */
	if (slice_is(method_of(label), "sleep") && slice_is(method_of(above), "wait"))
		return caller;
	return innermost;
}

static void add_owner(struct buffer *buffer, const msgpack_object *mutex)
{
	struct slice name = value_text(value_get(mutex, "owner_name"));
	uint64_t native_id = value_uint(value_get(mutex, "owner_native_id"));

	buffer_add_format(buffer, "waiting for Mutex 0x%llx", (unsigned long long)value_uint(value_get(mutex, "id")));
	if (!value_get(mutex, "owner"))
		return;
	buffer_add_text(buffer, " held by thread");
	if (native_id)
		buffer_add_format(buffer, " %llu", (unsigned long long)native_id);
	if (name.size) {
		buffer_add_text(buffer, " \"");
		buffer_add_printable(buffer, name.bytes, name.size);
		buffer_add_char(buffer, '"');
	}
	if (!name.size && !native_id)
		buffer_add_format(buffer, " 0x%llx", (unsigned long long)value_uint(value_get(mutex, "owner")));
}

void backtrace_state_add(struct buffer *buffer, const msgpack_object *thread, const struct native_state *native)
{
	struct slice status = value_text(value_get(thread, "status"));
	bool waits, on_the_way, asleep = slice_is(status, "sleep") || slice_is(status, "sleep_forever");
	const msgpack_object *frame = telling_frame(value_get(thread, "frames"), &waits);
	struct slice label = value_text(value_get(frame, "label"));

	if (value_get(thread, "mutex")) {
		add_owner(buffer, value_get(thread, "mutex"));
		return;
	}
	/* Where it was awake when we looked and is in there now, it is on its way to sleep, or from it. */
	on_the_way = slice_is(status, "run") && value_bool(value_get(thread, "current")) && waits;
	if (asleep || on_the_way) {
		if (asleep || native->was_asleep)
			buffer_add_text(buffer, label.size ? "sleeping " : "sleeping");
		if (label.size) {
			buffer_add_text(buffer, "in ");
			buffer_add_printable(buffer, label.bytes, label.size);
		}
		if (native->waits_on.size) {
			buffer_add_text(buffer, " on ");
			buffer_add_slice(buffer, native->waits_on);
		}
	} else if (slice_is(status, "run")) {
		buffer_add_text(buffer, value_bool(value_get(thread, "current")) ? "running" : "ready, waiting for the GVL");
	} else {
		buffer_add_printable(buffer, status.bytes, status.size);
	}
}
