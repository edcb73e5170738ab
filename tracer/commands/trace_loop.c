/* The loop over the processes of a run, and what ends it. See trace_loop.h. */

#include "tracer/commands/trace_loop.h"

#include "proto/clock.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/base/poll_until.h"
#include "tracer/base/signals.h"
#include "tracer/commands/trace_target.h"
#include "tracer/commands/trace_workers.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#define QUIET_NS (20 * NS_PER_MS)        /* after this, what is held back is shown */
#define EXPECTING_WARN_NS (5 * NS_PER_S) /* a launched process should have loaded the extension by then */

struct trace_loop {
	struct run run;
	struct trace_target *targets; /* run.process_count of them */
	int signals;
	struct pollfd *polled; /* signals, output, then one for each traced */
	bool output_is_pipe;
	uint64_t started_ns;
	uint64_t count_deadline_ns; /* when calls that --count waits for are given up */
	bool expecting_warned;
	uint64_t ask_ns;    /* --interval: when the processes are asked next; 0: never */
	bool asked;         /* and have not all answered */
	uint64_t waited_ns; /* of the time that writing has taken, what the sessions' deadlines know of */
};

static void stop(struct trace_loop *loop, const char *reason)
{
	if (loop->run.stop_reason)
		return;
	loop->run.stop_reason = reason;
	for (size_t i = 0; i < loop->run.process_count; i++)
		trace_target_stop(&loop->targets[i]);
}

static void on_stop_signal(struct trace_loop *loop)
{
	bool sent_by_process;
	int number = signals_take(&sent_by_process);

	if (!number)
		return;
	if (!loop->run.launched) {
		stop(loop, number == SIGINT ? "interrupted" : number == SIGTERM ? "terminated" : "hung up");
		return;
	}
	/* The terminal has sent it to the launched process already. Its own end will end the trace. */
	if (sent_by_process)
		kill(loop->run.launched, number);
}

static bool sink_holds(const struct run *run)
{
	return run->sink->ops->holds && run->sink->ops->holds(run->sink);
}

static uint64_t earlier(uint64_t one_ns, uint64_t other_ns)
{
	return one_ns < other_ns ? one_ns : other_ns;
}

static bool expecting_is_suspicious(const struct trace_loop *loop)
{
	return loop->run.launched && !loop->run.armed_ns && !loop->expecting_warned;
}

static uint64_t next_wake_ns(const struct trace_loop *loop)
{
	const struct run *run = &loop->run;
	uint64_t wake_ns = UINT64_MAX;

	for (size_t i = 0; i < run->process_count; i++)
		if (!loop->targets[i].over)
			wake_ns = earlier(wake_ns, loop->targets[i].attachment.wake_ns);
	for (size_t i = 0; i < run->process_count && !run->stop_reason; i++)
		wake_ns = earlier(wake_ns, trace_workers_wake_ns(&loop->targets[i]));
	if (run->armed_ns && run->options->duration_ns && !run->stop_reason)
		wake_ns = earlier(wake_ns, run->armed_ns + run->options->duration_ns);
	if (loop->ask_ns && !run->stop_reason)
		wake_ns = earlier(wake_ns, loop->ask_ns);
	if (loop->count_deadline_ns && !run->stop_reason)
		wake_ns = earlier(wake_ns, loop->count_deadline_ns);
	if (expecting_is_suspicious(loop))
		wake_ns = earlier(wake_ns, loop->started_ns + EXPECTING_WARN_NS);
	if (sink_holds(run))
		wake_ns = earlier(wake_ns, run->last_event_ns + QUIET_NS);
	return wake_ns;
}

/* --count: calls that have begun may end, so that their times are seen; one that waits for ever is not waited for. */
static void check_count(struct trace_loop *loop, uint64_t now_ns)
{
	const struct run *run = &loop->run;

	if (!run->limit.limited || run->limit.left > 0 || run->stop_reason)
		return;
	if (!loop->count_deadline_ns)
		loop->count_deadline_ns = now_ns + run->options->timeout_ns;
	if (run->limit.open == 0 || now_ns >= loop->count_deadline_ns)
		stop(loop, "--count reached");
}

/* --interval: asks when it is time, and shows what has come when all have answered. */
static void ask_in_turn(struct trace_loop *loop, uint64_t now_ns)
{
	const struct run *run = &loop->run;
	uint64_t interval_ns = run->options->interval_ns;
	bool waiting = false;

	if (!interval_ns || !run->armed_ns || run->stop_reason)
		return;
	if (!loop->ask_ns)
		loop->ask_ns = run->armed_ns + interval_ns;
	for (size_t i = 0; i < run->process_count; i++)
		waiting = waiting || (loop->targets[i].asked && !loop->targets[i].over);
	if (loop->asked && !waiting) {
		loop->asked = false;
		run->sink->ops->round(run->sink);
	}
	if (now_ns < loop->ask_ns)
		return;
	/* Missed times are left out, not made up for. */
	loop->ask_ns += (1 + (now_ns - loop->ask_ns) / interval_ns) * interval_ns;
	for (size_t i = 0; i < run->process_count; i++)
		trace_target_ask(&loop->targets[i]);
	loop->asked = true;
}

/* Everything that ends a run but signals, and what is due by the clock. */
static void check_limits(struct trace_loop *loop, uint64_t now_ns)
{
	const struct run *run = &loop->run;

	if (run->output->status)
		stop(loop, "the output could not be written");
	if (run->output->reader_gone)
		stop(loop, "the reader closed the pipe");
	check_count(loop, now_ns);
	for (size_t i = 0; i < run->process_count && !run->stop_reason; i++)
		trace_workers_step(&loop->targets[i], now_ns);
	ask_in_turn(loop, now_ns);
	if (run->armed_ns && run->options->duration_ns && now_ns - run->armed_ns >= run->options->duration_ns)
		stop(loop, "--duration reached");
	if (expecting_is_suspicious(loop) && now_ns - loop->started_ns >= EXPECTING_WARN_NS) {
		loop->expecting_warned = true;
		run_warn(run, "the command has not loaded the rbprobe extension so far (is it Ruby, and does it keep RUBYOPT?); "
		              "still waiting");
	}
	if (sink_holds(run) && now_ns - run->last_event_ns >= QUIET_NS)
		run->sink->ops->quiet(run->sink);
}

/* Fills the descriptors to wait for. False when no process is left. */
static bool descriptors_collect(struct trace_loop *loop)
{
	const struct output *output = loop->run.output;
	bool any = false;

	loop->polled[0] = (struct pollfd){.fd = loop->signals, .events = POLLIN};
	/* The closed end of a pipe is an error condition, which is always reported. */
	loop->polled[1] = (struct pollfd){.fd = loop->output_is_pipe && !output->reader_gone ? output->fd : -1};
	for (size_t i = 0; i < loop->run.process_count; i++) {
		const struct trace_target *traced = &loop->targets[i];
		int fd = traced->over ? -1 : attachment_descriptor(&traced->attachment);

		loop->polled[2 + i] = (struct pollfd){.fd = fd, .events = POLLIN};
		any = any || !traced->over;
	}
	return any;
}

/* `| less`, `2>&1 | less`: while a reader waits, so do we, and answers that have come long since are not read. */
static void excuse_writing(struct trace_loop *loop)
{
	uint64_t busy_ns = loop->run.output->written_ns + message_waited_ns() - loop->waited_ns;

	for (size_t i = 0; i < loop->run.process_count && busy_ns; i++)
		if (!loop->targets[i].over)
			attachment_excuse(&loop->targets[i].attachment, busy_ns);
	loop->waited_ns += busy_ns;
}

static bool turn(struct trace_loop *loop)
{
	uint64_t now_ns;

	if (!descriptors_collect(loop))
		return false;
	poll_until(loop->polled, 2 + loop->run.process_count, next_wake_ns(loop));
	if (loop->polled[0].revents)
		on_stop_signal(loop);
	if (loop->polled[1].revents & POLLERR)
		loop->run.output->reader_gone = true;
	now_ns = clock_now_ns();
	for (size_t i = 0; i < loop->run.process_count; i++)
		if (!loop->targets[i].over)
			trace_target_step(&loop->targets[i], loop->polled[2 + i].revents, now_ns);
	excuse_writing(loop);
	check_limits(loop, clock_now_ns());
	output_flush(loop->run.output);
	excuse_writing(loop);
	return true;
}

int trace_loop(const struct options *options, struct output *output, struct sink *sink, int signals_descriptor, pid_t launched,
               struct error *hook_question)
{
	struct trace_loop loop = {
		.run =
			{
				.options = options,
				.output = output,
				.sink = sink,
				.launched = launched,
				.process_count = launched ? 1 : options->pids.count,
				.command = options_command(options, COMMAND_TRACE),
				.hook_question = hook_question,
				.limit = {.limited = options->count > 0,
	                                  .whole_trees = options->trace.flags & TRACE_TREE,
	                                  .left = options->count},
			},
		.signals = signals_descriptor,
		.started_ns = clock_now_ns(),
		.waited_ns = output->written_ns + message_waited_ns(),
	};
	struct stat status;

	loop.output_is_pipe = fstat(output->fd, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
	loop.targets = memory_zeroed(loop.run.process_count * sizeof(*loop.targets));
	loop.polled = memory_zeroed((2 + loop.run.process_count) * sizeof(*loop.polled));
	for (size_t i = 0; i < loop.run.process_count; i++) {
		loop.targets[i].run = &loop.run;
		loop.targets[i].pid = launched ? launched : options->pids.items[i];
		trace_target_open(&loop.targets[i]);
	}
	while (turn(&loop))
		;
	free(loop.targets);
	free(loop.polled);
	return output->status ? STATUS_FAILED : loop.run.status;
}
