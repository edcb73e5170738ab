/* The loop over the processes of a run, and what ends it. See trace_loop.h. */

#include "tracer/commands/trace_loop.h"

#include "proto/clock.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/base/output_name.h"
#include "tracer/base/poll_until.h"
#include "tracer/base/proc_status.h"
#include "tracer/base/signals.h"
#include "tracer/cli/choose_processes.h"
#include "tracer/commands/trace_family.h"
#include "tracer/commands/trace_loop_parts.h"
#include "tracer/commands/trace_workers.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define QUIET_NS (20 * NS_PER_MS)        /* after this, what is held back is shown */
#define EXPECTING_WARN_NS (5 * NS_PER_S) /* a launched process should have loaded the extension by then */

static void stop(struct trace_loop *loop, const char *reason)
{
	if (loop->run.stop_reason)
		return;
	loop->run.stop_reason = reason;
	for (size_t i = 0; i < loop->count; i++)
		trace_target_stop(loop->targets[i]);
}

static void on_stop_signal(struct trace_loop *loop)
{
	bool sent_by_process;
	int number = signals_take(&sent_by_process);

	if (!number)
		return;
	if (number == SIGUSR1) {
		loop_sinks_asked(loop);
		return;
	}
	if (!loop->run.launched) {
		stop(loop, signals_word(number));
		return;
	}
	/* The terminal has sent it to the launched process already. Its own end will end the trace. */
	if (sent_by_process)
		kill(loop->run.launched, number);
}

static uint64_t earlier(uint64_t one_ns, uint64_t other_ns)
{
	return one_ns < other_ns ? one_ns : other_ns;
}

static bool expecting_is_suspicious(const struct trace_loop *loop)
{
	return loop->run.expecting_ns && !loop->run.stop_reason;
}

/* From when on --duration counts; 0: not yet. */
static uint64_t begun_ns(const struct trace_loop *loop)
{
	return loop->run.armed_ns ? loop->run.armed_ns : loop->waiting_ns;
}

static uint64_t next_wake_ns(const struct trace_loop *loop)
{
	const struct run *run = &loop->run;
	uint64_t wake_ns = UINT64_MAX;

	for (size_t i = 0; i < loop->count; i++)
		if (!loop->targets[i]->over)
			wake_ns = earlier(wake_ns, loop->targets[i]->attachment.wake_ns);
	for (size_t i = 0; i < loop->count && !run->stop_reason; i++)
		wake_ns = earlier(wake_ns, trace_workers_wake_ns(loop->targets[i]));
	if (begun_ns(loop) && run->options->duration_ns && !run->stop_reason)
		wake_ns = earlier(wake_ns, begun_ns(loop) + run->options->duration_ns);
	if (loop->ask_ns && !run->stop_reason)
		wake_ns = earlier(wake_ns, loop->ask_ns);
	if (loop->count_deadline_ns && !run->stop_reason)
		wake_ns = earlier(wake_ns, loop->count_deadline_ns);
	if (expecting_is_suspicious(loop))
		wake_ns = earlier(wake_ns, run->expecting_ns + EXPECTING_WARN_NS);
	if (!run->stop_reason)
		wake_ns = earlier(wake_ns, earlier(family_wake_ns(loop->family), forks_wake_ns(&loop->forks)));
	if (loop_sinks_hold(loop))
		wake_ns = earlier(wake_ns, run->last_event_ns + QUIET_NS);
	return earlier(wake_ns, loop_sinks_wake_ns(loop));
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

/* Those that have not answered in time: who is stopped holds up nobody. Said once, until they do. */
static void say_silent(struct trace_loop *loop)
{
	for (size_t i = 0; i < loop->count; i++) {
		struct trace_target *traced = loop->targets[i];

		if (traced->over || !traced->asked || traced->silent)
			continue;
		traced->silent = true;
		if (!loop->run.options->quiet)
			message_often("process %d does not answer; until it does, its figures are left out", (int)traced->pid);
	}
}

/* --interval: asks when it is time, and shows what has come when all have answered, or it is time again. */
static void ask_in_turn(struct trace_loop *loop, uint64_t now_ns)
{
	const struct run *run = &loop->run;
	uint64_t interval_ns = run->options->interval_ns;
	bool waiting = false, answered = false;

	if (!interval_ns || !run->armed_ns || run->stop_reason)
		return;
	if (!loop->ask_ns)
		loop->ask_ns = run->armed_ns + interval_ns;
	for (size_t i = 0; i < loop->count; i++) {
		struct trace_target *traced = loop->targets[i];

		waiting = waiting || (traced->asked && !traced->over);
		answered = answered || !traced->asked;
		traced->silent = traced->silent && traced->asked;
	}
	if (loop->asked && (!waiting || (answered && now_ns >= loop->ask_ns))) {
		say_silent(loop);
		loop->asked = false;
		loop_sinks_round(loop);
	}
	if (now_ns < loop->ask_ns)
		return;
	/* Missed times are left out, not made up for. */
	loop->ask_ns += (1 + (now_ns - loop->ask_ns) / interval_ns) * interval_ns;
	for (size_t i = 0; i < loop->count; i++)
		trace_target_ask(loop->targets[i]);
	loop->asked = true;
}

/* Everything that ends a run but signals, and what is due by the clock. */
static void check_limits(struct trace_loop *loop, uint64_t now_ns)
{
	const struct run *run = &loop->run;

	if (!loop_outputs_flush(loop))
		stop(loop, "the output could not be written");
	if (run->output->reader_gone)
		stop(loop, "the reader closed the pipe");
	if (run->options->size_max && loop_outputs_size(loop) >= run->options->size_max)
		stop(loop, "--max-size reached");
	check_count(loop, now_ns);
	if (loop_sinks_have_enough(loop))
		stop(loop, "--until was met");
	for (size_t i = 0; i < loop->count && !run->stop_reason; i++)
		trace_workers_step(loop->targets[i], now_ns);
	ask_in_turn(loop, now_ns);
	if (begun_ns(loop) && run->options->duration_ns && now_ns - begun_ns(loop) >= run->options->duration_ns)
		stop(loop, "--duration reached");
	if (expecting_is_suspicious(loop) && now_ns >= run->expecting_ns + EXPECTING_WARN_NS) {
		loop->run.expecting_ns = 0;
		run_warn(run, run->armed_ns ? "the program that the process has become by exec has not loaded the rbprobe "
		                              "extension so far (is it Ruby, and does it keep RUBYOPT?); still waiting"
		                            : "the command has not loaded the rbprobe extension so far (is it Ruby, and does it "
		                              "keep RUBYOPT?); "
		                              "still waiting");
	}
	if (now_ns - run->last_event_ns >= QUIET_NS && loop_sinks_hold(loop))
		loop_sinks_quiet(loop);
	loop_sinks_wake(loop, now_ns);
}

/* Fills the descriptors to wait for. */
static void descriptors_collect(struct trace_loop *loop)
{
	const struct output *output = loop->run.output;

	loop->polled = memory_resize(loop->polled, (2 + loop->count + loop->forks.count) * sizeof(*loop->polled));
	loop->polled[0] = (struct pollfd){.fd = loop->signals, .events = POLLIN};
	/* The closed end of a pipe is an error condition, which is always reported. */
	loop->polled[1] = (struct pollfd){.fd = loop->output_is_pipe && !output->reader_gone ? output->fd : -1};
	for (size_t i = 0; i < loop->count; i++) {
		const struct trace_target *traced = loop->targets[i];
		int fd = traced->over ? -1 : attachment_descriptor(&traced->attachment);

		loop->polled[2 + i] = (struct pollfd){.fd = fd, .events = POLLIN};
	}
	for (size_t i = 0; i < loop->forks.count; i++)
		loop->polled[2 + loop->count + i] =
			(struct pollfd){.fd = loop->forks.places[i]->meeting.rendezvous.listener, .events = POLLIN};
}

/* `| less`, `2>&1 | less`: while a reader waits, so do we, and answers that have come long since are not read. */
static void excuse_writing(struct trace_loop *loop)
{
	uint64_t busy_ns = loop_outputs_written_ns(loop) + message_waited_ns() - loop->waited_ns;

	for (size_t i = 0; i < loop->count && busy_ns; i++)
		if (!loop->targets[i]->over)
			attachment_excuse(&loop->targets[i]->attachment, busy_ns);
	loop->waited_ns += busy_ns;
}

static struct trace_target *add_process(struct trace_loop *loop, pid_t pid)
{
	struct trace_target *traced = trace_target_new(&loop->run, pid);

	loop->targets = memory_resize(loop->targets, (loop->count + 1) * sizeof(*loop->targets));
	loop->targets[loop->count++] = traced;
	return traced;
}

static bool has_room(struct trace_loop *loop, pid_t pid)
{
	if (loop->count < FAMILY_MAX)
		return true;
	if (!loop->told_of_many)
		message("%u processes are traced, which is the most at a time; process %d and later ones are not", FAMILY_MAX,
		        (int)pid);
	loop->told_of_many = true;
	return false;
}

/* 0: it is traced no more. */
static pid_t parent_of(const struct trace_loop *loop, pid_t pid)
{
	pid_t parent = (pid_t)proc_status_number(pid, "PPid", 10, 0);

	for (size_t i = 0; i < loop->count; i++)
		if (loop->targets[i]->pid == parent)
			return parent;
	return 0;
}

/* A forked process that is not taken lets go by itself. */
static void on_fork(void *owner, struct fork_place *place, pid_t pid, int descriptor)
{
	struct trace_loop *loop = owner;

	family_knows(loop->family, pid);
	if (!loop->run.stop_reason && has_room(loop, pid))
		trace_target_adopt(add_process(loop, pid), parent_of(loop, pid), place, descriptor);
	else
		close(descriptor);
}

static void on_join(void *owner, pid_t pid)
{
	struct trace_loop *loop = owner;
	struct trace_target *traced;

	if (!has_room(loop, pid))
		return;
	traced = add_process(loop, pid);
	traced->joined = begun_ns(loop) != 0;
	trace_target_open(traced);
}

/* Processes that are over are not looked at again. */
static void drop_ended(struct trace_loop *loop)
{
	size_t kept = 0;

	for (size_t i = 0; i < loop->count; i++) {
		struct trace_target *traced = loop->targets[i];

		if (!traced->over) {
			loop->targets[kept++] = traced;
			continue;
		}
		loop->past_ns += traced->file.output.written_ns;
		loop->past_size += output_size(&traced->file.output);
		forks_leave(traced, clock_now_ns());
		trace_target_free(traced);
	}
	loop->count = kept;
}

/* Whether there is something to wait for; says so where workers have come to their end. */
static bool goes_on(const struct trace_loop *loop)
{
	if (loop->count || loop->run.stop_reason)
		return loop->count > 0;
	if (loop->forks.count)
		return true;
	if (!loop->family)
		return false;
	if (begun_ns(loop) && family_is_alive(loop->family))
		return true;
	if (loop->run.armed_ns)
		run_warn(&loop->run, "the process and all its workers have ended");
	return false;
}

static bool turn(struct trace_loop *loop)
{
	uint64_t now_ns;

	drop_ended(loop);
	if (!goes_on(loop))
		return false;
	descriptors_collect(loop);
	poll_until(loop->polled, 2 + loop->count + loop->forks.count, next_wake_ns(loop));
	if (loop->polled[0].revents)
		on_stop_signal(loop);
	if (loop->polled[1].revents & POLLERR)
		loop->run.output->reader_gone = true;
	now_ns = clock_now_ns();
	for (size_t i = 0; i < loop->count; i++)
		if (!loop->targets[i]->over)
			trace_target_step(loop->targets[i], loop->polled[2 + i].revents, now_ns);
	for (size_t i = 0; i < loop->count; i++)
		forks_take(&loop->forks, loop->targets[i]);
	forks_step(&loop->forks, now_ns, on_fork, loop);
	excuse_writing(loop);
	check_limits(loop, clock_now_ns());
	loop_outputs_flush(loop);
	if (!loop->run.stop_reason)
		family_step(loop->family, clock_now_ns(), on_join, loop);
	excuse_writing(loop);
	return true;
}

/* There is none so far. */
static void wait_for_workers(struct trace_loop *loop)
{
	const struct options *options = loop->run.options;
	bool waits = family_is_alive(loop->family);

	if (waits)
		loop->waiting_ns = clock_now_ns();
	loop->run.worker_status = STATUS_NOT_ATTACHED;
	for (size_t i = 0; i < options->pids.count; i++)
		if (!waits)
			choose_say_childless(options->pids.items[i]);
		else if (!options->quiet)
			message_often("process %d has no child processes that are Ruby yet: waiting for the first",
			              (int)options->pids.items[i]);
}

/* Workers were waited for, and none has been traced. */
static void say_nobody_came(const struct run *run)
{
	if (!run->options->quiet)
		message("no child process that is Ruby was traced; ended: %s",
		        run->stop_reason ? run->stop_reason : "the process has ended");
}

/* The processes that there are at the start. */
static void begin(struct trace_loop *loop)
{
	const struct options *options = loop->run.options;
	size_t count = loop->run.launched ? 1 : options->pids.count;

	loop->family = loop->run.launched ? NULL : family_open(options);
	if (loop->family) {
		family_step(loop->family, clock_now_ns(), on_join, loop);
		if (!loop->count)
			wait_for_workers(loop);
		return;
	}
	for (size_t i = 0; i < count; i++)
		trace_target_open(add_process(loop, loop->run.launched ? loop->run.launched : options->pids.items[i]));
}

static void say_unheard(const struct run *run)
{
	if (!run->unheard || run->options->quiet)
		return;
	output_flush(run->output);
	message("%llu forked process%s went without a word (exec, as by system, or exit!): what %s did is not shown, and not "
	        "counted",
	        (unsigned long long)run->unheard, run->unheard == 1 ? "" : "es", run->unheard == 1 ? "it" : "they");
}

int trace_loop(const struct options *options, struct output *output, const struct sink_maker *maker, int signals_descriptor,
               pid_t launched, struct error *hook_question)
{
	bool files = options->output_path && output_name_has_pid(options->output_path);
	struct trace_loop loop = {
		.run =
			{
				.options = options,
				.output = output,
				.maker = maker,
				.launched = launched,
				.several =
					options->pids.count > 1 || options->children || options->trace.flags & TRACE_FOLLOW_FORKS,
				.workers = !launched && options->children,
				.command = options_command(options, COMMAND_TRACE),
				.hook_question = hook_question,
				.limit = {.limited = options->count > 0,
	                                  .whole_trees = options->trace.flags & TRACE_TREE,
	                                  .left = options->count},
			},
		.signals = signals_descriptor,
		.waited_ns = output->written_ns + message_waited_ns(),
	};
	struct stat status;

	loop.output_is_pipe = fstat(output->fd, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
	loop.run.sink = files ? NULL : sink_make(maker, options, output);
	begin(&loop);
	while (turn(&loop))
		;
	say_unheard(&loop.run);
	if (loop.waiting_ns && !loop.run.armed_ns)
		say_nobody_came(&loop.run);
	sink_end(maker, loop.run.sink);
	family_free(loop.family);
	forks_free(&loop.forks);
	free(loop.targets);
	free(loop.polled);
	if (!loop.run.armed_ns && !loop.run.status)
		loop.run.status = loop.run.worker_status;
	return output->status ? STATUS_FAILED : loop.run.status;
}
