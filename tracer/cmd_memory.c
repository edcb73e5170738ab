/* rbprobe memory: where a process's memory is, in one screen, once or again and again. */

#define _GNU_SOURCE
#include "ask.h"
#include "exit_status.h"
#include "memory_report.h"
#include "message.h"
#include "options.h"
#include "output.h"
#include "proto/clock.h"
#include "signals.h"
#include "subcommand.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define TOP_DEFAULT 15
#define TOP_MAX 100 /* the target sends no more */
#define PAUSE_DEFAULT_MS 500
#define PAUSE_MAX_MS 60000

struct memory {
	struct options options;
	uint64_t every_ns; /* 0: once */
	uint64_t count;    /* of samples; 0: no limit */
	uint64_t top;
	uint64_t pause_ms;
	bool no_objects;
	bool json;

	struct output output;
	bool screen; /* on a terminal, each sample takes the place of the one before */
	struct ask ask;
	struct command request;
	struct memory_sample last;
	uint64_t shown;
	uint64_t next_ns; /* when the next sample is due */
};

enum long_option {
	OPTION_EVERY = 0x200,
	OPTION_COUNT,
	OPTION_TOP,
	OPTION_PAUSE,
	OPTION_NO_OBJECTS,
	OPTION_FORMAT,
};

static error_t parse_memory(int key, char *argument, struct argp_state *state)
{
	struct memory *memory = (struct memory *)state->input;

	switch (key) {
	case OPTION_EVERY:
		return options_seconds("--every", argument, &memory->every_ns);
	case OPTION_COUNT:
		return options_whole_number("--count", argument, 1, UINT64_MAX / 2, &memory->count);
	case OPTION_TOP:
		return options_whole_number("--top", argument, 1, TOP_MAX, &memory->top);
	case OPTION_PAUSE:
		return options_whole_number("--pause", argument, 1, PAUSE_MAX_MS, &memory->pause_ms);
	case OPTION_NO_OBJECTS:
		memory->no_objects = true;
		return 0;
	case OPTION_FORMAT:
		memory->json = strcmp(argument, "json") == 0;
		if (memory->json || strcmp(argument, "text") == 0)
			return 0;
		message("--format takes text or json, not \"%s\"", argument);
		return EINVAL;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_option memory_list[] = {
	{"every", OPTION_EVERY, "SEC", 0, "Again and again, with what has changed since the last time", 2},
	{"count", OPTION_COUNT, "N", 0, "With --every: stop after N times", 2},
	{"top", OPTION_TOP, "N", 0, "How many types and classes are shown (default 15, at most 100)", 3},
	{"no-objects", OPTION_NO_OBJECTS, NULL, 0, "Do not count objects: that pauses the process", 3},
	{"pause", OPTION_PAUSE, "MS", 0, "How long counting may pause the process (default 500); then it is broken off", 3},
	{"format", OPTION_FORMAT, "text|json", 0, "A screen for people, or one JSON object a line", 4},
	{0},
};

static const struct argp options_memory = {.options = memory_list, .parser = parse_memory};

static const struct argp_child children[] = {
	{&options_target, 0, NULL, 0},
	{&options_memory, 0, NULL, 0},
	{&options_session, 0, NULL, 0},
	{0},
};

static const struct argp argp = {
	.args_doc = "-p PID",
	.doc = "Show where the memory of a running Ruby process is.",
	.children = children,
};

static int on_data(void *owner, const msgpack_object *object, struct error *err)
{
	struct memory *memory = owner;
	struct memory_sample sample;

	(void)err;
	memory_sample_take(&sample, &memory->ask.session.target, object);
	if (memory->screen)
		buffer_add_text(&memory->output.buffer, "\033[H\033[2J");
	else if (memory->shown && !memory->json)
		buffer_add_char(&memory->output.buffer, '\n');
	if (memory->json)
		memory_report_json(&memory->output.buffer, &memory->ask.session.target, &sample);
	else
		memory_report_text(&memory->output.buffer, &memory->ask.session.target, &sample,
		                   memory->shown ? &memory->last : NULL, memory->top);
	output_flush(&memory->output);
	memory_sample_free(&memory->last);
	memory->last = sample;
	memory->shown++;
	return 0;
}

static void on_done(void *owner, uint32_t code, struct slice text)
{
	struct memory *memory = owner;

	if (code)
		message("process %d: %.*s", (int)memory->ask.session.target.pid, (int)text.size, text.bytes);
	if (code || output_is_over(&memory->output) || (memory->count && memory->shown >= memory->count))
		memory->ask.keep = false; /* the ask ends itself */
}

static const struct ask_handler handler = {.data = on_data, .done = on_done};

static bool is_resting(const struct memory *memory)
{
	return memory->ask.keep && !memory->ask.command_id && !memory->ask.over;
}

static void on_signal(struct memory *memory)
{
	bool sent_by_process;

	if (!signals_take(&sent_by_process))
		return;
	if (is_resting(memory))
		ask_detach(&memory->ask);
	else
		ask_cancel(&memory->ask);
}

/* Waits for the target, a signal, or the time of the next sample. */
static void turn(struct memory *memory, int signals_descriptor)
{
	uint64_t now_ns = clock_now_ns(), wake_ns = ask_wake_ns(&memory->ask);
	struct pollfd polled[] = {
		{.fd = signals_descriptor, .events = POLLIN},
		{.fd = ask_descriptor(&memory->ask), .events = POLLIN},
	};
	struct timespec wait = {0};

	if (is_resting(memory) && memory->next_ns < wake_ns)
		wake_ns = memory->next_ns;
	if (wake_ns > now_ns)
		wait = (struct timespec){(time_t)((wake_ns - now_ns) / NS_PER_S), (long)((wake_ns - now_ns) % NS_PER_S)};
	if (ppoll(polled, 2, wake_ns == UINT64_MAX ? NULL : &wait, NULL) < 0)
		polled[0].revents = polled[1].revents = 0;
	if (polled[0].revents)
		on_signal(memory);
	now_ns = clock_now_ns();
	ask_step(&memory->ask, polled[1].revents != 0, now_ns);
	if (is_resting(memory) && now_ns >= memory->next_ns) {
		/* Missed times are left out, not made up for. */
		memory->next_ns += (1 + (now_ns - memory->next_ns) / memory->every_ns) * memory->every_ns;
		ask_again(&memory->ask, &memory->request);
	}
}

static int watch(struct memory *memory)
{
	int signals_descriptor = signals_install();
	int status;

	output_open(&memory->output, NULL, false, NULL);
	memory->screen = memory->every_ns && !memory->json && isatty(STDOUT_FILENO);
	memory->request = (struct command){.kind = COMMAND_MEMORY,
	                                   .request = {.flags = memory->no_objects ? 0 : MEMORY_OBJECTS,
	                                               .limit = memory->pause_ms,
	                                               .name = {"", 0},
	                                               .text = {"", 0}}};
	ask_open(&memory->ask, memory->options.pids.items[0], &memory->request, &memory->options, &handler, memory);
	memory->ask.keep = memory->every_ns != 0;
	memory->next_ns = clock_now_ns() + memory->every_ns;
	while (!memory->ask.over)
		turn(memory, signals_descriptor);
	status = memory->ask.status;
	if (memory->ask.error.text[0])
		message("%s", memory->ask.error.text);
	ask_close(&memory->ask);
	if (output_close(&memory->output) < 0) {
		message("%s", memory->output.error.text);
		status = STATUS_FAILED;
	}
	memory_sample_free(&memory->last);
	return status;
}

static int memory_run(int argc, char **argv)
{
	struct memory memory = {.top = TOP_DEFAULT, .pause_ms = PAUSE_DEFAULT_MS};
	int status;

	options_init(&memory.options);
	status = options_parse(&argp, argc, argv, &memory.options);
	if (status == 0 && memory.options.pids.count != 1) {
		message("memory needs the PID of one process: -p PID; `rbprobe ps` lists them");
		status = STATUS_USAGE;
	}
	if (status == 0 && memory.count && !memory.every_ns) {
		message("--count goes with --every SEC");
		status = STATUS_USAGE;
	}
	if (status == 0)
		status = watch(&memory);
	options_free(&memory.options);
	return status;
}

const struct subcommand cmd_memory = {
	.name = "memory",
	.arguments = "-p PID",
	.summary = "where the process's memory is",
	.run = memory_run,
};
