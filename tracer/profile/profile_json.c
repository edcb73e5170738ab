/* A profile for programs. See profile_text.h. */

#include "tracer/profile/profile_text.h"

#include "tracer/base/json.h"

static void add_process(const struct profile *profile, const struct profile_process *process, struct buffer *to)
{
	const struct profile_summary *summary = &process->summary;

	json_open_object(to);
	json_member_string(to, "type", "process");
	json_member_uint(to, "pid", (uint64_t)process->pid);
	json_member_seconds(to, "elapsed", summary->elapsed_ns);
	json_member_uint(to, "rate_hz", profile->rate_hz);
	json_add_real(json_key(to, "rate_hz_at_end"), summary->rate_hz);
	json_member_uint(to, "samples", summary->samples);
	json_member_uint(to, "late", summary->late_ticks);
	json_member_seconds(to, "late_time", summary->late_ns);
	json_member_uint(to, "without_room", summary->no_room_ticks);
	json_member_uint(to, "without_room_for_thread", summary->threads_left_out);
	json_member_uint(to, "cut", summary->cut);
	json_member_uint(to, "woken", summary->woken);
	json_member_seconds(to, "own_cpu", summary->own_cpu_ns);
	json_close_line(to);
}

static void add_thread(const struct profile *profile, uint32_t number, struct buffer *to)
{
	const struct profile_thread *thread = &profile->threads[number];
	uint64_t wall_ns = 0, cpu_ns = 0;

	for (uint32_t i = 0; i < profile->sum_count; i++) {
		wall_ns += profile->sums[i].thread == number ? profile->sums[i].wall_ns : 0;
		cpu_ns += profile->sums[i].thread == number ? profile->sums[i].cpu_ns : 0;
	}
	if (!wall_ns)
		return;
	json_open_object(to);
	json_member_string(to, "type", "thread");
	json_member_uint(to, "pid", (uint64_t)profile->processes[thread->process].pid);
	json_member_uint(to, "thread", number);
	if (thread->name.size)
		json_member_text(to, "name", thread->name);
	json_member_bool(to, "main", thread->main);
	if (thread->native_id)
		json_member_uint(to, "native_id", thread->native_id);
	json_member_seconds(to, "wall", wall_ns);
	json_member_seconds(to, "cpu", thread->has_clock ? thread->clock_ns : cpu_ns);
	json_close_line(to);
}

static void add_frame(const struct profile *profile, uint32_t function, int32_t line, struct buffer *to)
{
	json_open_object(to);
	json_member_text(to, "label", profile_label(profile, function));
	if (profile_path(profile, function).size) {
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
	json_member_seconds(to, "wall", sum->wall_ns);
	json_member_seconds(to, "cpu", sum->cpu_ns);
	json_open_array(json_key(to, "frames"));
	for (uint32_t node = sum->node; node; node = profile->nodes[node].parent)
		add_frame(profile, profile->nodes[node].function, profile->nodes[node].line, to);
	json_close_array(to);
	json_close_line(to);
}

static void add_functions(const struct profile *profile, struct buffer *to)
{
	struct profile_view wall = profile_view_make(profile, PROFILE_WALL, false);
	struct profile_view cpu = profile_view_make(profile, PROFILE_CPU, false);

	for (uint32_t i = 0; i < profile->function_count; i++) {
		if (!wall.functions[i].total_ns && !cpu.functions[i].total_ns)
			continue;
		json_open_object(to);
		json_member_string(to, "type", "method");
		json_member_text(to, "label", profile_label(profile, i));
		if (profile_path(profile, i).size) {
			json_member_text(to, "path", profile_path(profile, i));
			json_member_int(to, "line", profile->functions[i].line);
		}
		json_member_seconds(to, "self", wall.functions[i].self_ns);
		json_member_seconds(to, "total", wall.functions[i].total_ns);
		json_member_seconds(to, "self_cpu", cpu.functions[i].self_ns);
		json_member_seconds(to, "total_cpu", cpu.functions[i].total_ns);
		json_close_line(to);
	}
	profile_view_free(&wall);
	profile_view_free(&cpu);
}

void profile_json(const struct profile *profile, const struct profile_style *style, struct buffer *to)
{
	(void)style;
	for (uint32_t i = 0; i < profile->process_count; i++)
		add_process(profile, &profile->processes[i], to);
	for (uint32_t i = 0; i < profile->thread_count; i++)
		add_thread(profile, i, to);
	add_functions(profile, to);
	for (uint32_t i = 0; i < profile->sum_count; i++)
		add_stack(profile, &profile->sums[i], to);
}
