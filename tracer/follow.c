/* Following several processes in one loop. See follow.h. */

#define _GNU_SOURCE
#include "follow.h"

#include "attach.h"
#include "clock.h"
#include "exit_status.h"
#include "message.h"
#include "signals.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define QUIET_NS (5 * NS_PER_MS)           /* after this, what is held back is shown */
#define DEATH_WAIT_MS 200                  /* between a socket's end and the end of its killed process */
#define EXPECTING_WARN_NS (5 * NS_PER_S)   /* a launched process should have loaded the extension by then */

struct follow;

/* One process. */
struct follower {
	struct follow *follow;
	pid_t pid;
	struct session session;
	struct stream *stream; /* NULL: it was never attached to, or all is told */
	uint64_t armed_ns;     /* 0: not yet */
	struct record_end end;
	bool has_end;
	bool over;
};

struct follow {
	const struct options *options;
	struct output *output;
	struct sink *sink;
	pid_t launched;
	struct command request;
	struct call_limit limit;
	struct follower *followers;
	size_t count;
	struct pollfd *polled; /* signals, output, then one for each follower */
	const char *stop_reason; /* NULL: going on */
	int status;
	uint64_t started_ns;
	uint64_t last_event_ns;
	uint64_t armed_ns;
	uint64_t count_deadline_ns; /* when calls that --count waits for are given up */
	bool output_is_pipe;
	bool expecting_warned;
};

static void warn_unless_quiet(const struct follow *follow, const char *text)
{
	if (!follow->options->quiet)
		message("%s", text);
}

static void status_worsen(struct follow *follow, int status)
{
	if (follow->status == STATUS_DONE)
		follow->status = status;
}

/* One line a process on what was seen. */
static void summarise(struct follower *follower, const char *reason)
{
	struct follow *follow = follower->follow;
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

	if (follow->sink->ops->summary)
		follow->sink->ops->summary(follow->sink, &summary);
	if (follow->options->quiet)
		return;
	output_flush(follow->output);
	if (follow->count > 1)
		snprintf(pid, sizeof(pid), "%d: ", (int)follower->pid);
	if (summary.other_ractors)
		snprintf(ractors, sizeof(ractors), ", %llu in other Ractors not followed", (unsigned long long)summary.other_ractors);
	message("%s%llu call%s, %llu lost%s, %.1f s; ended: %s", pid, (unsigned long long)summary.calls,
	        summary.calls == 1 ? "" : "s", (unsigned long long)summary.lost, ractors, (double)summary.duration_ns / 1e9, reason);
	if (follower->has_end && !follow->limit.limited && follower->end.calls != summary.calls + summary.lost)
		message("%sthe process counted %llu calls, which is not what came; please report this", pid,
		        (unsigned long long)follower->end.calls);
}

/* The process is done with, whatever came of it. */
static void follower_finish(struct follower *follower, const char *reason)
{
	if (follower->over)
		return;
	follower->over = true;
	session_close(&follower->session);
	if (follower->stream) {
		stream_finish(follower->stream);
		if (follower->armed_ns)
			summarise(follower, reason);
		/* the sink may hold something of other streams only, now */
		stream_free(follower->stream);
		follower->stream = NULL;
	}
}

static void follower_fail(struct follower *follower, const struct error *err)
{
	bool attached = follower->session.state >= SESSION_ARMED;

	output_flush(follower->follow->output);
	message("%s", err->text);
	status_worsen(follower->follow, attached || err->code == -ECANCELED ? STATUS_FAILED : STATUS_NOT_ATTACHED);
	follower_finish(follower, "an error");
}

static int on_hello(void *owner, const struct record_hello *hello, struct error *err)
{
	struct follower *follower = owner;
	int status = session_hello(&follower->session, hello, err);

	if (status == 0 && follower->follow->options->verbose)
		message("attached to process %d: Ruby %.*s, extension %.*s", (int)follower->pid, (int)hello->ruby_version.size,
		        hello->ruby_version.bytes, (int)hello->extension_version.size, hello->extension_version.bytes);
	return status;
}

static int on_reply(void *owner, const struct record_reply *reply, struct error *err)
{
	struct follower *follower = owner;
	struct follow *follow = follower->follow;
	bool was_armed = follower->session.state >= SESSION_ARMED;
	int status = session_reply(&follower->session, reply, err);

	if (status < 0 || was_armed)
		return status;
	follower->armed_ns = clock_now_ns();
	if (!follow->armed_ns)
		follow->armed_ns = follower->armed_ns;
	if (follow->options->verbose)
		message("process %d: tracing %llu method%s%s%.*s", (int)follower->pid, (unsigned long long)reply->count,
		        reply->count == 1 ? "" : "s", reply->text.size ? "; " : "", (int)reply->text.size, reply->text.bytes);
	return 0;
}

static int on_note(void *owner, const struct record_note *note, struct error *err)
{
	struct follower *follower = owner;
	const struct options *options = follower->follow->options;

	(void)err;
	if (!options->quiet && (note->level == NOTE_WARNING || options->verbose))
		message("process %d: %.*s", (int)follower->pid, (int)note->text.size, note->text.bytes);
	return 0;
}

static int on_end(void *owner, const struct record_end *end, struct error *err)
{
	struct follower *follower = owner;

	(void)err;
	follower->end = *end;
	follower->has_end = true;
	if (end->reason == END_REFUSED)
		return error_set(err, -EPERM, "process %d refused: %.*s", (int)follower->pid, (int)end->text.size, end->text.bytes);
	return 0;
}

static const struct stream_handler handlers = {.hello = on_hello, .reply = on_reply, .note = on_note, .end = on_end};

static void follower_open(struct follower *follower)
{
	struct follow *follow = follower->follow;
	struct error err;
	int status;

	if (follow->launched)
		status = session_expect(&follower->session, follower->pid, &follow->request, follow->options->timeout_ns, &err);
	else
		status = session_open(&follower->session, follower->pid, &follow->request, follow->options->timeout_ns, &err);
	if (status < 0) {
		message("%s", err.text);
		status_worsen(follow, STATUS_NOT_ATTACHED);
		follower->over = true;
		return;
	}
	if (!follower->stream)
		follower->stream = stream_new(follower->pid, follow->sink, &follow->limit, &handlers, follower);
}

/* Asks every process to let go; those that have not been reached yet are just left. */
static void stop(struct follow *follow, const char *reason)
{
	if (follow->stop_reason)
		return;
	follow->stop_reason = reason;
	for (size_t i = 0; i < follow->count; i++) {
		struct follower *follower = &follow->followers[i];

		if (follower->over)
			continue;
		if (follower->session.state < SESSION_ARMED) {
			if (follower->session.state != SESSION_EXPECTING)
				status_worsen(follow, STATUS_NOT_ATTACHED);
			follower_finish(follower, reason);
		} else {
			session_detach(&follower->session);
		}
	}
}

/* The socket has ended. With END before, that was in order; without, the process is dead or is another program now. */
static void follower_disconnected(struct follower *follower)
{
	struct follow *follow = follower->follow;
	struct pollfd process = {.fd = follower->session.process, .events = POLLIN};
	struct target now;
	struct error err;

	if (follower->has_end) {
		follower_finish(follower, follower->end.reason == END_EXIT ? "the process exited"
		                          : follow->stop_reason            ? follow->stop_reason
		                                                           : "the process let go");
		return;
	}
	if (process.fd >= 0)
		poll(&process, 1, DEATH_WAIT_MS);
	if (!session_has_execed(&follower->session)) {
		if (!follow->stop_reason) {
			error_set(&err, -ESRCH, "process %d was killed or crashed%s", (int)follower->pid,
			          follower->armed_ns ? " while it was traced" : " while rbprobe was attaching to it");
			output_flush(follow->output);
			message("%s", err.text);
			status_worsen(follow, follower->armed_ns ? STATUS_TARGET_GONE : STATUS_NOT_ATTACHED);
		}
		follower_finish(follower, follow->stop_reason ? follow->stop_reason : "the process was killed");
		return;
	}
	if (follow->stop_reason) {
		follower_finish(follower, follow->stop_reason);
		return;
	}
	if (target_describe(&now, follower->pid, TARGET_BASIC, NULL) == 0 && now.extension_mapped && !follow->launched) {
		message("process %d closed the connection without a word, though it still runs", (int)follower->pid);
		status_worsen(follow, follower->armed_ns ? STATUS_TARGET_GONE : STATUS_NOT_ATTACHED);
		follower_finish(follower, "the connection was lost");
		return;
	}
	follower_finish(follower, "the process called exec");
	if (follow->launched) {
		follower->over = follower->has_end = false;
		follower->armed_ns = 0;
		follower_open(follower);
	}
}

static void follower_read(struct follower *follower)
{
	struct follow *follow = follower->follow;
	struct error err;
	int status = stream_read(follower->stream, follower->session.fd, &err);

	if (status > 0) {
		follow->last_event_ns = clock_now_ns();
		if (follower->has_end)
			follower_disconnected(follower);
	} else if (status == -ENODATA) {
		follower_disconnected(follower);
	} else if (status < 0) {
		follower_fail(follower, &err);
	}
}

static void follower_step(struct follower *follower, short events, uint64_t now_ns)
{
	struct session *session = &follower->session;
	struct error err;

	if (session->fd < 0 ? events != 0 || now_ns >= session->wake_ns : now_ns >= session->wake_ns) {
		if (session_step(session, now_ns, &err) < 0) {
			if (follower->follow->stop_reason) {
				warn_unless_quiet(follower->follow, err.text);
				follower_finish(follower, follower->follow->stop_reason);
			} else if (session->state == SESSION_EXPECTING) {
				warn_unless_quiet(follower->follow, err.text);
				follower_finish(follower, "the process exited");
			} else {
				follower_fail(follower, &err);
			}
			return;
		}
	}
	if (session->fd >= 0 && events)
		follower_read(follower);
}

static void on_stop_signal(struct follow *follow)
{
	bool sent_by_process;
	int number = signals_take(&sent_by_process);

	if (!number)
		return;
	if (!follow->launched) {
		stop(follow, number == SIGINT ? "interrupted" : number == SIGTERM ? "terminated" : "hung up");
		return;
	}
	/* The terminal has sent it to the launched process already. Its own end will end the trace. */
	if (sent_by_process)
		kill(follow->launched, number);
}

static uint64_t earlier(uint64_t one_ns, uint64_t other_ns)
{
	return one_ns < other_ns ? one_ns : other_ns;
}

static bool sink_holds(const struct follow *follow)
{
	return follow->sink->ops->holds && follow->sink->ops->holds(follow->sink);
}

static uint64_t next_wake_ns(const struct follow *follow)
{
	uint64_t wake_ns = UINT64_MAX;

	for (size_t i = 0; i < follow->count; i++)
		if (!follow->followers[i].over)
			wake_ns = earlier(wake_ns, follow->followers[i].session.wake_ns);
	if (follow->armed_ns && follow->options->duration_ns && !follow->stop_reason)
		wake_ns = earlier(wake_ns, follow->armed_ns + follow->options->duration_ns);
	if (follow->count_deadline_ns && !follow->stop_reason)
		wake_ns = earlier(wake_ns, follow->count_deadline_ns);
	if (follow->launched && !follow->armed_ns && !follow->expecting_warned)
		wake_ns = earlier(wake_ns, follow->started_ns + EXPECTING_WARN_NS);
	if (sink_holds(follow))
		wake_ns = earlier(wake_ns, follow->last_event_ns + QUIET_NS);
	return wake_ns;
}

/* Everything that ends a run but signals, and what is due by the clock. */
static void check_limits(struct follow *follow, uint64_t now_ns)
{
	const struct options *options = follow->options;

	if (follow->output->status)
		stop(follow, "the output could not be written");
	if (follow->output->reader_gone)
		stop(follow, "the reader closed the pipe");
	if (follow->limit.limited && follow->limit.left == 0 && !follow->stop_reason) {
		/* Calls that have begun may end, so that their times are seen, but a call that waits for ever is not waited for. */
		if (!follow->count_deadline_ns)
			follow->count_deadline_ns = now_ns + options->timeout_ns;
		if (follow->limit.open == 0 || now_ns >= follow->count_deadline_ns)
			stop(follow, "--count reached");
	}
	if (follow->armed_ns && options->duration_ns && now_ns - follow->armed_ns >= options->duration_ns)
		stop(follow, "--duration reached");
	if (follow->launched && !follow->armed_ns && !follow->expecting_warned && now_ns - follow->started_ns >= EXPECTING_WARN_NS) {
		follow->expecting_warned = true;
		warn_unless_quiet(follow, "the command has not loaded the rbprobe extension yet; is it Ruby, and is RUBYOPT kept? Waiting on");
	}
	if (sink_holds(follow) && now_ns - follow->last_event_ns >= QUIET_NS)
		follow->sink->ops->quiet(follow->sink);
}

static bool turn(struct follow *follow, int signals_descriptor)
{
	uint64_t now_ns = clock_now_ns(), wake_ns = next_wake_ns(follow);
	struct timespec wait = {0};
	bool any = false;

	follow->polled[0] = (struct pollfd){.fd = signals_descriptor, .events = POLLIN};
	/* The closed end of a pipe is an error condition, which is always reported. */
	follow->polled[1] = (struct pollfd){.fd = follow->output_is_pipe && !follow->output->reader_gone ? follow->output->fd : -1};
	for (size_t i = 0; i < follow->count; i++) {
		struct follower *follower = &follow->followers[i];

		follow->polled[2 + i] = (struct pollfd){.fd = -1};
		if (follower->over)
			continue;
		any = true;
		follow->polled[2 + i] = (struct pollfd){.fd = session_descriptor(&follower->session), .events = POLLIN};
	}
	if (!any)
		return false;
	if (wake_ns > now_ns) {
		wait.tv_sec = (time_t)((wake_ns - now_ns) / NS_PER_S);
		wait.tv_nsec = (long)((wake_ns - now_ns) % NS_PER_S);
	}
	if (ppoll(follow->polled, 2 + follow->count, wake_ns == UINT64_MAX ? NULL : &wait, NULL) < 0)
		for (size_t i = 0; i < 2 + follow->count; i++)
			follow->polled[i].revents = 0; /* interrupted: what is ready is ready next time, too */

	if (follow->polled[0].revents)
		on_stop_signal(follow);
	if (follow->polled[1].revents & POLLERR)
		follow->output->reader_gone = true;
	now_ns = clock_now_ns();
	for (size_t i = 0; i < follow->count; i++)
		if (!follow->followers[i].over)
			follower_step(&follow->followers[i], follow->polled[2 + i].revents, now_ns);
	check_limits(follow, clock_now_ns());
	output_flush(follow->output);
	return true;
}

int follow(const struct options *options, struct output *output, struct sink *sink, int signals_descriptor, pid_t launched)
{
	struct follow follow = {
		.options = options,
		.output = output,
		.sink = sink,
		.launched = launched,
		.request = options_request(options, COMMAND_TRACE),
		.limit = {.limited = options->count > 0, .left = options->count},
		.count = launched ? 1 : options->pids.count,
		.started_ns = clock_now_ns(),
	};
	struct stat status;

	follow.output_is_pipe = fstat(output->fd, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
	follow.followers = memory_zeroed(follow.count * sizeof(*follow.followers));
	follow.polled = memory_zeroed((2 + follow.count) * sizeof(*follow.polled));
	for (size_t i = 0; i < follow.count; i++) {
		follow.followers[i].follow = &follow;
		follow.followers[i].pid = launched ? launched : options->pids.items[i];
		follower_open(&follow.followers[i]);
	}
	while (turn(&follow, signals_descriptor))
		;
	if (output->status && !follow.status)
		follow.status = STATUS_FAILED;
	free(follow.followers);
	free(follow.polled);
	return follow.status;
}
