/*
 * One process that is traced: from attaching to the summary, whatever comes in between. See trace_target.h.
 */

#define _GNU_SOURCE
#include "tracer/commands/trace_target.h"

#include "proto/clock.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/cli/hook_question.h"
#include "tracer/commands/trace_workers.h"
#include "tracer/stream/calls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNREAD_NS NS_PER_S /* what is written waits so long for its reader: that one has stopped reading */

void run_warn(const struct run *run, const char *text)
{
	if (!run->options->quiet)
		message("%s", text);
}

static void set_status(struct run *run, int status)
{
	if (run->status == STATUS_DONE)
		run->status = status;
}

/* What else was asked for: ", 12 raised, 3 collections". */
static void describe_events(const struct sink_summary *summary, char *to, size_t size)
{
	size_t used = 0;

	for (uint32_t kind = 0; kind < MARK_COUNT && used < size; kind++)
		if (summary->mark_kinds & 1u << kind && (kind != MARK_GC_PAUSE || summary->marks[kind]))
			used += (size_t)snprintf(to + used, size - used, ", %llu %s", (unsigned long long)summary->marks[kind],
			                         kind == MARK_GC_PAUSE     ? "long pauses in others"
			                         : kind == MARK_GVL        ? "long waits for the GVL"
			                         : kind == MARK_ALLOCATION ? "objects made"
			                                                   : mark_form(kind)->plural);
	if (summary->marks_lost && used < size)
		snprintf(to + used, size - used, ", %llu such events lost", (unsigned long long)summary->marks_lost);
}

/* One line a process on what was seen. */
static void summarise(struct trace_target *traced, const char *reason)
{
	struct run *run = traced->run;
	struct stream *stream = traced->stream;
	struct sink_summary summary = {
		.pid = traced->pid,
		.calls = stream->calls,
		.lines = stream->lines,
		.lost = traced->has_end && traced->end.lost > stream->lost ? traced->end.lost : stream->lost,
		.left_out = traced->has_end ? traced->end.left_out : 0,
		.counted = traced->has_end ? traced->end.counted : 0,
		.other_ractors = traced->has_end ? traced->end.other_ractors : 0,
		.mark_kinds = run->options->trace.marks.kinds,
		.marks = stream->marks,
		.marks_lost = traced->has_end ? traced->end.marks_lost : 0,
		.duration_ns = traced->armed_ns ? clock_now_ns() - traced->armed_ns : 0,
		.reason = reason,
	};
	char pid[32] = "", lines[40] = "", left_out[80] = "", counted[60] = "", ractors[80] = "", events[200] = "";

	if (run->sink->ops->summary)
		run->sink->ops->summary(run->sink, &summary);
	if (run->options->quiet)
		return;
	output_flush(run->output);
	if (run->process_count > 1)
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
	describe_events(&summary, events, sizeof(events));
	message("%s%llu call%s%s, %llu lost%s%s%s%s, %.1f s; ended: %s", pid, (unsigned long long)summary.calls,
	        summary.calls == 1 ? "" : "s", lines, (unsigned long long)summary.lost, left_out, counted, ractors, events,
	        (double)summary.duration_ns / 1e9, reason);
	if (traced->has_end && !run->limit.limited &&
	    traced->end.calls != summary.calls + summary.lines + summary.lost + summary.left_out)
		message("%sthe process counted %llu calls, but another number arrived; please report this", pid,
		        (unsigned long long)traced->end.calls);
}

/* Selectors that waited in vain are most often misspelt. */
static void name_unmatched(const struct trace_target *traced)
{
	const struct run *run = traced->run;
	const struct selector_list *selectors = &run->options->selectors;
	uint32_t named = 0;

	for (uint32_t i = 0; i < selectors->count; i++) {
		if (traced->found && traced->found[i])
			continue;
		if (run->sink->ops->unmatched)
			run->sink->ops->unmatched(run->sink, traced->pid, selectors->texts[i]);
		if (run->options->quiet || (++named > UNMATCHED_NAMED_MAX && !run->options->verbose))
			continue;
		output_flush(run->output);
		message("process %d: %s never matched %s", (int)traced->pid, selectors->texts[i],
		        selector_line(&selectors->items[i]) ? "code" : "a method");
	}
	if (named > UNMATCHED_NAMED_MAX && !run->options->verbose)
		message("process %d: %u more selectors never matched anything: -v names them", (int)traced->pid,
		        named - UNMATCHED_NAMED_MAX);
}

/* The process is done with, whatever came of it. */
static void trace_target_finish(struct trace_target *traced, const char *reason)
{
	if (traced->over)
		return;
	traced->over = true;
	attachment_close(&traced->attachment);
	if (traced->stream) {
		calls_finish(traced->stream);
		if (traced->stream->open_left_out)
			message("process %d: %llu open calls are not shown: the output would be more than %u times what the "
			        "process has sent",
			        (int)traced->pid, (unsigned long long)traced->stream->open_left_out, OUTPUT_FACTOR);
		if (traced->armed_ns) {
			name_unmatched(traced);
			trace_workers_finish(traced);
			summarise(traced, reason);
		}
		/* the sink may hold something of other streams only, now */
		stream_free(traced->stream);
		traced->stream = NULL;
	}
	free(traced->found);
	traced->found = NULL;
}

static void trace_target_fail(struct trace_target *traced, const struct error *err)
{
	bool attached = traced->attachment.state >= ATTACHMENT_ARMED;
	struct error *question = err->code == -EACCES ? traced->run->hook_question : NULL;

	output_flush(traced->run->output);
	if (question)
		*question = *err;
	else
		message("%s%s", err->text, err->code == -EACCES ? hook_remedy(traced->run->options) : "");
	set_status(traced->run, attached || err->code == -ECANCELED ? STATUS_FAILED : STATUS_NOT_ATTACHED);
	trace_target_finish(traced, "an error");
}

static int on_hello(void *owner, const struct record_hello *hello, struct error *err)
{
	struct trace_target *traced = owner;
	int status = attachment_hello(&traced->attachment, hello, err);

	if (status == 0 && traced->run->options->verbose)
		message("attached to process %d: Ruby %.*s, extension %.*s", (int)traced->pid, (int)hello->ruby_version.size,
		        hello->ruby_version.bytes, (int)hello->extension_version.size, hello->extension_version.bytes);
	return status;
}

static int on_reply(void *owner, const struct record_reply *reply, struct error *err)
{
	struct trace_target *traced = owner;
	struct run *run = traced->run;
	bool was_armed = traced->attachment.state >= ATTACHMENT_ARMED;
	int status = attachment_reply(&traced->attachment, reply, err);

	if (status == -ECANCELED && reply->code == EACCES)
		return err->code = -EACCES;
	if (was_armed && reply->code)
		traced->asked = false;
	if (status < 0 || was_armed)
		return status;
	traced->armed_ns = clock_now_ns();
	if (!run->armed_ns)
		run->armed_ns = traced->armed_ns;
	if (run->options->verbose)
		message("process %d: tracing %llu method%s%s%.*s", (int)traced->pid, (unsigned long long)reply->count,
		        reply->count == 1 ? "" : "s", reply->text.size ? "; " : "", (int)reply->text.size, reply->text.bytes);
	return 0;
}

static int on_note(void *owner, const struct record_note *note, struct error *err)
{
	struct trace_target *traced = owner;
	const struct options *options = traced->run->options;

	(void)err;
	if (!options->quiet && (note->level == NOTE_WARNING || options->verbose))
		message("process %d: %.*s", (int)traced->pid, (int)note->text.size, note->text.bytes);
	return 0;
}

static int on_found(void *owner, const struct record_found *found, struct error *err)
{
	struct trace_target *traced = owner;
	uint32_t count = traced->run->options->selectors.count;

	(void)err;
	if (found->selector >= count)
		return 0;
	if (!traced->found)
		traced->found = memory_zeroed(count * sizeof(*traced->found));
	traced->found[found->selector] = true;
	return 0;
}

static int on_data(void *owner, const struct record_data *data, struct error *err)
{
	struct trace_target *traced = owner;
	struct sink *sink = traced->run->sink;

	return sink->ops->data ? sink->ops->data(sink, traced->stream, data->object, err) : 0;
}

static int on_done(void *owner, const struct record_done *done, struct error *err)
{
	struct trace_target *traced = owner;

	(void)done;
	(void)err;
	traced->asked = false;
	return 0;
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
	message("process %d: %s%.*s: waited for the GVL %.1f %%, held it %.1f %%, did without %.1f %%; %llu waits, the longest "
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
	message("process %d: %llu objects of %.*s were made, %llu shown", (int)traced->pid,
	        (unsigned long long)totals->numbers[0], (int)name.size, name.size ? name.bytes : "",
	        (unsigned long long)totals->numbers[1]);
	buffer_free(&name);
}

static int on_totals(void *owner, const struct record_totals *totals, struct error *err)
{
	struct trace_target *traced = owner;
	struct run *run = traced->run;

	(void)err;
	if (!mark_form(totals->mark))
		return 0;
	if (run->sink->ops->totals)
		run->sink->ops->totals(run->sink, traced->stream, totals);
	if (run->options->quiet)
		return 0;
	output_flush(run->output);
	if (totals->mark == MARK_GC)
		message("process %d: garbage collection took %.3f s of %.1f s (%.1f %%), the longest pause %.6f s",
		        (int)traced->pid, (double)totals->numbers[0] / 1e9, (double)totals->elapsed_ns / 1e9,
		        percent(totals->numbers[0], totals->elapsed_ns), (double)totals->numbers[1] / 1e9);
	else if (totals->mark == MARK_GVL)
		say_gvl(traced, totals);
	else if (totals->mark == MARK_ALLOCATION)
		say_allocations(traced, totals);
	return 0;
}

static int on_end(void *owner, const struct record_end *end, struct error *err)
{
	struct trace_target *traced = owner;

	(void)err;
	traced->end = *end;
	traced->has_end = true;
	traced->attachment.ended = true;
	if (end->reason == END_REFUSED)
		return error_set(err, -EPERM, "process %d refused: %.*s", (int)traced->pid, (int)end->text.size, end->text.bytes);
	return 0;
}

static const struct stream_handler handlers = {.hello = on_hello,
                                               .reply = on_reply,
                                               .note = on_note,
                                               .end = on_end,
                                               .found = on_found,
                                               .data = on_data,
                                               .done = on_done,
                                               .totals = on_totals};

void trace_target_open(struct trace_target *traced)
{
	struct run *run = traced->run;
	struct error err;
	const struct attach_manner manner = options_manner(run->options);
	int status;

	if (run->launched)
		status = attachment_expect(&traced->attachment, traced->pid, &run->command, run->options->timeout_ns, &err);
	else
		status = attachment_open(&traced->attachment, traced->pid, &run->command, &manner, &err);
	if (status < 0) {
		message("%s", err.text);
		set_status(run, STATUS_NOT_ATTACHED);
		traced->over = true;
		return;
	}
	if (run->options->verbose && (traced->attachment.loading.loaded || traced->attachment.loading.bell == LOADER_BELL_CALL)) {
		char text[512];

		loader_describe(&traced->attachment.loading, traced->pid, text, sizeof(text));
		message("%s", text);
	}
	if (!traced->stream)
		traced->stream = stream_new(traced->pid, run->sink, &run->limit, &handlers, traced);
}

void trace_target_stop(struct trace_target *traced)
{
	if (traced->over)
		return;
	/* Calls may come, and be enough, before the last method is armed. */
	if (traced->stream && traced->stream->calls + traced->stream->lines > 0 && !traced->armed_ns)
		traced->armed_ns = clock_now_ns();
	if (traced->attachment.state >= ATTACHMENT_ARMED || traced->armed_ns) {
		attachment_detach(&traced->attachment);
		return;
	}
	if (traced->attachment.state != ATTACHMENT_EXPECTING) {
		run_warn(traced->run, traced->run->output->written_ns + message_waited_ns() > UNREAD_NS
		                              ? "nothing reads the output (a pager?), so the trace could not start; use -o FILE"
		                              : "ended before the methods were armed");
		/* Who closed the pipe had enough. */
		if (!traced->run->output->reader_gone)
			set_status(traced->run, STATUS_NOT_ATTACHED);
	}
	trace_target_finish(traced, traced->run->stop_reason);
}

void trace_target_ask(struct trace_target *traced)
{
	if (!traced->over && !traced->asked)
		traced->asked = attachment_ask_statistics(&traced->attachment);
}

/* It ended and said nothing: by a signal, by exit!, or by an exec of something that was over at once. */
static void trace_target_died(struct trace_target *traced, enum attachment_leaving left, int signal)
{
	struct run *run = traced->run;
	const char *when = traced->armed_ns ? "while it was traced" : "while rbprobe was attaching to it";

	if (run->stop_reason) {
		trace_target_finish(traced, run->stop_reason);
		return;
	}
	output_flush(run->output);
	if (left == LEFT_BY_EXIT)
		run_warn(run, "the process left without its exit handlers (exit!, daemon, or exec of a short program): what it "
		              "did in its last "
		              "milliseconds is not shown, and not counted");
	else if (left == LEFT_BY_SIGNAL)
		message("process %d was killed by signal %d (%s) %s", (int)traced->pid, signal, strsignal(signal), when);
	else
		message("process %d ended without a word %s: it was killed, it crashed, or it left by exit!", (int)traced->pid,
		        when);
	if (left != LEFT_BY_EXIT || !traced->armed_ns)
		set_status(run, traced->armed_ns ? STATUS_TARGET_GONE : STATUS_NOT_ATTACHED);
	trace_target_finish(traced, left == LEFT_BY_EXIT     ? "the process exited"
	                            : left == LEFT_BY_SIGNAL ? "the process was killed"
	                                                     : "the process ended without a word");
}

/* The socket has ended. With END before, that was in order; without, the process is dead or is another program now. */
static void trace_target_disconnected(struct trace_target *traced)
{
	struct run *run = traced->run;
	enum attachment_leaving left;
	struct target now;
	int signal = 0;

	if (traced->has_end) {
		trace_target_finish(traced, traced->end.reason == END_EXIT ? "the process exited"
		                            : run->stop_reason             ? run->stop_reason
		                                                           : "the process let go");
		return;
	}
	left = attachment_left(&traced->attachment, &signal);
	if (left != LEFT_BY_EXEC) {
		trace_target_died(traced, left, signal);
		return;
	}
	if (run->stop_reason) {
		run_warn(run, "the target ended the session without its final count: calls that are not shown may be missing "
		              "from the summary");
		set_status(run, STATUS_FAILED);
		trace_target_finish(traced, run->stop_reason);
		return;
	}
	if (target_describe(&now, traced->pid, TARGET_BASIC, NULL) == 0 && now.extension_mapped && !run->launched) {
		message("process %d closed the connection without a word, though it still runs", (int)traced->pid);
		set_status(run, traced->armed_ns ? STATUS_TARGET_GONE : STATUS_NOT_ATTACHED);
		trace_target_finish(traced, "the connection was lost");
		return;
	}
	run_warn(run, "the process called exec: what it did in its last milliseconds before is not shown, and not counted");
	trace_target_finish(traced, "the process called exec");
	if (run->launched) {
		traced->over = traced->has_end = false;
		traced->armed_ns = 0;
		trace_target_open(traced);
	}
}

static void trace_target_read(struct trace_target *traced)
{
	struct run *run = traced->run;
	struct error err;
	int status = stream_read(traced->stream, traced->attachment.fd, &err);

	if (status > 0) {
		run->last_event_ns = clock_now_ns();
		if (traced->has_end)
			trace_target_disconnected(traced);
	} else if (status == -ENODATA) {
		trace_target_disconnected(traced);
	} else if (status < 0) {
		trace_target_fail(traced, &err);
	}
}

void trace_target_step(struct trace_target *traced, short events, uint64_t now_ns)
{
	struct attachment *attachment = &traced->attachment;
	struct error err;

	if (attachment->fd < 0 ? events != 0 || now_ns >= attachment->wake_ns : now_ns >= attachment->wake_ns) {
		if (attachment_step(attachment, now_ns, &err) < 0) {
			if (traced->run->stop_reason) {
				run_warn(traced->run, err.text);
				trace_target_finish(traced, traced->run->stop_reason);
			} else if (attachment->state == ATTACHMENT_EXPECTING && traced->run->armed_ns) {
				trace_target_finish(traced, "the process exited"); /* after an exec of something else */
			} else {
				trace_target_fail(traced, &err);
			}
			return;
		}
	}
	if (attachment->fd >= 0 && events)
		trace_target_read(traced);
}
