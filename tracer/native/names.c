/* Names of Ruby's frames. See names.h. */

#include "tracer/native/names.h"

#include "proto/limits.h"
#include "tracer/base/value.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 40u /* of a question: two numbers */
#define ANSWER_VALUES 4
#define ASKED_AT_ONCE 1000u /* the process stands still while it answers */

static uint32_t *slot_of(const struct frame_names *names, struct control_object object)
{
	uint64_t at = (object.address >> 3) * UINT64_C(0x9e3779b97f4a7c15);

	for (at = (at ^ object.body) * UINT64_C(0xbf58476d1ce4e5b9) >> 32;; at++) {
		uint32_t *slot = &names->slots[at & (names->slot_count - 1)];
		const struct frame_name *there = *slot ? &names->items[*slot - 1] : NULL;

		if (!there || (there->object.address == object.address && there->object.body == object.body))
			return slot;
	}
}

static void grow(struct frame_names *names)
{
	names->room = names->room ? 2 * names->room : 256;
	names->items = memory_resize(names->items, names->room * sizeof(*names->items));
	free(names->slots);
	names->slot_count = 2 * names->room;
	names->slots = memory_zeroed(names->slot_count * sizeof(*names->slots));
	for (uint32_t i = 0; i < names->count; i++)
		*slot_of(names, names->items[i].object) = i + 1;
}

void frame_names_want(struct frame_names *names, struct control_object object)
{
	uint32_t *slot;

	if (!object.address)
		return;
	if (names->count == names->room)
		grow(names);
	slot = slot_of(names, object);
	if (*slot)
		return;
	names->items[names->count] = (struct frame_name){.object = object, .label = {"", 0}, .path = {"", 0}};
	*slot = ++names->count;
}

const struct frame_name *frame_names_find(const struct frame_names *names, struct control_object object)
{
	uint32_t *slot = names->slots && object.address ? slot_of(names, object) : NULL;

	return slot && *slot && names->items[*slot - 1].known ? &names->items[*slot - 1] : NULL;
}

bool frame_names_ask(struct frame_names *names, struct buffer *question)
{
	uint32_t first = names->asked;

	names->answered = first;
	while (names->asked < names->count && names->asked - first < ASKED_AT_ONCE &&
	       question->size + LINE_MAX_BYTES < FRAMES_TEXT_MAX) {
		struct control_object object = names->items[names->asked++].object;

		buffer_add_format(question, "%" PRIx64 " %" PRIx64 "\n", object.address, object.body);
	}
	return names->asked > first;
}

static struct slice kept(struct slice text)
{
	char *bytes = memory_zeroed(text.size + 1);

	memcpy(bytes, text.bytes, text.size);
	return (struct slice){bytes, text.size};
}

void frame_names_answer(struct frame_names *names, const msgpack_object *answer)
{
	for (uint32_t i = 0; i < value_count(answer) && names->answered < names->asked; i++) {
		const msgpack_object *values = value_at(answer, i);
		struct frame_name *name = &names->items[names->answered++];

		name->known = value_count(values) == ANSWER_VALUES;
		if (!name->known)
			continue;
		name->label = kept(value_text(value_at(values, 0)));
		name->path = kept(value_text(value_at(values, 1)));
		name->line = value_line(value_at(values, 2));
		name->function = value_uint(value_at(values, 3));
	}
}

void frame_names_free(struct frame_names *names)
{
	for (uint32_t i = 0; i < names->count; i++)
		if (names->items[i].known) {
			free((char *)names->items[i].label.bytes);
			free((char *)names->items[i].path.bytes);
		}
	free(names->items);
	free(names->slots);
}
