/*
 * One process that is traced: from attaching to the summary, whatever comes in between. See trace_target.h.
 */

#define _GNU_SOURCE
#include "tracer/commands/trace_target.h"

#include "proto/clock.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/cli/hook_question.h"
#include "tracer/cli/rbtrace_words.h"
#include "tracer/commands/trace_forks.h"
#include "tracer/commands/trace_summary.h"
#include "tracer/commands/trace_unmatched.h"
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

/* By us, and no child of it. */
static bool is_launched(const struct trace_target *traced)
{
	return traced->run->launched == traced->pid;
}

static void set_status(const struct trace_target *traced, int status)
{
	struct run *run = traced->run;
	int *first = run->workers || traced->forked ? &run->worker_status : &run->status;

	if (*first == STATUS_DONE)
		*first = status;
}

static void say_of_worker(const struct trace_target *traced, const char *what)
{
	if (traced->run->options->quiet)
		return;
	output_flush(traced->output);
	message_often("worker %d %s", (int)traced->pid, what);
}

static void say_of_forked(const struct trace_target *traced, const char *what)
{
	char parent[32] = "";

	if (traced->run->options->quiet)
		return;
	if (traced->parent)
		snprintf(parent, sizeof(parent), " by %d", (int)traced->parent);
	output_flush(traced->output);
	message_often("process %d (forked%s) %s", (int)traced->pid, parent, what);
}

/* The process is done with, whatever came of it. */
static void trace_target_finish(struct trace_target *traced, const char *reason)
{
	if (traced->over)
		return;
	traced->over = true;
	attachment_close(&traced->attachment);
	if (is_launched(traced))
		traced->run->expecting_ns = 0;
	if (traced->run->workers && !traced->run->stop_reason && traced->armed_ns)
		say_of_worker(traced, "left");
	if (traced->stream) {
		calls_finish(traced->stream);
		if (traced->stream->open_left_out)
			message_often(
				"process %d: %llu open calls are not shown: the output would be more than %u times what the "
				"process has sent",
				(int)traced->pid, (unsigned long long)traced->stream->open_left_out, OUTPUT_FACTOR);
		if (traced->armed_ns) {
			trace_unmatched_at_end(traced);
			trace_workers_finish(traced);
			trace_summary_say(traced, reason, clock_now_ns() - traced->armed_ns);
		} else if (traced->greeted && is_like_rbtrace(traced->run)) {
			rbtrace_say_ended(&(struct sink_summary){.pid = traced->pid, .gone = traced->gone});
		}
		if (traced->sink->ops->gone)
			traced->sink->ops->gone(traced->sink, traced->stream);
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

	output_flush(traced->output);
	if (question)
		*question = *err;
	else
		message_often("%s%s", err->text, err->code == -EACCES ? hook_remedy(traced->run->options) : "");
	set_status(traced, attached || err->code == -ECANCELED ? STATUS_FAILED : STATUS_NOT_ATTACHED);
	trace_target_finish(traced, "an error");
}

static int on_hello(void *owner, const struct record_hello *hello, struct error *err)
{
	struct trace_target *traced = owner;
	int status = attachment_hello(&traced->attachment, hello, err);

	traced->greeted = status == 0;
	traced->stream->main_native_id = hello->pid; /* as it is of every process's main thread */
	if (traced->greeted && is_like_rbtrace(traced->run))
		rbtrace_say_attached(traced->pid);
	if (status == 0 && traced->forked)
		say_of_forked(traced, "joined");
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
	if (is_launched(traced))
		run->expecting_ns = 0;
	if (traced->joined)
		say_of_worker(traced, "joined");
	trace_unmatched_at_start(traced);
	if (run->options->verbose)
		message("process %d: tracing %llu method%s%s%.*s", (int)traced->pid, (unsigned long long)reply->count,
		        reply->count == 1 ? "" : "s", reply->text.size ? "; " : "", (int)reply->text.size, reply->text.bytes);
	return 0;
}

void trace_target_note(const struct trace_target *traced, const struct record_note *note)
{
	const struct options *options = traced->run->options;

	if (note->level == NOTE_WARNING && traced->sink->ops->note) {
		traced->sink->ops->note(traced->sink, traced->pid, note->text);
		output_flush(traced->output);
	}
	if (!options->quiet && (note->level == NOTE_WARNING || options->verbose))
		message_often("process %d: %.*s", (int)traced->pid, (int)note->text.size, note->text.bytes);
}

static int on_note(void *owner, const struct record_note *note, struct error *err)
{
	(void)err;
	trace_target_note(owner, note);
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
	struct sink *sink = traced->sink;

	return sink->ops->data ? sink->ops->data(sink, traced->stream, data->object, err) : 0;
}

static int on_done(void *owner, const struct record_done *done, struct error *err)
{
	struct trace_target *traced = owner;

	(void)done;
	(void)err;
	traced->asked = false;
	traced->told = true;
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

static int on_totals(void *owner, const struct record_totals *totals, struct error *err)
{
	(void)err;
	trace_summary_totals(owner, totals);
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

struct trace_target *trace_target_new(struct run *run, pid_t pid)
{
	struct trace_target *traced = memory_zeroed(sizeof(*traced));

	traced->run = run;
	traced->pid = pid;
	traced->output = run->sink ? run->output : &traced->file.output;
	traced->sink = run->sink;
	return traced;
}

void trace_target_free(struct trace_target *traced)
{
	/* Of a process that was never traced there is no result: a file that was there stays, and none is made. */
	traced->file.output.is_spared = !traced->armed_ns;
	if (trace_file_close(&traced->file, traced->run->maker) < 0)
		set_status(traced, STATUS_FAILED);
	free(traced);
}

/* The common sink, or that of its own file. */
static int find_sink(struct trace_target *traced, struct error *err)
{
	const struct run *run = traced->run;
	int status;

	if (traced->sink)
		return 0;
	status = trace_file_open(&traced->file, traced->pid, run->options, run->maker, err);
	traced->sink = traced->file.sink;
	return status;
}

void trace_target_open(struct trace_target *traced)
{
	struct run *run = traced->run;
	struct error err;
	const struct attach_manner manner = options_manner(run->options);
	int status;

	if (find_sink(traced, &err) < 0) {
		message_often("%s", err.text);
		set_status(traced, STATUS_FAILED);
		traced->over = true;
		return;
	}
	if (is_launched(traced)) {
		status = attachment_expect(&traced->attachment, traced->pid, &run->command, run->options->timeout_ns, &err);
		run->expecting_ns = status == 0 ? clock_now_ns() : 0;
	} else {
		status = attachment_open(&traced->attachment, traced->pid, &run->command, &manner, &err);
	}
	if (status < 0) {
		message_often("%s", err.text);
		set_status(traced, STATUS_NOT_ATTACHED);
		traced->over = true;
		return;
	}
	if (run->options->verbose && (traced->attachment.loading.loaded || traced->attachment.loading.bell == LOADER_BELL_CALL)) {
		char text[512];

		loader_describe(&traced->attachment.loading, traced->pid, text, sizeof(text));
		message("%s", text);
	}
	if (traced->stream)
		return;
	traced->stream = stream_new(traced->pid, traced->sink, &run->limit, &handlers, traced);
}

void trace_target_adopt(struct trace_target *traced, pid_t parent, struct fork_place *place, int descriptor)
{
	struct run *run = traced->run;
	struct error err;

	traced->place = place;
	place->members++;
	traced->forked = true;
	traced->parent = parent;
	attachment_adopt(&traced->attachment, traced->pid, descriptor, &place->meeting, run->options->timeout_ns);
	if (find_sink(traced, &err) == 0) {
		traced->stream = stream_new(traced->pid, traced->sink, &run->limit, &handlers, traced);
		return;
	}
	message_often("%s", err.text);
	attachment_close(&traced->attachment);
	set_status(traced, STATUS_FAILED);
	traced->over = true;
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
	if (traced->attachment.state != ATTACHMENT_EXPECTING && !traced->forked) {
		run_warn(traced->run, traced->output->reader_gone ? "the reader closed the pipe before the methods were armed"
		                      : traced->output->written_ns + message_waited_ns() > UNREAD_NS
		                              ? "nothing reads the output (a pager?), so the trace could not start; use -o FILE"
		                              : "ended before the methods were armed");
		/* Who closed the pipe had enough. */
		if (!traced->output->reader_gone)
			set_status(traced, STATUS_NOT_ATTACHED);
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

	traced->gone = true;
	if (run->stop_reason) {
		trace_target_finish(traced, run->stop_reason);
		return;
	}
	output_flush(traced->output);
	if (traced->forked && left != LEFT_BY_SIGNAL)
		say_of_forked(traced,
		              "left without its exit handlers (exit!, or exec of a short program): what it did in its last "
		              "milliseconds is not shown, and not counted");
	else if (left == LEFT_BY_EXIT)
		run_warn(run, "the process left without its exit handlers (exit!, daemon, or exec of a short program): what it "
		              "did in its last "
		              "milliseconds is not shown, and not counted");
	else if (left == LEFT_BY_SIGNAL)
		message_often("process %d was killed by signal %d (%s) %s", (int)traced->pid, signal, strsignal(signal), when);
	else
		message_often("process %d ended without a word %s: it was killed, it crashed, or it left by exit!",
		              (int)traced->pid, when);
	if (left != LEFT_BY_EXIT || !traced->armed_ns)
		set_status(traced, traced->armed_ns ? STATUS_TARGET_GONE : STATUS_NOT_ATTACHED);
	trace_target_finish(traced, left == LEFT_BY_EXIT     ? "the process exited"
	                            : left == LEFT_BY_SIGNAL ? "the process was killed"
	                                                     : "the process ended without a word");
}

/* It runs another program now, which may have Ruby and load the extension. Children of that one have a place of their own. */
static void trace_target_begin_anew(struct trace_target *traced)
{
	forks_leave(traced, clock_now_ns());
	traced->over = traced->has_end = traced->gone = traced->greeted = traced->asked = traced->told = false;
	traced->armed_ns = 0;
	trace_target_open(traced);
}

/* The socket has ended. With END before, that was in order; without, the process is dead or is another program now. */
static void trace_target_disconnected(struct trace_target *traced)
{
	struct run *run = traced->run;
	enum attachment_leaving left;
	int signal = 0;

	if (traced->has_end) {
		traced->gone = traced->end.reason == END_EXIT;
		trace_target_finish(traced, traced->end.reason == END_EXIT ? "the process exited"
		                            : run->stop_reason             ? run->stop_reason
		                                                           : "the process let go");
		return;
	}
	left = attachment_left(&traced->attachment, &signal);
	if (traced->forked && !traced->attachment.greeted && left != LEFT_BY_SIGNAL) {
		run->unheard++;
		if (run->options->verbose)
			say_of_forked(traced, "went without a word: exec, or exit!");
		trace_target_finish(traced, "nothing came of it");
		return;
	}
	if (left != LEFT_BY_EXEC && left != LEFT_ALONE) {
		trace_target_died(traced, left, signal);
		return;
	}
	if (run->stop_reason) {
		run_warn(run, "the target ended the session without its final count: calls that are not shown may be missing "
		              "from the summary");
		set_status(traced, STATUS_FAILED);
		trace_target_finish(traced, run->stop_reason);
		return;
	}
	if (left == LEFT_ALONE) {
		message_often("process %d closed the connection without a word, though it still runs", (int)traced->pid);
		set_status(traced, traced->armed_ns ? STATUS_TARGET_GONE : STATUS_NOT_ATTACHED);
		trace_target_finish(traced, "the connection was lost");
		return;
	}
	run_warn(run, "the process called exec: what it did in its last milliseconds before is not shown, and not counted");
	trace_target_finish(traced, "the process called exec");
	if (is_launched(traced))
		trace_target_begin_anew(traced);
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
				run_warn(traced->run, "the program that the process became by exec has ended without having "
				                      "loaded the rbprobe extension (is it Ruby, and does it keep RUBYOPT?): "
				                      "nothing of it is shown");
				trace_target_finish(traced, "the process exited");
			} else {
				trace_target_fail(traced, &err);
			}
			return;
		}
	}
	if (attachment->fd >= 0 && events)
		trace_target_read(traced);
}
