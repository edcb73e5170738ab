/* One question to the console's process at a time. See console.h. */

#define _GNU_SOURCE
#include "console.h"

#include "clock.h"
#include "exit_status.h"
#include "message.h"
#include "signals.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* How long a cancelled request may take to end before we say that it does not. */
#define PATIENCE_NS (2 * NS_PER_S)

static int on_data(void *owner, const msgpack_object *object, struct error *err)
{
	struct console *console = owner;

	(void)err;
	console->answered = true;
	if (console->on_data)
		console->on_data(console, object);
	return 0;
}

static int on_output(void *owner, enum output_stream stream, struct slice bytes, struct error *err)
{
	struct console *console = owner;

	(void)err;
	if (stream == OUTPUT_STDERR) {
		for (size_t written = 0; written < bytes.size;) {
			ssize_t size = write(STDERR_FILENO, bytes.bytes + written, bytes.size - written);

			if (size < 0 && errno != EINTR && errno != EAGAIN)
				break;
			written += size > 0 ? (size_t)size : 0;
		}
		return 0;
	}
	buffer_add_slice(&console->output.buffer, bytes);
	output_flush(&console->output);
	return 0;
}

static void on_done(void *owner, uint32_t code, struct slice text)
{
	const struct console *console = owner;

	/* An evaluation has said how it failed. */
	if (code && console->on_data && !console->answered && !console->ask.cancelled)
		message("%.*s", (int)text.size, text.bytes);
}

static const struct ask_handler handler = {.data = on_data, .output = on_output, .done = on_done};

void console_take_signals(struct console *console)
{
	bool sent_by_process;
	int number;

	while ((number = signals_take(&sent_by_process)) != 0) {
		signals_forgive();
		if (number == SIGINT)
			console->interrupted = true;
		else
			console->signal = number;
	}
}

static bool wait_until(struct console *console, struct pollfd *descriptors, size_t count, uint64_t until_ns)
{
	struct pollfd polled[4] = {{.fd = console->signals_descriptor, .events = POLLIN},
	                           {.fd = ask_descriptor(&console->ask), .events = POLLIN}};
	uint64_t now_ns = clock_now_ns(), wake_ns = ask_wake_ns(&console->ask);
	struct timespec wait = {0};
	int ready;

	if (console->interrupted || console->signal || console->ask.over)
		wake_ns = 0;
	else if (until_ns < wake_ns)
		wake_ns = until_ns;
	for (size_t i = 0; i < count; i++)
		polled[2 + i] = descriptors[i];
	if (wake_ns > now_ns) {
		wait.tv_sec = (time_t)((wake_ns - now_ns) / NS_PER_S);
		wait.tv_nsec = (long)((wake_ns - now_ns) % NS_PER_S);
	}
	ready = ppoll(polled, 2 + count, wake_ns == UINT64_MAX ? NULL : &wait, NULL);
	for (size_t i = 0; i < 2 + count && ready < 0; i++)
		polled[i].revents = 0;
	console_take_signals(console);
	ask_step(&console->ask, polled[1].revents != 0, clock_now_ns());
	ready = 0;
	for (size_t i = 0; i < count; i++) {
		descriptors[i].revents = polled[2 + i].revents;
		ready |= descriptors[i].revents;
	}
	return ready != 0 && !console->ask.over && !console->interrupted && !console->signal;
}

bool console_wait(struct console *console, struct pollfd *descriptors, size_t count)
{
	return wait_until(console, descriptors, count, UINT64_MAX);
}

/* A request that does not end although it is cancelled: it is in C code, or in an `ensure`. */
static void cancel(struct console *console, uint64_t *patience_ns)
{
	if (console->interactive) {
		/* The terminal has shown ^C. */
		buffer_add_char(&console->output.buffer, '\n');
		output_flush(&console->output);
	}
	ask_cancel(&console->ask);
	console->ask.deadline_ns = UINT64_MAX; /* the person decides how long that is waited for */
	*patience_ns = clock_now_ns() + PATIENCE_NS;
}

static enum answer finish(struct console *console, uint64_t limit_ns)
{
	struct ask *ask = &console->ask;
	uint64_t patience_ns = UINT64_MAX;
	bool told = false;

	while (!ask->over && ask->command_id) {
		wait_until(console, NULL, 0, limit_ns < patience_ns ? limit_ns : patience_ns);
		if (console->signal || (console->interrupted && told)) {
			ask_cancel(ask);
			console->leaving = true;
			return ANSWER_OVER;
		}
		if (console->interrupted && limit_ns != UINT64_MAX)
			return ANSWER_FAILED; /* a completion: it is the line that is meant */
		if (console->interrupted) {
			console->interrupted = false;
			console->leaving = !console->interactive; /* a script ends there */
			if (!ask->cancelled)
				cancel(console, &patience_ns);
		}
		if (clock_now_ns() >= limit_ns)
			return ANSWER_FAILED;
		if (!told && clock_now_ns() >= patience_ns) {
			message("it has not ended yet: it is in C code, or in an `ensure`; Ctrl-C leaves it there and ends the "
			        "console");
			told = true;
			patience_ns = UINT64_MAX;
		}
	}
	if (ask->over)
		return ANSWER_OVER;
	return ask->status == STATUS_DONE ? ANSWER_DONE : ANSWER_FAILED;
}

enum answer console_open(struct console *console, pid_t pid, const struct command *first,
                         void (*on_data_)(struct console *console, const msgpack_object *object))
{
	console->on_data = on_data_;
	ask_open(&console->ask, pid, first, &console->options, &handler, console);
	console->ask.keep = true;
	while (!console->ask.over && console->ask.command_id) {
		console_wait(console, NULL, 0);
		if (console->interrupted || console->signal) {
			console->leaving = true;
			return ANSWER_OVER;
		}
	}
	return console->ask.over ? ANSWER_OVER : ANSWER_DONE;
}

enum answer console_ask(struct console *console, const struct command *request, uint32_t limit_ms,
                        void (*on_data_)(struct console *console, const msgpack_object *object))
{
	/* A completion that was given up may still be under way. */
	console->on_data = NULL;
	while (!console->ask.over && console->ask.command_id && !console->interrupted && !console->signal)
		console_wait(console, NULL, 0);
	if (console->ask.over || console->signal)
		return ANSWER_OVER;
	if (console->interrupted)
		return ANSWER_FAILED;
	console->on_data = on_data_;
	console->answered = false;
	ask_again(&console->ask, request);
	return finish(console, limit_ms ? clock_now_ns() + limit_ms * NS_PER_MS : UINT64_MAX);
}

void console_close(struct console *console)
{
	struct ask *ask = &console->ask;

	/* Where something is still running in there, the closed socket tells the process to end it. */
	if (!ask->over && !ask->command_id && ask->session.state == SESSION_ARMED) {
		ask_detach(ask);
		while (!ask->over && !console->interrupted)
			console_wait(console, NULL, 0);
	}
	ask_close(ask);
}
