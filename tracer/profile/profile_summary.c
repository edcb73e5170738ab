/* What a process says of its sampling. See profile.h. */

#include "tracer/profile/profile.h"

#include "tracer/base/value.h"

static struct profile_native native_of(const msgpack_object *map)
{
	return (struct profile_native){
		.there = map != NULL,
		.stops = value_uint(value_get(map, "stops")),
		.pause_median_ns = value_uint(value_get(map, "pause_median_ns")),
		.pause_longest_ns = value_uint(value_get(map, "pause_longest_ns")),
		.stopped_ns = value_uint(value_get(map, "stopped_ns")),
		.not_stopped = value_uint(value_get(map, "not_stopped")),
		.cut = value_uint(value_get(map, "cut")),
		.unplaced = value_uint(value_get(map, "unplaced")),
		.unnamed = value_uint(value_get(map, "unnamed")),
	};
}

void profile_summary_read(struct profile_summary *summary, const msgpack_object *map)
{
	*summary = (struct profile_summary){
		.elapsed_ns = value_uint(value_get(map, "elapsed_ns")),
		.samples = value_uint(value_get(map, "samples")),
		.cpu_samples = value_uint(value_get(map, "cpu_samples")),
		.late_ticks = value_uint(value_get(map, "late_ticks")),
		.late_ns = value_uint(value_get(map, "late_ns")),
		.no_room_ticks = value_uint(value_get(map, "no_room_ticks")),
		.threads_left_out = value_uint(value_get(map, "threads_left_out")),
		.cut = value_uint(value_get(map, "cut")),
		.woken = value_uint(value_get(map, "woken")),
		.own_cpu_ns = value_uint(value_get(map, "own_cpu_ns")),
		.with_unseen = value_get(map, "unseen_cpu_ns") != NULL,
		.unseen_cpu_ns = value_uint(value_get(map, "unseen_cpu_ns")),
		.rate_hz = value_number(value_get(map, "rate_hz")),
		.with_c = value_bool(value_get(map, "with_c")),
		.with_cpu = value_bool(value_get(map, "with_cpu")),
		.with_gc = value_bool(value_get(map, "with_gc")),
		.gvl_by_events = value_bool(value_get(map, "gvl_by_events")),
		.made = value_uint(value_get(map, "made")),
		.every = value_uint(value_get(map, "every")),
		.noted = value_uint(value_get(map, "noted")),
		.off_ns = value_uint(value_get(map, "off_ns")),
		.lost = value_uint(value_get(map, "lost")),
		.unwatched = value_uint(value_get(map, "unwatched")),
		.unwatched_ns = value_uint(value_get(map, "unwatched_ns")),
		.event_ns = value_number(value_get(map, "event_ns")),
		.only_retained = value_bool(value_get(map, "only_retained")),
		.retained = value_bool(value_get(map, "retained")),
		.with_bytes = value_bool(value_get(map, "with_bytes")),
		.native = native_of(value_get(map, "native")),
		.there = true,
	};
}
