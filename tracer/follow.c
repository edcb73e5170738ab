/* The loop over the processes of a run, and what ends it. See follow.h. */

#define _GNU_SOURCE
#include "follow.h"

#include "exit_status.h"
#include "follower.h"
#include "proto/clock.h"
#include "signals.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#define QUIET_NS (20 * NS_PER_MS)        /* after this, what is held back is shown */
#define EXPECTING_WARN_NS (5 * NS_PER_S) /* a launched process should have loaded the extension by then */

struct follow {
	struct run run;
	struct follower *followers; /* run.process_count of them */
	int signals;
	struct pollfd *polled; /* signals, output, then one for each follower */
	bool output_is_pipe;
	uint64_t started_ns;
	uint64_t count_deadline_ns; /* when calls that --count waits for are given up */
	bool expecting_warned;
	uint64_t written_ns; /* of output->written_ns, what the sessions' deadlines know of */
};

static void stop(struct follow *follow, const char *reason)
{
	if (follow->run.stop_reason)
		return;
	follow->run.stop_reason = reason;
	for (size_t i = 0; i < follow->run.process_count; i++)
		follower_stop(&follow->followers[i]);
}

static void on_stop_signal(struct follow *follow)
{
	bool sent_by_process;
	int number = signals_take(&sent_by_process);

	if (!number)
		return;
	if (!follow->run.launched) {
		stop(follow, number == SIGINT ? "interrupted" : number == SIGTERM ? "terminated" : "hung up");
		return;
	}
	/* The terminal has sent it to the launched process already. Its own end will end the trace. */
	if (sent_by_process)
		kill(follow->run.launched, number);
}

static bool sink_holds(const struct run *run)
{
	return run->sink->ops->holds && run->sink->ops->holds(run->sink);
}

static uint64_t earlier(uint64_t one_ns, uint64_t other_ns)
{
	return one_ns < other_ns ? one_ns : other_ns;
}

static bool expecting_is_suspicious(const struct follow *follow)
{
	return follow->run.launched && !follow->run.armed_ns && !follow->expecting_warned;
}

static uint64_t next_wake_ns(const struct follow *follow)
{
	const struct run *run = &follow->run;
	uint64_t wake_ns = UINT64_MAX;

	for (size_t i = 0; i < run->process_count; i++)
		if (!follow->followers[i].over)
			wake_ns = earlier(wake_ns, follow->followers[i].session.wake_ns);
	if (run->armed_ns && run->options->duration_ns && !run->stop_reason)
		wake_ns = earlier(wake_ns, run->armed_ns + run->options->duration_ns);
	if (follow->count_deadline_ns && !run->stop_reason)
		wake_ns = earlier(wake_ns, follow->count_deadline_ns);
	if (expecting_is_suspicious(follow))
		wake_ns = earlier(wake_ns, follow->started_ns + EXPECTING_WARN_NS);
	if (sink_holds(run))
		wake_ns = earlier(wake_ns, run->last_event_ns + QUIET_NS);
	return wake_ns;
}

/* --count: calls that have begun may end, so that their times are seen; one that waits for ever is not waited for. */
static void check_count(struct follow *follow, uint64_t now_ns)
{
	const struct run *run = &follow->run;

	if (!run->limit.limited || run->limit.left > 0 || run->stop_reason)
		return;
	if (!follow->count_deadline_ns)
		follow->count_deadline_ns = now_ns + run->options->timeout_ns;
	if (run->limit.open == 0 || now_ns >= follow->count_deadline_ns)
		stop(follow, "--count reached");
}

/* Everything that ends a run but signals, and what is due by the clock. */
static void check_limits(struct follow *follow, uint64_t now_ns)
{
	const struct run *run = &follow->run;

	if (run->output->status)
		stop(follow, "the output could not be written");
	if (run->output->reader_gone)
		stop(follow, "the reader closed the pipe");
	check_count(follow, now_ns);
	if (run->armed_ns && run->options->duration_ns && now_ns - run->armed_ns >= run->options->duration_ns)
		stop(follow, "--duration reached");
	if (expecting_is_suspicious(follow) && now_ns - follow->started_ns >= EXPECTING_WARN_NS) {
		follow->expecting_warned = true;
		run_warn(run, "the command has not loaded the rbprobe extension so far (is it Ruby, and does it keep RUBYOPT?); "
		              "still waiting");
	}
	if (sink_holds(run) && now_ns - run->last_event_ns >= QUIET_NS)
		run->sink->ops->quiet(run->sink);
}

/* Fills the descriptors to wait for. False when no process is left. */
static bool descriptors_collect(struct follow *follow)
{
	const struct output *output = follow->run.output;
	bool any = false;

	follow->polled[0] = (struct pollfd){.fd = follow->signals, .events = POLLIN};
	/* The closed end of a pipe is an error condition, which is always reported. */
	follow->polled[1] = (struct pollfd){.fd = follow->output_is_pipe && !output->reader_gone ? output->fd : -1};
	for (size_t i = 0; i < follow->run.process_count; i++) {
		const struct follower *follower = &follow->followers[i];
		int fd = follower->over ? -1 : session_descriptor(&follower->session);

		follow->polled[2 + i] = (struct pollfd){.fd = fd, .events = POLLIN};
		any = any || !follower->over;
	}
	return any;
}

/* `| less`: while a reader waits, so do we, and answers that have come long since are not read. */
static void excuse_writing(struct follow *follow)
{
	uint64_t busy_ns = follow->run.output->written_ns - follow->written_ns;

	for (size_t i = 0; i < follow->run.process_count && busy_ns; i++)
		if (!follow->followers[i].over)
			session_excuse(&follow->followers[i].session, busy_ns);
	follow->written_ns += busy_ns;
}

static bool turn(struct follow *follow)
{
	uint64_t now_ns = clock_now_ns(), wake_ns = next_wake_ns(follow);
	size_t count = 2 + follow->run.process_count;
	struct timespec wait = {0};

	if (!descriptors_collect(follow))
		return false;
	if (wake_ns > now_ns) {
		wait.tv_sec = (time_t)((wake_ns - now_ns) / NS_PER_S);
		wait.tv_nsec = (long)((wake_ns - now_ns) % NS_PER_S);
	}
	if (ppoll(follow->polled, count, wake_ns == UINT64_MAX ? NULL : &wait, NULL) < 0)
		for (size_t i = 0; i < count; i++)
			follow->polled[i].revents = 0; /* interrupted: what is ready is ready next time, too */

	if (follow->polled[0].revents)
		on_stop_signal(follow);
	if (follow->polled[1].revents & POLLERR)
		follow->run.output->reader_gone = true;
	now_ns = clock_now_ns();
	for (size_t i = 0; i < follow->run.process_count; i++)
		if (!follow->followers[i].over)
			follower_step(&follow->followers[i], follow->polled[2 + i].revents, now_ns);
	excuse_writing(follow);
	check_limits(follow, clock_now_ns());
	output_flush(follow->run.output);
	excuse_writing(follow);
	return true;
}

int follow(const struct options *options, struct output *output, struct sink *sink, int signals_descriptor, pid_t launched,
           struct error *hook_question)
{
	struct follow follow = {
		.run =
			{
				.options = options,
				.output = output,
				.sink = sink,
				.launched = launched,
				.process_count = launched ? 1 : options->pids.count,
				.request = options_request(options, COMMAND_TRACE),
				.hook_question = hook_question,
				.limit = {.limited = options->count > 0, .left = options->count},
			},
		.signals = signals_descriptor,
		.started_ns = clock_now_ns(),
	};
	struct stat status;

	follow.output_is_pipe = fstat(output->fd, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
	follow.followers = memory_zeroed(follow.run.process_count * sizeof(*follow.followers));
	follow.polled = memory_zeroed((2 + follow.run.process_count) * sizeof(*follow.polled));
	for (size_t i = 0; i < follow.run.process_count; i++) {
		follow.followers[i].run = &follow.run;
		follow.followers[i].pid = launched ? launched : options->pids.items[i];
		follower_open(&follow.followers[i]);
	}
	while (turn(&follow))
		;
	free(follow.followers);
	free(follow.polled);
	return output->status ? STATUS_FAILED : follow.run.status;
}
