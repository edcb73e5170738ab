/* What is known of a thread. See backtrace_thread.h. */

#define _GNU_SOURCE
#include "tracee/requests/backtrace_thread.h"

#include "proto/clock.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/capture.h"
#include "tracee/vm/native_id.h"

#include <stdio.h>
#include <string.h>

#define LABELS_MAX 16
#define LABEL_SIZE_MAX 64
#define OWN_NAME "rbprobe "

/*
 * --- From inspect: "#<Thread:0x000f00 (file:line) status>", "#<Thread:0x000f00@name file:line sleep_forever>", "#<Fiber:0x000f00
 * file:line (resumed)>".
 */

/* The last word; returns where it begins. */
static const char *last_word(const char *begin, const char *end, char *word, size_t size)
{
	const char *from;

	while (end > begin && (end[-1] == '>' || end[-1] == ')'))
		end--;
	for (from = end; from > begin && from[-1] != ' ' && from[-1] != '(';)
		from--;
	snprintf(word, size, "%.*s", (int)(end - from), from);
	return from;
}

static void text_of(struct text *text, char *bytes, const char *from, const char *to)
{
	*text = (struct text){.bytes = bytes, .size = THREAD_TEXT_MAX};
	while (to > from && (to[-1] == ' ' || to[-1] == '('))
		to--;
	if (to > from)
		text_append(text, from, (size_t)(to - from));
}

bool thread_has_ended(VALUE thread)
{
	return thread != rb_thread_main() && !RTEST(builtin_call0(BUILTIN_THREAD_ALIVE_P, thread));
}

void thread_facts_get(struct thread_facts *facts, VALUE thread)
{
	VALUE name = builtin_call0(BUILTIN_THREAD_NAME, thread);
	VALUE description = builtin_call0(BUILTIN_THREAD_TO_S, thread);
	const char *begin = RSTRING_PTR(description), *end = begin + RSTRING_LEN(description), *at, *word;

	memset(facts, 0, sizeof(*facts));
	facts->id = (uint64_t)thread;
	facts->is_main = thread == rb_thread_main();
	facts->is_current = thread == rb_thread_current();
	facts->name = (struct text){.bytes = facts->name_bytes, .size = THREAD_TEXT_MAX};
	if (RB_TYPE_P(name, T_STRING))
		text_append(&facts->name, RSTRING_PTR(name), (size_t)RSTRING_LEN(name));
	native_id_of(thread, &facts->native_id);
	word = last_word(begin, end, facts->status, sizeof(facts->status));
	facts->has_ended = !facts->is_main && strcmp(facts->status, "dead") == 0;
	/* The place stands behind the address and the name, which may hold blanks. */
	at = memchr(begin, 'x', (size_t)(end - begin));
	if (at)
		at += strspn(at + 1, "0123456789abcdef") + 1;
	if (at && at < end && *at == '@' && facts->name.used && !facts->name.cut)
		at += 1 + facts->name.used;
	if (at && at < word && *at == ' ')
		text_of(&facts->created_at, facts->created_at_bytes, at + 1, word);
	RB_GC_GUARD(name);
	RB_GC_GUARD(description);
}

void fiber_facts_get(struct fiber_facts *facts, VALUE fiber)
{
	VALUE description = builtin_call0(BUILTIN_FIBER_TO_S, fiber);
	const char *begin = RSTRING_PTR(description), *end = begin + RSTRING_LEN(description), *at, *word;

	memset(facts, 0, sizeof(*facts));
	facts->id = (uint64_t)fiber;
	last_word(begin, end, facts->status, sizeof(facts->status));
	at = memchr(begin, ' ', (size_t)(end - begin));
	/* A thread's own fiber has no place. In front of the status, which may have several words, stands a parenthesis. */
	word = memrchr(begin, '(', (size_t)(end - begin));
	if (at && word && at + 1 < word)
		text_of(&facts->created_at, facts->created_at_bytes, at + 1, word);
	RB_GC_GUARD(description);
}

bool thread_is_ours(const struct thread_facts *facts)
{
	return strncmp(facts->name_bytes, OWN_NAME, strlen(OWN_NAME)) == 0;
}

/* --- Labels: what the application has hung on the thread */

struct labels {
	struct msgpack_builder *answer;
	unsigned count;
};

static bool is_plain(VALUE value)
{
	switch (rb_type(value)) {
	case T_TRUE:
	case T_FALSE:
	case T_SYMBOL:
	case T_FIXNUM:
	case T_FLOAT:
	case T_STRING:
		return true;
	default:
		return false;
	}
}

static void label_add(struct labels *labels, VALUE key, VALUE value, bool only_plain)
{
	static const struct trace_options options = {.value_size = LABEL_SIZE_MAX, .value_depth = 1, .value_length = 4};
	char bytes[LABEL_SIZE_MAX + 16], name[THREAD_TEXT_MAX];
	struct text text = {.bytes = bytes, .size = sizeof(bytes)};
	VALUE string = RB_SYMBOL_P(key) ? rb_sym2str(key) : key;

	if (labels->count == LABELS_MAX || NIL_P(value) || (only_plain && !is_plain(value)) || !RB_TYPE_P(string, T_STRING))
		return;
	snprintf(name, sizeof(name), "%.*s", (int)RSTRING_LEN(string), RSTRING_PTR(string));
	/* Ruby's and libraries' own bookkeeping. */
	if (strncmp(name, "__", 2) == 0)
		return;
	capture_value(&text, value, &options);
	builder_text(labels->answer, name, text.bytes, text.used);
	labels->count++;
	RB_GC_GUARD(string);
}

static void labels_add(struct msgpack_builder *answer, VALUE thread)
{
	struct labels labels = {.answer = answer};
	VALUE keys = builtin_call0(BUILTIN_THREAD_KEYS, thread);
	VALUE variables = builtin_call0(BUILTIN_THREAD_VARIABLES, thread);
	VALUE instance_variables = rb_obj_instance_variables(thread);

	builder_map(answer, "labels");
	for (long i = 0; i < RARRAY_LEN(keys); i++)
		label_add(&labels, RARRAY_AREF(keys, i), rb_thread_local_aref(thread, rb_sym2id(RARRAY_AREF(keys, i))), true);
	for (long i = 0; i < RARRAY_LEN(variables); i++) {
		VALUE key = RARRAY_AREF(variables, i);

		label_add(&labels, key, builtin_call(BUILTIN_THREAD_VARIABLE_GET, thread, 1, &key), true);
	}
	for (long i = 0; i < RARRAY_LEN(instance_variables); i++) {
		VALUE key = RARRAY_AREF(instance_variables, i);

		label_add(&labels, key, rb_ivar_get(thread, rb_sym2id(key)), false);
	}
	builder_end(answer);
	RB_GC_GUARD(keys);
	RB_GC_GUARD(variables);
	RB_GC_GUARD(instance_variables);
}

void thread_facts_add(struct msgpack_builder *answer, const struct thread_facts *facts, VALUE thread)
{
	VALUE priority = builtin_call0(BUILTIN_THREAD_PRIORITY, thread);
	VALUE group = builtin_call0(BUILTIN_THREAD_GROUP, thread);
	uint64_t cpu_ns;

	builder_uint(answer, "id", facts->id);
	if (facts->name.used)
		builder_text(answer, "name", facts->name.bytes, facts->name.used);
	builder_bool(answer, "main", facts->is_main);
	builder_bool(answer, "current", facts->is_current);
	builder_cstr(answer, "status", facts->status);
	if (facts->created_at.used)
		builder_text(answer, "created_at", facts->created_at.bytes, facts->created_at.used);
	if (facts->native_id) {
		builder_uint(answer, "native_id", facts->native_id);
		if (clock_thread_ns((pid_t)facts->native_id, &cpu_ns))
			builder_uint(answer, "cpu_ns", cpu_ns);
	}
	if (FIXNUM_P(priority))
		builder_int(answer, "priority", FIX2LONG(priority));
	/* Groups have no names; only who is in one that the application made is worth telling. */
	if (!NIL_P(group) && group != rb_const_get(rb_path2class("ThreadGroup"), rb_intern("Default")))
		builder_uint(answer, "group", (uint64_t)group);
	labels_add(answer, thread);
}
