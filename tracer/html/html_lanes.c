/* Threads of a page, and the lanes of their fibers. See html_parts.h. */

#include "tracer/html/html_parts.h"

#include "tracer/recording/texts.h"

#include <string.h>

static uint32_t new_lane(struct lanes *lanes, uint32_t thread, uint32_t number, const struct fiber *fiber)
{
	struct html_thread *of = &lanes->threads[thread];

	if (lanes->count == lanes->room) {
		lanes->room = lanes->room ? 2 * lanes->room : 16;
		lanes->items = memory_resize(lanes->items, lanes->room * sizeof(*lanes->items));
	}
	lanes->items[lanes->count] =
		(struct html_lane){.thread = thread, .next = NO_LANE, .number = number, .owner = fiber, .busy_ns = INT64_MIN};
	if (of->first == NO_LANE)
		of->first = lanes->count;
	else
		lanes->items[of->last].next = lanes->count;
	return of->last = lanes->count++;
}

static uint32_t add_thread(struct lanes *lanes, const struct html_thread *thread)
{
	if (lanes->thread_count == lanes->thread_room) {
		lanes->thread_room = lanes->thread_room ? 2 * lanes->thread_room : 16;
		lanes->threads = memory_resize(lanes->threads, lanes->thread_room * sizeof(*lanes->threads));
	}
	lanes->threads[lanes->thread_count] = *thread;
	lanes->threads[lanes->thread_count].first = lanes->threads[lanes->thread_count].last = NO_LANE;
	return lanes->thread_count++;
}

uint32_t html_lanes_thread(struct lanes *lanes, const struct html_thread *thread)
{
	uint32_t number = add_thread(lanes, thread);

	new_lane(lanes, number, 0, NULL);
	return number;
}

static uint32_t thread_of(struct html *html, const struct fiber *fiber)
{
	struct lanes *lanes = &html->lanes;
	const struct html_thread thread = {
		.pid = fiber->stream->pid,
		.native_id = fiber->native_id ? fiber->native_id : (uint32_t)fiber->thread_id,
		.main = fiber->stream->main_native_id && fiber->stream->main_native_id == fiber->native_id,
		.name = html_text(html, fiber->thread_name),
	};
	const uint32_t key[] = {(uint32_t)thread.pid, thread.native_id, thread.name};
	const struct slice text = {(const char *)key, sizeof(key)};
	uint32_t number =
		lanes->thread_count < HTML_THREADS_MAX ? words_number(&lanes->keys, text) : words_find(&lanes->keys, text);

	if (number == NO_WORD)
		return lanes->thread_count - 1;
	return number < lanes->thread_count ? number : add_thread(lanes, &thread);
}

static bool may_take(const struct html_lane *lane, int64_t start_ns)
{
	return (!lane->owner || !lane->owner->depth) && lane->busy_ns <= start_ns;
}

/* The thread's first is that of its own fiber. UINT32_MAX: it has too many. */
static uint32_t lane_for(struct lanes *lanes, uint32_t thread, const struct fiber *fiber, int64_t start_ns)
{
	uint32_t count = 0, quiet = UINT32_MAX;

	for (uint32_t i = lanes->threads[thread].first; i != NO_LANE; i = lanes->items[i].next) {
		struct html_lane *lane = &lanes->items[i];

		count++;
		if (fiber->root ? lane->number == 0
		                : lane->number && (lane->owner == fiber || (!lane->owner && lane->busy_ns <= start_ns))) {
			lane->owner = fiber;
			return i;
		}
		if (lane->number && may_take(lane, start_ns))
			quiet = i;
	}
	if (!count && !fiber->root)
		new_lane(lanes, thread, count++, NULL);
	if (count < HTML_LANES_MAX)
		return new_lane(lanes, thread, count, fiber);
	if (quiet != UINT32_MAX)
		lanes->items[quiet].owner = fiber;
	return quiet;
}

struct fiber_place html_lanes_of(struct html *html, struct fiber *fiber, int64_t start_ns)
{
	struct fiber_place place = {0, UINT32_MAX};
	bool known = fiber->prepared.size == sizeof(place);

	if (known)
		memcpy(&place, fiber->prepared.bytes, sizeof(place));
	else
		place.thread = thread_of(html, fiber);
	if (place.lane != UINT32_MAX && html->lanes.items[place.lane].owner == fiber)
		return place;
	place.lane = lane_for(&html->lanes, place.thread, fiber, start_ns);
	fiber->prepared.size = 0;
	buffer_add(&fiber->prepared, (const char *)&place, sizeof(place));
	return place;
}

void html_lanes_let_go(struct lanes *lanes, pid_t pid)
{
	for (uint32_t i = 0; i < lanes->count; i++)
		if (lanes->threads[lanes->items[i].thread].pid == pid)
			lanes->items[i].owner = NULL;
}

void html_lanes_forget(struct lanes *lanes, const struct fiber *fiber)
{
	struct fiber_place place;

	if (fiber->prepared.size != sizeof(place))
		return;
	memcpy(&place, fiber->prepared.bytes, sizeof(place));
	if (place.lane != UINT32_MAX && lanes->items[place.lane].owner == fiber)
		lanes->items[place.lane].owner = NULL;
}
