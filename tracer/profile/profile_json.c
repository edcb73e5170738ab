/* A profile for programs. See profile_text.h. */

#include "tracer/profile/profile_text.h"

#include "tracer/base/json.h"

#include <stdlib.h>
#include <string.h>

static void add_native(const struct profile_native *native, struct buffer *to)
{
	json_open_object(json_key(to, "native"));
	json_member_uint(to, "stops", native->stops);
	json_member_seconds(to, "pause_median", native->pause_median_ns);
	json_member_seconds(to, "pause_longest", native->pause_longest_ns);
	json_member_seconds(to, "stopped", native->stopped_ns);
	json_member_uint(to, "not_stopped", native->not_stopped);
	json_member_uint(to, "without_native", native->unplaced);
	json_member_uint(to, "not_unwound", native->cut);
	json_member_uint(to, "without_names", native->unnamed);
	json_close_object(to);
}

static void add_process(const struct profile *profile, const struct profile_process *process, struct buffer *to)
{
	const struct profile_summary *summary = &process->summary;

	json_open_object(to);
	json_member_string(to, "type", "process");
	json_member_uint(to, "pid", (uint64_t)process->pid);
	json_member_seconds(to, "elapsed", summary->elapsed_ns);
	if (!profile->of_objects) {
		json_member_uint(to, "rate_hz", profile->rate_hz);
		json_add_real(json_key(to, "rate_hz_mean"), summary->rate_hz);
		json_member_uint(to, "samples", summary->samples);
		json_member_uint(to, "cpu_samples", summary->cpu_samples);
		json_member_uint(to, "late", summary->late_ticks);
		json_member_seconds(to, "late_time", summary->late_ns);
		json_member_uint(to, "without_room", summary->no_room_ticks);
		if (summary->with_unseen)
			json_member_seconds(to, "unseen_cpu", summary->unseen_cpu_ns);
	}
	json_member_uint(to, "without_room_for_thread", summary->threads_left_out);
	json_member_uint(to, "cut", summary->cut);
	json_member_uint(to, "woken", summary->woken);
	json_member_seconds(to, "own_cpu", summary->own_cpu_ns);
	if (summary->native.there)
		add_native(&summary->native, to);
	if (profile->of_gvl)
		json_member_bool(to, "gvl_by_events", summary->gvl_by_events);
	if (profile->of_objects) {
		json_member_uint(to, "objects", summary->made);
		json_member_uint(to, "every", summary->every);
		if (profile_ended_early(summary))
			json_add_null(json_key(to, "retained"));
		else
			json_member_bool(to, "retained", summary->retained);
		json_member_uint(to, "noted", summary->noted);
		json_member_uint(to, "lost", summary->lost);
		json_member_seconds(to, "not_looked", summary->off_ns);
		json_member_uint(to, "unwatched", summary->unwatched);
		json_member_seconds(to, "not_watched", summary->unwatched_ns);
		json_add_real(json_key(to, "ns_an_object"), summary->event_ns);
	}
	json_close_line(to);
}

static void add_weights(const struct profile *profile, const uint64_t weights[PROFILE_WEIGHTS], struct buffer *to)
{
	if (profile->of_objects) {
		json_member_uint(to, "objects", weights[PROFILE_OBJECTS]);
		json_member_uint(to, "bytes", weights[PROFILE_BYTES]);
	} else {
		json_member_seconds(to, "wall", weights[PROFILE_WALL]);
		json_member_seconds(to, "cpu", weights[PROFILE_CPU]);
		if (profile->of_gvl) {
			json_member_seconds(to, "gvl_waited", weights[PROFILE_WAITED]);
			json_member_seconds(to, "gvl_held", weights[PROFILE_HELD]);
		}
		if (profile->has_idle)
			json_member_seconds(to, "idle", weights[PROFILE_WALL] - weights[PROFILE_BUSY]);
	}
}

static void add_thread(const struct profile *profile, uint32_t number, uint64_t weights[PROFILE_WEIGHTS], struct buffer *to)
{
	const struct profile_thread *thread = &profile->threads[number];

	if (!weights[PROFILE_WALL] && !weights[PROFILE_OBJECTS])
		return;
	if (thread->has_clock)
		weights[PROFILE_CPU] = thread->clock_ns;
	json_open_object(to);
	json_member_string(to, "type", "thread");
	json_member_uint(to, "pid", (uint64_t)profile->processes[thread->process].pid);
	json_member_uint(to, "thread", number);
	if (thread->name.size)
		json_member_text(to, "name", thread->name);
	json_member_bool(to, "main", thread->main);
	if (thread->native_id)
		json_member_uint(to, "native_id", thread->native_id);
	add_weights(profile, weights, to);
	json_close_line(to);
}

static void add_threads(const struct profile *profile, struct buffer *to)
{
	uint64_t(*weights)[PROFILE_WEIGHTS] = memory_zeroed((profile->thread_count + 1) * sizeof(*weights));

	for (uint32_t i = 0; i < profile->sum_count; i++)
		for (int k = 0; k < PROFILE_WEIGHTS; k++)
			weights[profile->sums[i].thread][k] += profile->sums[i].weights[k];
	for (uint32_t i = 0; i < profile->thread_count; i++)
		add_thread(profile, i, weights[i], to);
	free(weights);
}

static void add_frame(const struct profile *profile, uint32_t function, int32_t line, struct buffer *to)
{
	json_open_object(to);
	json_member_text(to, "label", profile_label(profile, function));
	if (profile_is_class(profile, function)) {
		json_member_bool(to, "class", true);
	} else if (profile_is_state(profile, function)) {
		json_member_bool(to, "state", true);
	} else if (profile_is_native(profile, function)) {
		json_member_bool(to, "native", true);
	} else if (profile_path(profile, function).size) {
		json_member_text(to, "path", profile_path(profile, function));
		json_member_int(to, "line", line);
	}
	json_close_object(to);
}

static void add_stack(const struct profile *profile, const struct profile_sum *sum, struct buffer *to)
{
	const struct profile_thread *thread = &profile->threads[sum->thread];

	json_open_object(to);
	json_member_string(to, "type", "stack");
	json_member_uint(to, "pid", (uint64_t)profile->processes[thread->process].pid);
	json_member_uint(to, "thread", sum->thread);
	json_member_uint(to, "samples", sum->ticks);
	add_weights(profile, sum->weights, to);
	json_open_array(json_key(to, "frames"));
	for (uint32_t node = sum->node; node; node = profile->nodes[node].parent)
		add_frame(profile, profile->nodes[node].function, profile->nodes[node].line, to);
	json_close_array(to);
	json_close_line(to);
}

static const char *type_of(const struct profile *profile, uint32_t function)
{
	if (profile_is_class(profile, function))
		return "class";
	if (profile_is_state(profile, function))
		return "state";
	return profile_is_native(profile, function) ? "native" : "method";
}

static void add_function(const struct profile *profile, uint32_t number, const struct profile_view_function *one,
                         const struct profile_view_function *other, struct buffer *to)
{
	const char *type = type_of(profile, number);

	json_open_object(to);
	json_member_string(to, "type", type);
	json_member_text(to, "label", profile_label(profile, number));
	if (profile_path(profile, number).size && strcmp(type, "method") == 0) {
		json_member_text(to, "path", profile_path(profile, number));
		json_member_int(to, "line", profile->functions[number].line);
	}
	if (profile->of_objects) {
		json_member_uint(to, "self_bytes", one->self);
		json_member_uint(to, "total_bytes", one->total);
		json_member_uint(to, "self_objects", other->self);
		json_member_uint(to, "total_objects", other->total);
	} else {
		json_member_seconds(to, "self", one->self);
		json_member_seconds(to, "total", one->total);
		json_member_seconds(to, "self_cpu", other->self);
		json_member_seconds(to, "total_cpu", other->total);
	}
	json_close_line(to);
}

static void add_functions(const struct profile *profile, struct buffer *to)
{
	enum profile_weight weight = profile->of_objects ? PROFILE_BYTES : PROFILE_WALL;
	struct profile_view one = profile_view_make(profile, weight, false);
	struct profile_view other = profile_view_make(profile, profile_unit(weight)->other, false);

	for (uint32_t i = 0; i < profile->function_count; i++)
		if (one.functions[i].total || other.functions[i].total)
			add_function(profile, i, &one.functions[i], &other.functions[i], to);
	profile_view_free(&one);
	profile_view_free(&other);
}

static void add_pair(const struct profile *profile, const struct profile_pair *pair, struct buffer *to)
{
	json_open_object(to);
	json_member_string(to, "type", "gvl");
	json_member_uint(to, "pid", (uint64_t)profile->processes[profile->threads[pair->waiter].process].pid);
	json_member_uint(to, "thread", pair->waiter);
	if (pair->holder != PROFILE_NOBODY)
		json_member_uint(to, "held_by", pair->holder);
	json_member_seconds(to, "waited", pair->ns);
	json_close_line(to);
}

void profile_json(const struct profile *profile, const struct profile_style *style, struct buffer *to)
{
	(void)style;
	for (uint32_t i = 0; i < profile->process_count; i++)
		add_process(profile, &profile->processes[i], to);
	add_threads(profile, to);
	add_functions(profile, to);
	for (uint32_t i = 0; i < profile->pair_count; i++)
		add_pair(profile, &profile->pairs[i], to);
	for (uint32_t i = 0; i < profile->sum_count; i++)
		add_stack(profile, &profile->sums[i], to);
}
