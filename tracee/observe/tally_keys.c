/* Calls counted apart by thread, class, caller or value. See tally_keys.h. Context: event, but for what makes and frees: job. */

#include "tracee/observe/tally_keys.h"

#include "proto/fnv.h"
#include "proto/wire.h"
#include "tracee/base/text.h"
#include "tracee/observe/asking.h"
#include "tracee/observe/call.h"
#include "tracee/observe/expression.h"
#include "tracee/observe/probe.h"
#include "tracee/session/session.h"
#include "tracee/vm/aside.h"
#include "tracee/vm/class_name.h"
#include "tracee/vm/evaluation.h"
#include "tracee/vm/fiber.h"

#include <ruby/debug.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_ROOM 512u /* a value is 256 bytes long unless the client says so, and its mark where it is cut */
#define BUCKETS 4096u
#define NO_KEY UINT16_MAX /* there are too many */
#define NAMED 512u        /* more than keys */
#define NO_CALLER "(no caller)"
#define FRAMES_FIRST 8u
#define FRAMES_MAX 128u /* so far out a caller is looked for */

struct tally_key {
	VALUE object;  /* a class, or the frame of a caller; pinned. 0: the name alone tells it */
	uint32_t hash; /* of the name, then */
	char name[NAME_ROOM];
};

struct tally_keys {
	uint32_t by;             /* TRACE_BY_...; 0: the expression */
	struct slice expression; /* its own */
	bool error_told;         /* what the first expression that failed raised */
	uint32_t count;
	uint32_t pair_count;
	struct tally_key keys[TALLY_KEYS_MAX];
	uint16_t near[256];    /* the key of an object with these bits in its address, + 1 */
	uint16_t named[NAMED]; /* the keys that have but a name, + 1, by its hash */
	uint16_t buckets[BUCKETS];
	struct keyed_tally pairs[KEYED_TALLIES_MAX];
};

struct tally_keys *tally_keys_new(const struct command *command)
{
	struct tally_keys *keys = aligned_alloc(_Alignof(struct tally_keys), sizeof(*keys));
	struct slice expression = command->options.key;

	if (!keys)
		return NULL;
	/* What is not used stays as it came: pairs are set up when they are taken. */
	memset(keys, 0, offsetof(struct tally_keys, pairs));
	keys->by = command->options.flags & (TRACE_BY_KEYS | TRACE_BY_VALUE);
	if (keys->by)
		return keys;
	keys->expression = (struct slice){strndup(expression.bytes, expression.size), expression.size};
	if (keys->expression.bytes)
		return keys;
	free(keys);
	return NULL;
}

void tally_keys_begin_anew(struct tally_keys *keys)
{
	if (!keys)
		return;
	memset(keys->buckets, 0, sizeof(keys->buckets));
	keys->pair_count = 0;
}

size_t tally_keys_size(void)
{
	return sizeof(struct tally_keys);
}

void tally_keys_free(struct tally_keys *keys)
{
	if (keys)
		free((char *)keys->expression.bytes);
	free(keys);
}

struct expression_list *tally_keys_expression(const struct session *session, const struct selector *matched, VALUE method,
                                              VALUE owner, bool in_hand)
{
	const struct tally_keys *keys = session->tallies ? session->tallies->keys : NULL;
	struct selector selector = {.expression_count = 1};

	if (!keys || keys->by & TRACE_BY_KEYS)
		return NULL;
	if (keys->by && (!matched || !matched->expression_count))
		return NULL;
	selector.expressions = keys->by ? matched->expressions : &keys->expression;
	return expression_list_new(&selector, method, owner, (struct expression_wish){.in_hand = in_hand});
}

void tally_keys_mark(const struct tally_keys *keys)
{
	for (uint32_t i = 0; keys && i < keys->count; i++)
		if (keys->keys[i].object)
			rb_gc_mark(keys->keys[i].object);
}

/* --- Keys */

/* Equal names have equal ones. */
static uint32_t hash_of(const char *name)
{
	uint32_t hash = FNV32_BEGIN;

	for (; *name; name++)
		hash = fnv32_step(hash, (unsigned char)*name);
	return hash;
}

static uint16_t add_key(struct tally_keys *keys, VALUE object, const char *name)
{
	struct tally_key *key;

	if (keys->count == TALLY_KEYS_MAX)
		return NO_KEY;
	key = &keys->keys[keys->count];
	key->object = object;
	snprintf(key->name, sizeof(key->name), "%s", name);
	return (uint16_t)keys->count++;
}

static uint16_t find_object(const struct tally_keys *keys, VALUE object)
{
	for (uint32_t i = 0; i < keys->count; i++)
		if (keys->keys[i].object == object)
			return (uint16_t)i;
	return NO_KEY;
}

/* The key with that name, which it gets if it is new. */
static uint16_t key_of_name(struct tally_keys *keys, const char *name)
{
	uint32_t hash = hash_of(name), at = hash % NAMED;
	uint16_t key;

	for (; keys->named[at]; at = (at + 1) % NAMED) {
		const struct tally_key *named = &keys->keys[keys->named[at] - 1];

		if (named->hash == hash && strcmp(named->name, name) == 0)
			return (uint16_t)(keys->named[at] - 1);
	}
	key = add_key(keys, 0, name);
	if (key != NO_KEY) {
		keys->keys[key].hash = hash;
		keys->named[at] = (uint16_t)(key + 1);
	}
	return key;
}

static uint16_t *near_of(struct tally_keys *keys, VALUE object)
{
	return &keys->near[(object >> 3 ^ object >> 11) % 256];
}

/* Without a search: the key that was asked for last of those near it. */
static uint16_t key_at_hand(struct tally_keys *keys, VALUE object)
{
	uint16_t near = *near_of(keys, object);

	return near && keys->keys[near - 1].object == object ? (uint16_t)(near - 1) : NO_KEY;
}

static uint16_t keep_at_hand(struct tally_keys *keys, VALUE object, uint16_t key)
{
	if (key != NO_KEY)
		*near_of(keys, object) = (uint16_t)(key + 1);
	return key;
}

struct naming {
	VALUE object;
	char *name;
};

static VALUE name_class(VALUE argument)
{
	const struct naming *naming = (const struct naming *)argument;
	struct text text = {.bytes = naming->name, .size = NAME_ROOM - 1};

	class_name_add(&text, naming->object);
	naming->name[text.used] = '\0';
	return Qnil;
}

static uint16_t key_of_class(struct tally_keys *keys, VALUE receiver, int *jump)
{
	VALUE class = RB_SPECIAL_CONST_P(receiver) || (!RB_TYPE_P(receiver, T_CLASS) && !RB_TYPE_P(receiver, T_MODULE))
	                      ? rb_obj_class(receiver)
	                      : receiver;
	char name[NAME_ROOM] = "";
	struct naming naming = {class, name};
	uint16_t key = key_at_hand(keys, class);

	if (key != NO_KEY)
		return key;
	key = find_object(keys, class);
	if (key == NO_KEY && keys->count < TALLY_KEYS_MAX && !*jump) {
		*jump = aside_protect(name_class, (VALUE)&naming);
		key = add_key(keys, class, name);
	}
	RB_GC_GUARD(class);
	return keep_at_hand(keys, class, key);
}

static VALUE name_thread(VALUE argument)
{
	const struct naming *naming = (const struct naming *)argument;
	struct fiber_description description;

	fiber_describe(&description);
	if (NIL_P(description.thread_name))
		snprintf(naming->name, NAME_ROOM, "%u", description.native_id);
	else
		snprintf(naming->name, NAME_ROOM, "%u %.*s", description.native_id, (int)RSTRING_LEN(description.thread_name),
		         RSTRING_PTR(description.thread_name));
	RB_GC_GUARD(description.thread_name);
	RB_GC_GUARD(description.created_at);
	return Qnil;
}

/* Asked for once a fiber. */
static uint16_t key_of_thread(struct tally_keys *keys, struct call_stack *stack, int *jump)
{
	char name[NAME_ROOM] = "";
	struct naming naming = {0, name};
	uint16_t key;

	if (stack->thread_key)
		return (uint16_t)(stack->thread_key - 1);
	if (*jump)
		return NO_KEY;
	*jump = aside_protect(name_thread, (VALUE)&naming);
	key = key_of_name(keys, name);
	if (key != NO_KEY)
		stack->thread_key = (uint16_t)(key + 1);
	return key;
}

/* All blocks of a class's body have one label, such as the routes of an application: these have where they begin as well. */
static void add_place(VALUE frame, struct slice path, char *name)
{
	struct slice file = slice_file_name(path);
	size_t used = strlen(name);
	VALUE line = rb_profile_frame_first_lineno(frame);

	if (FIXNUM_P(line))
		snprintf(name + used, NAME_ROOM - used, " %.*s:%ld", (int)file.size, file.bytes, FIX2LONG(line));
}

/* Calls no method. The name stays empty where the frame is none of Ruby code. */
static VALUE name_frame(VALUE argument)
{
	const struct naming *naming = (const struct naming *)argument;
	VALUE path = rb_profile_frame_path(naming->object), label;

	if (!RB_TYPE_P(path, T_STRING))
		return Qnil;
	label = rb_profile_frame_full_label(naming->object);
	if (RB_TYPE_P(label, T_STRING))
		snprintf(naming->name, NAME_ROOM, "%.*s", (int)RSTRING_LEN(label), RSTRING_PTR(label));
	if (strncmp(naming->name, "block ", strlen("block ")) == 0)
		add_place(naming->object, (struct slice){RSTRING_PTR(path), (size_t)RSTRING_LEN(path)}, naming->name);
	RB_GC_GUARD(label);
	RB_GC_GUARD(path);
	return Qnil;
}

/* False: it is no frame of Ruby code. */
static bool key_of_frame(struct tally_keys *keys, VALUE frame, uint16_t *key)
{
	char name[NAME_ROOM] = "";
	struct naming naming = {frame, name};
	VALUE unused;

	*key = find_object(keys, frame);
	if (*key == NO_KEY && keys->count < TALLY_KEYS_MAX) {
		if (evaluate_quickly(name_frame, (VALUE)&naming, &unused) != EVALUATION_DONE || !name[0])
			return false;
		*key = add_key(keys, frame, name);
	}
	keep_at_hand(keys, frame, *key);
	return true;
}

/*
 * The next frame of Ruby code outside of the call's own, as what the VM itself keeps of it (callers.c). Most often that is the
 * first one, and known; to find its line, which tells Ruby code from C, would cost more than the rest.
 */
static uint16_t key_of_caller(struct tally_keys *keys, const struct seen_call *seen)
{
	int own = seen->trace_arg && seen->event == RUBY_EVENT_CALL;
	VALUE frames[FRAMES_MAX];
	int lines[FRAMES_MAX];
	uint16_t key = NO_KEY;

	if (rb_profile_frames(0, own + 1, frames, NULL) > own)
		key = key_at_hand(keys, frames[own]);
	if (key != NO_KEY)
		return key;
	for (int limit = FRAMES_FIRST, count = limit; count == limit; limit = FRAMES_MAX) {
		count = rb_profile_frames(0, limit, frames, lines);
		for (int i = own; i < count; i++)
			if (lines[i] && key_of_frame(keys, frames[i], &key))
				return key;
		if (limit == FRAMES_MAX)
			break;
	}
	return key_of_name(keys, NO_CALLER);
}

static uint16_t key_of_value(struct tally_keys *keys, const struct probe *probe, struct fiber_state *fiber,
                             const struct seen_call *seen, int *jump)
{
	struct session *session = probe->session;
	char bytes[NAME_ROOM] = "", words[256];
	struct text name = {.bytes = bytes, .size = NAME_ROOM - 1}, why = {.bytes = words, .size = sizeof(words)};
	struct asking asking;
	bool in_time;

	if (!probe->key || *jump)
		return NO_KEY;
	asking = asking_begin(session, fiber, false);
	in_time = expression_key(probe->key, seen, &session->options, &name, keys->error_told ? NULL : &why, jump);
	asking_end(&asking);
	if (why.used) {
		keys->error_told = true;
		session_note(session, NOTE_WARNING, "--by gave %.*s; such calls are counted under the name of the error",
		             (int)why.used, words);
	}
	if (!in_time)
		session_note(session, NOTE_WARNING,
		             "--by took longer than %u ms and is switched off for a method, whose calls are counted together now",
		             session->options.expression_timeout_ms);
	bytes[name.used] = '\0';
	return name.used ? key_of_name(keys, bytes) : NO_KEY;
}

/* --- Pairs */

static struct tally *tally_of(struct tally_keys *keys, struct probe *probe, uint16_t key)
{
	uint16_t *bucket = &keys->buckets[((uintptr_t)probe / sizeof(*probe) + key * 131u) % BUCKETS];
	struct keyed_tally *pair;

	for (uint16_t number = *bucket; number; number = pair->next) {
		pair = &keys->pairs[number - 1];
		if (pair->probe == probe && pair->key == key)
			return &pair->tally;
	}
	if (keys->pair_count == KEYED_TALLIES_MAX)
		return probe->tally;
	pair = &keys->pairs[keys->pair_count++];
	*pair = (struct keyed_tally){.probe = probe, .key = key, .next = *bucket, .tally = {.least = UINT64_MAX}};
	*bucket = (uint16_t)keys->pair_count;
	return &pair->tally;
}

static uint16_t key_of_call(struct tally_keys *keys, const struct probe *probe, struct fiber_state *fiber,
                            const struct seen_call *seen, int *jump)
{
	switch (keys->by) {
	case TRACE_BY_CLASS:
		return key_of_class(keys, seen->trace_arg ? rb_tracearg_self(seen->trace_arg) : seen->receiver, jump);
	case TRACE_BY_CALLER:
		return key_of_caller(keys, seen);
	case TRACE_BY_THREAD:
		return key_of_thread(keys, &fiber->stacks[probe->session->slot], jump);
	default:
		return key_of_value(keys, probe, fiber, seen, jump);
	}
}

struct tally *tally_keys_choose(struct tally_keys *keys, struct probe *probe, struct fiber_state *fiber,
                                const struct seen_call *seen, int *jump)
{
	uint16_t key = key_of_call(keys, probe, fiber, seen, jump);

	return key == NO_KEY ? probe->tally : tally_of(keys, probe, key);
}

const struct keyed_tally *tally_keys_at(const struct tally_keys *keys, uint32_t number, const char **name)
{
	if (!keys || number >= keys->pair_count)
		return NULL;
	*name = keys->keys[keys->pairs[number].key].name;
	return &keys->pairs[number];
}
