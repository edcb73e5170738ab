/* Tracks of timelines. See tracks.h. */

#include "tracer/export/tracks.h"

#include "proto/fnv.h"

#include <inttypes.h>
#include <stdlib.h>

void tracks_free(struct tracks *tracks)
{
	free(tracks->items);
	*tracks = (struct tracks){0};
}

static struct track *place_of(const struct tracks *tracks, uint64_t key)
{
	uint64_t at = key * UINT64_C(0x9e3779b97f4a7c15) >> 32;

	for (;; at++) {
		struct track *place = &tracks->items[at & (tracks->room - 1)];

		if (!place->key || place->key == key)
			return place;
	}
}

static void grow(struct tracks *tracks)
{
	struct track *old = tracks->items;
	uint32_t old_room = tracks->room;

	tracks->room = old_room ? 2 * old_room : 64;
	tracks->items = memory_zeroed(tracks->room * sizeof(*tracks->items));
	for (uint32_t i = 0; i < old_room; i++)
		if (old[i].key)
			*place_of(tracks, old[i].key) = old[i];
	free(old);
}

static bool has_thread(const struct fiber *fiber)
{
	return fiber->root && fiber->native_id && fiber->native_id < TRACK_FREE_FROM;
}

static struct track *track_of(struct tracks *tracks, const struct fiber *fiber, bool *is_new)
{
	uint64_t pid = (uint64_t)(uint32_t)fiber->stream->pid << 32;
	struct track track = {.key = pid | (has_thread(fiber) ? fiber->native_id : UINT64_C(0x80000000) | fiber->ref),
	                      .what = fnv64_step(fnv64_add(FNV64_BEGIN, fiber->created_at), fiber->thread_id)};
	struct track *place;

	if (2 * tracks->count >= tracks->room)
		grow(tracks);
	place = place_of(tracks, track.key);
	*is_new = !place->key || place->what != track.what;
	if (!*is_new)
		return place;
	/* The thread that had the id has ended, or shares it. */
	track.number = has_thread(fiber) && !place->key ? fiber->native_id : TRACK_FREE_FROM + tracks->next++;
	tracks->count += !place->key;
	*place = track;
	return place;
}

uint32_t tracks_number(struct tracks *tracks, struct fiber *fiber, bool *is_new)
{
	uint32_t number;

	*is_new = false;
	if (fiber->prepared.size) {
		memcpy(&number, fiber->prepared.bytes, sizeof(number));
		return number;
	}
	number = track_of(tracks, fiber, is_new)->number;
	buffer_add(&fiber->prepared, (const char *)&number, sizeof(number));
	return number;
}

void tracks_add_name(const struct fiber *fiber, struct buffer *to)
{
	if (fiber->thread_name.size)
		buffer_add_slice(to, fiber->thread_name);
	else if (fiber->native_id && fiber->native_id == fiber->stream->main_native_id)
		buffer_add_text(to, "main");
	else
		buffer_add_format(to, "thread %" PRIu32, fiber->native_id);
	if (fiber->created_at.size) {
		buffer_add_text(to, ", fiber of ");
		buffer_add_slice(to, fiber->created_at);
	} else if (!fiber->root) {
		buffer_add_text(to, ", fiber");
	}
}
