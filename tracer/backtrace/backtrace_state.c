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

static struct slice label_at(const msgpack_object *frames, uint32_t number)
{
	return value_text(value_get(value_at(frames, number), "label"));
}

/* The method that the thread waits in, and whether that is one that waits; empty: there is no frame. */
static struct slice telling_method(const msgpack_object *thread, bool *waits)
{
	const msgpack_object *frames = value_get(thread, "frames");
	struct slice label = label_at(frames, 0), above = label_at(frames, 1);

	/* Where only one frame was asked for, the target says what the next one is. */
	if (!above.size)
		above = value_text(value_get(thread, "caller"));
	*waits = lets_wait(label);
	/* ConditionVariable#wait has the Mutex sleep. */
	return slice_is(method_of(label), "sleep") && slice_is(method_of(above), "wait") ? above : label;
}

/* 'thread 10637 "puma srv tp 002"', from the keys that begin with the prefix. */
static void add_thread(struct buffer *buffer, const msgpack_object *map, const char *id_key, const char *name_key,
                       const char *native_id_key)
{
	struct slice name = value_text(value_get(map, name_key));
	uint64_t native_id = value_uint(value_get(map, native_id_key));

	buffer_add_text(buffer, "thread");
	if (native_id)
		buffer_add_format(buffer, " %llu", (unsigned long long)native_id);
	if (name.size) {
		buffer_add_text(buffer, " \"");
		buffer_add_printable(buffer, name.bytes, name.size);
		buffer_add_char(buffer, '"');
	}
	if (!name.size && !native_id)
		buffer_add_format(buffer, " 0x%llx", (unsigned long long)value_uint(value_get(map, id_key)));
}

static void add_owner(struct buffer *buffer, const msgpack_object *mutex)
{
	uint64_t monitor = value_uint(value_get(mutex, "monitor"));

	buffer_add_format(buffer, "waiting for %s 0x%llx", monitor ? "Monitor" : "Mutex",
	                  (unsigned long long)(monitor ? monitor : value_uint(value_get(mutex, "id"))));
	if (!value_get(mutex, "owner"))
		return;
	buffer_add_text(buffer, " held by ");
	add_thread(buffer, mutex, "owner", "owner_name", "owner_native_id");
}

bool backtrace_state_is_endless(const msgpack_object *thread, const struct native_state *native)
{
	const msgpack_object *joins = value_get(thread, "joins");
	struct slice status = value_text(value_get(thread, "status"));
	bool current = value_bool(value_get(thread, "current"));

	/* One that the job runs on was woken for it. */
	if (current ? !native->was_asleep : !slice_is(status, "sleep") && !slice_is(status, "sleep_forever"))
		return false;
	if (joins)
		return !value_bool(value_get(joins, "timed"));
	return value_get(thread, "mutex") || value_bool(value_get(thread, "unlimited")) ||
	       (value_get(thread, "waits_for") && !current && slice_is(status, "sleep_forever"));
}

void backtrace_waits_on_add(struct buffer *buffer, const msgpack_object *thread)
{
	const msgpack_object *joins = value_get(thread, "joins"), *object = value_get(thread, "waits_for");

	if (joins)
		add_thread(buffer, joins, "thread", "thread_name", "thread_native_id");
	else if (object)
		buffer_add_format(buffer, "0x%llx", (unsigned long long)value_uint(object));
}

void backtrace_state_add(struct buffer *buffer, const msgpack_object *thread, const struct native_state *native)
{
	struct slice status = value_text(value_get(thread, "status"));
	bool waits, on_the_way, asleep = slice_is(status, "sleep") || slice_is(status, "sleep_forever");
	struct slice label = telling_method(thread, &waits);

	if (value_get(thread, "mutex")) {
		add_owner(buffer, value_get(thread, "mutex"));
		return;
	}
	/*
	 * Where it was awake when we looked and is in there now, it is on its way to sleep, or from it. Drivers of databases and
	 * others are written in C, and wait in methods of any name.
	 */
	on_the_way = slice_is(status, "run") && value_bool(value_get(thread, "current")) &&
	             (waits || (native->on_descriptor && value_bool(value_get(thread, "in_c"))));
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
