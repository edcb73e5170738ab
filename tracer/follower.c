/*
 * One process that is followed: from attaching to the summary, whatever comes in between. See follower.h.
 */

#define _GNU_SOURCE
#include "follower.h"

#include "exit_status.h"
#include "hook_question.h"
#include "message.h"
#include "proc_status.h"
#include "proto/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define DEATH_WAIT_MS 200 /* between a socket's end and the end of its killed process */

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

/* One line a process on what was seen. */
static void summarise(struct follower *follower, const char *reason)
{
	struct run *run = follower->run;
	struct stream *stream = follower->stream;
	struct sink_summary summary = {
		.pid = follower->pid,
		.calls = stream->calls,
		.lost = follower->has_end && follower->end.lost > stream->lost ? follower->end.lost : stream->lost,
		.other_ractors = follower->has_end ? follower->end.other_ractors : 0,
		.duration_ns = follower->armed_ns ? clock_now_ns() - follower->armed_ns : 0,
		.reason = reason,
	};
	char pid[32] = "", ractors[80] = "";

	if (run->sink->ops->summary)
		run->sink->ops->summary(run->sink, &summary);
	if (run->options->quiet)
		return;
	output_flush(run->output);
	if (run->process_count > 1)
		snprintf(pid, sizeof(pid), "%d: ", (int)follower->pid);
	if (summary.other_ractors)
		snprintf(ractors, sizeof(ractors), ", %llu in other Ractors not followed",
		         (unsigned long long)summary.other_ractors);
	message("%s%llu call%s, %llu lost%s, %.1f s; ended: %s", pid, (unsigned long long)summary.calls,
	        summary.calls == 1 ? "" : "s", (unsigned long long)summary.lost, ractors, (double)summary.duration_ns / 1e9,
	        reason);
	if (follower->has_end && !run->limit.limited && follower->end.calls != summary.calls + summary.lost)
		message("%sthe process counted %llu calls, which is not what came; please report this", pid,
		        (unsigned long long)follower->end.calls);
}

/* Selectors that waited in vain are most often misspelt. */
static void name_unmatched(const struct follower *follower)
{
	const struct run *run = follower->run;
	const struct selector_list *selectors = &run->options->selectors;

	for (uint32_t i = 0; i < selectors->count; i++) {
		if (follower->found && follower->found[i])
			continue;
		if (run->sink->ops->unmatched)
			run->sink->ops->unmatched(run->sink, follower->pid, selectors->texts[i]);
		if (run->options->quiet)
			continue;
		output_flush(run->output);
		message("process %d: %s never matched a method", (int)follower->pid, selectors->texts[i]);
	}
}

/* The process is done with, whatever came of it. */
static void follower_finish(struct follower *follower, const char *reason)
{
	if (follower->over)
		return;
	follower->over = true;
	session_close(&follower->session);
	if (follower->stream) {
		calls_finish(follower->stream);
		if (follower->stream->open_left_out)
			message("process %d: %llu calls that were still open are not shown: that would be more than %u times "
			        "what "
			        "it has sent",
			        (int)follower->pid, (unsigned long long)follower->stream->open_left_out, OUTPUT_FACTOR);
		if (follower->armed_ns) {
			name_unmatched(follower);
			summarise(follower, reason);
		}
		/* the sink may hold something of other streams only, now */
		stream_free(follower->stream);
		follower->stream = NULL;
	}
	free(follower->found);
	follower->found = NULL;
}

static void follower_fail(struct follower *follower, const struct error *err)
{
	bool attached = follower->session.state >= SESSION_ARMED;
	struct error *question = err->code == -EACCES ? follower->run->hook_question : NULL;

	output_flush(follower->run->output);
	if (question)
		*question = *err;
	else
		message("%s%s", err->text, err->code == -EACCES ? hook_remedy(follower->run->options) : "");
	set_status(follower->run, attached || err->code == -ECANCELED ? STATUS_FAILED : STATUS_NOT_ATTACHED);
	follower_finish(follower, "an error");
}

static int on_hello(void *owner, const struct record_hello *hello, struct error *err)
{
	struct follower *follower = owner;
	int status = session_hello(&follower->session, hello, err);

	if (status == 0 && follower->run->options->verbose)
		message("attached to process %d: Ruby %.*s, extension %.*s", (int)follower->pid, (int)hello->ruby_version.size,
		        hello->ruby_version.bytes, (int)hello->extension_version.size, hello->extension_version.bytes);
	return status;
}

static int on_reply(void *owner, const struct record_reply *reply, struct error *err)
{
	struct follower *follower = owner;
	struct run *run = follower->run;
	bool was_armed = follower->session.state >= SESSION_ARMED;
	int status = session_reply(&follower->session, reply, err);

	if (status == -ECANCELED && reply->code == EACCES)
		return err->code = -EACCES;
	if (status < 0 || was_armed)
		return status;
	follower->armed_ns = clock_now_ns();
	if (!run->armed_ns)
		run->armed_ns = follower->armed_ns;
	if (run->options->verbose)
		message("process %d: tracing %llu method%s%s%.*s", (int)follower->pid, (unsigned long long)reply->count,
		        reply->count == 1 ? "" : "s", reply->text.size ? "; " : "", (int)reply->text.size, reply->text.bytes);
	return 0;
}

static int on_note(void *owner, const struct record_note *note, struct error *err)
{
	struct follower *follower = owner;
	const struct options *options = follower->run->options;

	(void)err;
	if (!options->quiet && (note->level == NOTE_WARNING || options->verbose))
		message("process %d: %.*s", (int)follower->pid, (int)note->text.size, note->text.bytes);
	return 0;
}

static int on_found(void *owner, const struct record_found *found, struct error *err)
{
	struct follower *follower = owner;
	uint32_t count = follower->run->options->selectors.count;

	(void)err;
	if (found->selector >= count)
		return 0;
	if (!follower->found)
		follower->found = memory_zeroed(count * sizeof(*follower->found));
	follower->found[found->selector] = true;
	return 0;
}

static int on_end(void *owner, const struct record_end *end, struct error *err)
{
	struct follower *follower = owner;

	(void)err;
	follower->end = *end;
	follower->has_end = true;
	follower->session.ended = true;
	if (end->reason == END_REFUSED)
		return error_set(err, -EPERM, "process %d refused: %.*s", (int)follower->pid, (int)end->text.size,
		                 end->text.bytes);
	return 0;
}

static const struct stream_handler handlers = {
	.hello = on_hello, .reply = on_reply, .note = on_note, .end = on_end, .found = on_found};

void follower_open(struct follower *follower)
{
	struct run *run = follower->run;
	struct error err;
	const struct session_manner manner = options_manner(run->options);
	int status;

	if (run->launched)
		status = session_expect(&follower->session, follower->pid, &run->request, run->options->timeout_ns, &err);
	else
		status = session_open(&follower->session, follower->pid, &run->request, &manner, &err);
	if (status < 0) {
		message("%s", err.text);
		set_status(run, STATUS_NOT_ATTACHED);
		follower->over = true;
		return;
	}
	if (run->options->verbose && (follower->session.loading.loaded || follower->session.loading.bell == LOADER_BELL_CALL)) {
		char text[512];

		loader_describe(&follower->session.loading, follower->pid, text, sizeof(text));
		message("%s", text);
	}
	if (!follower->stream)
		follower->stream = stream_new(follower->pid, run->sink, &run->limit, &handlers, follower);
}

void follower_stop(struct follower *follower)
{
	if (follower->over)
		return;
	/* Calls may come, and be enough, before the last method is armed. */
	if (follower->stream && follower->stream->calls > 0 && !follower->armed_ns)
		follower->armed_ns = clock_now_ns();
	if (follower->session.state >= SESSION_ARMED || follower->armed_ns) {
		session_detach(&follower->session);
		return;
	}
	if (follower->session.state != SESSION_EXPECTING) {
		run_warn(follower->run, "ended before the methods were armed");
		set_status(follower->run, STATUS_NOT_ATTACHED);
	}
	follower_finish(follower, follower->run->stop_reason);
}

/* It ended and said nothing: by a signal, by exit!, or by an exec of something that was over at once. */
static void follower_died(struct follower *follower)
{
	struct run *run = follower->run;
	const char *when = follower->armed_ns ? "while it was traced" : "while rbprobe was attaching to it";
	int wait_status = 0;
	bool known = proc_wait_status(follower->pid, &wait_status) || pidfd_wait_status(follower->session.process, &wait_status);
	bool exited = known && WIFEXITED(wait_status);

	if (run->stop_reason) {
		follower_finish(follower, run->stop_reason);
		return;
	}
	output_flush(run->output);
	if (exited)
		run_warn(run, "the process left without its exit handlers (exit!, daemon, or exec of a short program): what it "
		              "did in its last "
		              "milliseconds is not shown, and not counted");
	else if (known)
		message("process %d was killed by signal %d (%s) %s", (int)follower->pid, WTERMSIG(wait_status),
		        strsignal(WTERMSIG(wait_status)), when);
	else
		message("process %d ended without a word %s: it was killed, it crashed, or it left by exit!", (int)follower->pid,
		        when);
	if (!exited || !follower->armed_ns)
		set_status(run, follower->armed_ns ? STATUS_TARGET_GONE : STATUS_NOT_ATTACHED);
	follower_finish(follower, exited  ? "the process exited"
	                          : known ? "the process was killed"
	                                  : "the process ended without a word");
}

/* The socket has ended. With END before, that was in order; without, the process is dead or is another program now. */
static void follower_disconnected(struct follower *follower)
{
	struct run *run = follower->run;
	struct pollfd process = {.fd = follower->session.process, .events = POLLIN};
	struct target now;

	if (follower->has_end) {
		follower_finish(follower, follower->end.reason == END_EXIT ? "the process exited"
		                          : run->stop_reason               ? run->stop_reason
		                                                           : "the process let go");
		return;
	}
	if (process.fd >= 0)
		poll(&process, 1, DEATH_WAIT_MS);
	if (!session_has_execed(&follower->session)) {
		follower_died(follower);
		return;
	}
	if (run->stop_reason) {
		run_warn(run, "the target ended the session without its final count: calls that are not shown may be missing "
		              "from the summary");
		set_status(run, STATUS_FAILED);
		follower_finish(follower, run->stop_reason);
		return;
	}
	if (target_describe(&now, follower->pid, TARGET_BASIC, NULL) == 0 && now.extension_mapped && !run->launched) {
		message("process %d closed the connection without a word, though it still runs", (int)follower->pid);
		set_status(run, follower->armed_ns ? STATUS_TARGET_GONE : STATUS_NOT_ATTACHED);
		follower_finish(follower, "the connection was lost");
		return;
	}
	run_warn(run, "the process called exec: what it did in its last milliseconds before is not shown, and not counted");
	follower_finish(follower, "the process called exec");
	if (run->launched) {
		follower->over = follower->has_end = false;
		follower->armed_ns = 0;
		follower_open(follower);
	}
}

static void follower_read(struct follower *follower)
{
	struct run *run = follower->run;
	struct error err;
	int status = stream_read(follower->stream, follower->session.fd, &err);

	if (status > 0) {
		run->last_event_ns = clock_now_ns();
		if (follower->has_end)
			follower_disconnected(follower);
	} else if (status == -ENODATA) {
		follower_disconnected(follower);
	} else if (status < 0) {
		follower_fail(follower, &err);
	}
}

void follower_step(struct follower *follower, short events, uint64_t now_ns)
{
	struct session *session = &follower->session;
	struct error err;

	if (session->fd < 0 ? events != 0 || now_ns >= session->wake_ns : now_ns >= session->wake_ns) {
		if (session_step(session, now_ns, &err) < 0) {
			if (follower->run->stop_reason) {
				run_warn(follower->run, err.text);
				follower_finish(follower, follower->run->stop_reason);
			} else if (session->state == SESSION_EXPECTING && follower->run->armed_ns) {
				follower_finish(follower, "the process exited"); /* after an exec of something else */
			} else {
				follower_fail(follower, &err);
			}
			return;
		}
	}
	if (session->fd >= 0 && events)
		follower_read(follower);
}
