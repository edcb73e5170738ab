/* What is said of a process when it has been traced. See trace_summary.h. */

#include "tracer/commands/trace_summary.h"

#include "tracer/base/message.h"
#include "tracer/cli/rbtrace_words.h"

#include <stdio.h>

/* What else was asked for: ", 12 raised, 3 collections". */
static void describe_events(const struct sink_summary *summary, uint32_t states_rate_hz, char *to, size_t size)
{
	static const char *const words[MARK_COUNT][2] = {
		[MARK_RAISE] = {"raised", "raised"},
		[MARK_GC] = {"collection", "collections"},
		[MARK_GC_PAUSE] = {"long pause in another", "long pauses in others"},
		[MARK_GVL] = {"long wait for the GVL", "long waits for the GVL"},
		[MARK_ALLOCATION] = {"object made", "objects made"},
		[MARK_STATE] = {"change of a thread's state", "changes of threads' states"},
	};
	size_t used = 0;

	for (uint32_t kind = 0; kind < MARK_COUNT && used < size; kind++)
		if (summary->mark_kinds & 1u << kind && (kind != MARK_GC_PAUSE || summary->marks[kind]))
			used += (size_t)snprintf(to + used, size - used, ", %llu %s", (unsigned long long)summary->marks[kind],
			                         words[kind][summary->marks[kind] != 1]);
	if (summary->mark_kinds & 1u << MARK_STATE && states_rate_hz && used < size)
		used += (size_t)snprintf(to + used, size - used, " sampled at %u Hz", states_rate_hz);
	if (summary->marks_lost && used < size)
		used += (size_t)snprintf(to + used, size - used, ", %llu such event%s lost",
		                         (unsigned long long)summary->marks_lost, summary->marks_lost == 1 ? "" : "s");
	if (summary->marks_left_out && used < size)
		snprintf(to + used, size - used, ", %llu other%s not meet the conditions",
		         (unsigned long long)summary->marks_left_out, summary->marks_left_out == 1 ? " does" : "s do");
}

/* Of a process that only counts, and that was killed: what it has counted since it was last asked went with it. */
static void say_last_known(const struct sink_summary *summary, const char *pid, bool known)
{
	char calls[48] = "calls not known";

	if (known)
		snprintf(calls, sizeof(calls), "%llu call%s last known", (unsigned long long)summary->calls,
		         summary->calls == 1 ? "" : "s");
	message("%s%s, %.1f s; ended: %s", pid, calls, (double)summary->duration_ns / 1e9, summary->reason);
}

void trace_summary_say(struct trace_target *traced, const char *reason, uint64_t duration_ns)
{
	struct run *run = traced->run;
	struct stream *stream = traced->stream;
	struct sink_summary summary = {
		.pid = traced->pid,
		.calls = stream->calls,
		.lines = stream->lines,
		.lost = traced->has_end && traced->end.lost > stream->lost ? traced->end.lost : stream->lost,
		.left_out = (traced->has_end ? traced->end.left_out : 0) + traced->left_out,
		.counted = traced->has_end ? traced->end.counted : 0,
		.other_ractors = traced->has_end ? traced->end.other_ractors : 0,
		.mark_kinds = run->options->trace.marks.kinds,
		.marks = stream->marks,
		.marks_lost = (traced->has_end ? traced->end.marks_lost : 0) + stream->states_lost,
		.marks_left_out = (traced->has_end ? traced->end.marks_left_out : 0) + traced->marks_left_out,
		/* With many methods the first are counted well before the trace begins, and the last after its end. */
		.duration_ns = stream->counted_ns ? stream->counted_ns : duration_ns,
		.reason = reason,
		.gone = traced->gone,
		.cut_short = traced->armed_ns && !traced->has_end,
	};
	char pid[32] = "", lines[40] = "", left_out[80] = "", counted[60] = "", ractors[80] = "", events[250] = "",
	     unconfirmed[SUMMARY_REASON_MAX];

	/* It may have made more calls, and lost more. Figures say by themselves that they are the last known ones. */
	if (summary.cut_short && !(summary.gone && traced->sink->ops->data)) {
		snprintf(unconfirmed, sizeof(unconfirmed), "%s" SUMMARY_UNCONFIRMED, reason);
		summary.reason = reason = unconfirmed;
	}
	if (traced->sink->ops->summary)
		traced->sink->ops->summary(traced->sink, &summary);
	output_flush(traced->output);
	if (is_like_rbtrace(run))
		rbtrace_say_ended(&summary);
	if (run->options->quiet || is_like_rbtrace(run))
		return;
	if (run->several)
		snprintf(pid, sizeof(pid), "%d: ", (int)traced->pid);
	if (summary.lines)
		snprintf(lines, sizeof(lines), ", %llu line%s", (unsigned long long)summary.lines, summary.lines == 1 ? "" : "s");
	if (summary.left_out)
		snprintf(left_out, sizeof(left_out), ", %llu other%s not meet the conditions",
		         (unsigned long long)summary.left_out, summary.left_out == 1 ? " does" : "s do");
	if (summary.counted)
		snprintf(counted, sizeof(counted), ", %llu only counted", (unsigned long long)summary.counted);
	if (summary.other_ractors)
		snprintf(ractors, sizeof(ractors), ", %llu in other Ractors not followed",
		         (unsigned long long)summary.other_ractors);
	if (summary.cut_short && traced->sink->ops->data) {
		say_last_known(&summary, pid, traced->told);
		return;
	}
	describe_events(&summary, stream->states_rate_hz, events, sizeof(events));
	message("%s%llu call%s%s, %llu lost%s%s%s%s, %.1f s; ended: %s", pid, (unsigned long long)summary.calls,
	        summary.calls == 1 ? "" : "s", lines, (unsigned long long)summary.lost, left_out, counted, ractors, events,
	        (double)summary.duration_ns / 1e9, reason);
	if (traced->armed_ns && !summary.calls && summary.left_out && run->options->trace.conditions.thread.size)
		message_often(
			"process %d: no call met the conditions; `rbprobe bt -p %d` shows the threads that --thread may name",
			(int)traced->pid, (int)traced->pid);
	if (traced->has_end && !run->limit.limited && !traced->partial &&
	    traced->end.calls != summary.calls + summary.lines + summary.lost + summary.left_out)
		message("%sthe process counted %llu calls, but another number arrived; please report this", pid,
		        (unsigned long long)traced->end.calls);
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* A thread's. */
static void say_gvl(const struct trace_target *traced, const struct record_totals *totals)
{
	uint64_t all_ns = totals->numbers[0] + totals->numbers[1] + totals->numbers[2];
	struct buffer name = {0};
	char thread[32] = "threads that ended";

	if (totals->native_id)
		snprintf(thread, sizeof(thread), "thread %u", totals->native_id);
	if (totals->thread_name.size) {
		buffer_add_text(&name, " \"");
		buffer_add_printable(&name, totals->thread_name.bytes, totals->thread_name.size);
		buffer_add_char(&name, '"');
	}
	message_often(
		"process %d: %s%.*s: waited for the GVL %.1f %%, held it %.1f %%, did without %.1f %%; %llu waits, the longest "
		"%.6f s",
		(int)traced->pid, thread, (int)name.size, name.size ? name.bytes : "", percent(totals->numbers[0], all_ns),
		percent(totals->numbers[1], all_ns), percent(totals->numbers[2], all_ns), (unsigned long long)totals->numbers[3],
		(double)totals->numbers[4] / 1e9);
	buffer_free(&name);
}

static void say_allocations(const struct trace_target *traced, const struct record_totals *totals)
{
	struct buffer name = {0};

	buffer_add_printable(&name, totals->thread_name.bytes, totals->thread_name.size);
	message("process %d: %llu %s of %.*s %s made, %llu shown", (int)traced->pid, (unsigned long long)totals->numbers[0],
	        totals->numbers[0] == 1 ? "object" : "objects", (int)name.size, name.size ? name.bytes : "",
	        totals->numbers[0] == 1 ? "was" : "were", (unsigned long long)totals->numbers[1]);
	buffer_free(&name);
}

void trace_summary_totals(struct trace_target *traced, const struct record_totals *totals)
{
	struct run *run = traced->run;

	if (!mark_form(totals->mark))
		return;
	if (traced->sink->ops->totals)
		traced->sink->ops->totals(traced->sink, traced->stream, totals);
	if (run->options->quiet || is_like_rbtrace(run))
		return;
	output_flush(traced->output);
	if (totals->mark == MARK_GC)
		message("process %d: garbage collection took %.3f s of %.1f s (%.1f %%), the longest pause %.6f s",
		        (int)traced->pid, (double)totals->numbers[0] / 1e9, (double)totals->elapsed_ns / 1e9,
		        percent(totals->numbers[0], totals->elapsed_ns), (double)totals->numbers[1] / 1e9);
	else if (totals->mark == MARK_GVL)
		say_gvl(traced, totals);
	else if (totals->mark == MARK_ALLOCATION)
		say_allocations(traced, totals);
}
