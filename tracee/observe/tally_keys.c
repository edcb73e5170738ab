/* Calls counted apart by thread or class. See tally_keys.h. Context: event, but for what makes and frees: job. */

#include "tracee/observe/tally_keys.h"

#include "proto/wire.h"
#include "tracee/base/text.h"
#include "tracee/observe/probe.h"
#include "tracee/vm/aside.h"
#include "tracee/vm/class_name.h"
#include "tracee/vm/fiber.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_ROOM 120u
#define BUCKETS 4096u
#define NO_KEY UINT16_MAX /* there are too many */

struct tally_key {
	VALUE class; /* pinned; 0: it is a thread */
	char name[NAME_ROOM];
};

struct tally_keys {
	bool by_class;
	uint32_t count;
	uint32_t pair_count;
	struct tally_key keys[TALLY_KEYS_MAX];
	uint16_t near[256]; /* the key of a class with these bits in its address, + 1 */
	uint16_t buckets[BUCKETS];
	struct keyed_tally pairs[KEYED_TALLIES_MAX];
};

struct tally_keys *tally_keys_new(uint32_t flags)
{
	struct tally_keys *keys = aligned_alloc(_Alignof(struct tally_keys), sizeof(*keys));

	if (!keys)
		return NULL;
	/* What is not used stays as it came: pairs are set up when they are taken. */
	memset(keys, 0, offsetof(struct tally_keys, pairs));
	keys->by_class = flags & TRACE_BY_CLASS;
	return keys;
}

void tally_keys_free(struct tally_keys *keys)
{
	free(keys);
}

void tally_keys_mark(const struct tally_keys *keys)
{
	for (uint32_t i = 0; keys && i < keys->count; i++)
		if (keys->keys[i].class)
			rb_gc_mark(keys->keys[i].class);
}

/* --- Keys */

struct naming {
	VALUE class;
	char *name;
};

static VALUE name_class(VALUE argument)
{
	const struct naming *naming = (const struct naming *)argument;
	struct text text = {.bytes = naming->name, .size = NAME_ROOM - 1};

	class_name_add(&text, naming->class);
	naming->name[text.used] = '\0';
	return Qnil;
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

static uint16_t add_key(struct tally_keys *keys, VALUE class, const char *name)
{
	struct tally_key *key;

	if (keys->count == TALLY_KEYS_MAX)
		return NO_KEY;
	key = &keys->keys[keys->count];
	key->class = class;
	snprintf(key->name, sizeof(key->name), "%s", name);
	return (uint16_t)keys->count++;
}

static uint16_t find_key(const struct tally_keys *keys, VALUE class, const char *name)
{
	for (uint32_t i = 0; i < keys->count; i++)
		if (class ? keys->keys[i].class == class : strcmp(keys->keys[i].name, name) == 0)
			return (uint16_t)i;
	return NO_KEY;
}

static uint16_t key_of_class(struct tally_keys *keys, VALUE receiver, int *jump)
{
	VALUE class = RB_SPECIAL_CONST_P(receiver) || (!RB_TYPE_P(receiver, T_CLASS) && !RB_TYPE_P(receiver, T_MODULE))
	                      ? rb_obj_class(receiver)
	                      : receiver;
	uint16_t *near = &keys->near[(class >> 3 ^ class >> 11) % 256];
	char name[NAME_ROOM] = "";
	struct naming naming = {class, name};
	uint16_t key;

	if (*near && keys->keys[*near - 1].class == class)
		return (uint16_t)(*near - 1);
	key = find_key(keys, class, name);
	if (key == NO_KEY && keys->count < TALLY_KEYS_MAX && !*jump) {
		*jump = aside_protect(name_class, (VALUE)&naming);
		key = add_key(keys, class, name);
	}
	if (key != NO_KEY)
		*near = (uint16_t)(key + 1);
	RB_GC_GUARD(class);
	return key;
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
	key = find_key(keys, 0, name);
	if (key == NO_KEY)
		key = add_key(keys, 0, name);
	if (key != NO_KEY)
		stack->thread_key = (uint16_t)(key + 1);
	return key;
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

struct tally *tally_keys_choose(struct tally_keys *keys, struct probe *probe, struct call_stack *stack, VALUE receiver, int *jump)
{
	uint16_t key = keys->by_class ? key_of_class(keys, receiver, jump) : key_of_thread(keys, stack, jump);

	return key == NO_KEY ? probe->tally : tally_of(keys, probe, key);
}

const struct keyed_tally *tally_keys_at(const struct tally_keys *keys, uint32_t number, const char **name)
{
	if (!keys || number >= keys->pair_count)
		return NULL;
	*name = keys->keys[keys->pairs[number].key].name;
	return &keys->pairs[number];
}
