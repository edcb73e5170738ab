/* One question to the console's process at a time. See console.h. */

#define _GNU_SOURCE
#include "console.h"

#include "exit_status.h"
#include "message.h"
#include "proto/clock.h"
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
	terminal_text_end(&console->out_text, &console->output.buffer);
	if (console->on_data)
		console->on_data(console, object);
	return 0;
}

static int on_output(void *owner, enum output_stream stream, struct slice bytes, struct error *err)
{
	struct console *console = owner;

	(void)err;
	if (stream == OUTPUT_STDERR) {
		struct buffer text = {0};

		terminal_text_add(&console->err_text, &text, bytes);
		for (size_t written = 0; written < text.size;) {
			ssize_t size = write(STDERR_FILENO, text.bytes + written, text.size - written);

			if (size < 0 && errno != EINTR && errno != EAGAIN)
				break;
			written += size > 0 ? (size_t)size : 0;
		}
		buffer_free(&text);
		return 0;
	}
	terminal_text_add(&console->out_text, &console->output.buffer, bytes);
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

/* What is waited for, and what the person was told about it. */
struct patience {
	uint64_t limit_ns;    /* then it is given up; UINT64_MAX: never */
	uint64_t unheard_ns;  /* when it is said that the process does not even look at it */
	uint64_t unending_ns; /* when it is said that it goes on although it is cancelled; UINT64_MAX: it is not */
	bool may_leave;       /* that was said: one more Ctrl-C leaves it */
};

static uint64_t next_look(const struct console *console, const struct patience *patience)
{
	uint64_t next_ns = patience->limit_ns < patience->unending_ns ? patience->limit_ns : patience->unending_ns;

	return patience->unheard_ns < next_ns && !session_has_answered(&console->ask.session) ? patience->unheard_ns : next_ns;
}

static void tell(const struct console *console, struct patience *patience)
{
	const struct session *session = &console->ask.session;
	uint64_t now_ns = clock_now_ns();
	int pid = (int)session->target.pid;

	if (now_ns >= patience->unheard_ns && !session_has_answered(session)) {
		char state = target_state(&session->target);

		patience->unheard_ns = UINT64_MAX;
		if (state == 'T' || state == 't')
			message("process %d is stopped; waiting until it goes on: kill -CONT %d", pid, pid);
		else
			message("process %d has not come to a safe point yet: C code holds its GVL; waiting for it", pid);
	}
	if (now_ns >= patience->unending_ns) {
		patience->unending_ns = UINT64_MAX;
		patience->may_leave = true;
		message("it has not ended yet: it is in C code, or in an `ensure`; Ctrl-C leaves it there and ends the console");
	}
}

static void cancel(struct console *console, struct patience *patience)
{
	console->interrupted = false;
	console->leaving = !console->interactive; /* a script ends there */
	if (console->ask.cancelled)
		return;
	if (console->interactive) {
		/* The terminal has shown ^C. */
		buffer_add_char(&console->output.buffer, '\n');
		output_flush(&console->output);
	}
	ask_cancel(&console->ask);
	console->ask.deadline_ns = UINT64_MAX; /* the person decides how long that is waited for */
	patience->unending_ns = clock_now_ns() + PATIENCE_NS;
}

/* Until the request under way is over. cancels: Ctrl-C is meant for it; else it is given up, and Ctrl-C is left to the caller. */
static enum answer finish(struct console *console, uint64_t limit_ns, bool cancels)
{
	struct ask *ask = &console->ask;
	struct patience patience = {.limit_ns = limit_ns, .unheard_ns = UINT64_MAX, .unending_ns = UINT64_MAX};

	/* Of a completion nothing is said: the line that is being written is in the way. */
	if (limit_ns == UINT64_MAX)
		patience.unheard_ns = clock_now_ns() + console->options.timeout_ns;
	while (!ask->over && ask->command_id) {
		wait_until(console, NULL, 0, next_look(console, &patience));
		if (console->signal || (console->interrupted && patience.may_leave)) {
			ask_cancel(ask);
			console->leaving = true;
			console->failed = true;
			return ANSWER_OVER;
		}
		if (console->interrupted && !cancels)
			return ANSWER_FAILED;
		if (console->interrupted)
			cancel(console, &patience);
		if (clock_now_ns() >= limit_ns)
			return ANSWER_FAILED;
		tell(console, &patience);
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
	if (console->ask.over)
		return ANSWER_OVER;
	/* From now on a process that does not answer is waited for: a person sees it, and has Ctrl-C. */
	console->ask.session.timeout_ns = UINT64_MAX / 4;
	return ANSWER_DONE;
}

enum answer console_ask(struct console *console, const struct command *request, uint32_t limit_ms,
                        void (*on_data_)(struct console *console, const msgpack_object *object))
{
	enum answer before;

	/* A completion that was given up may still be under way. */
	console->on_data = NULL;
	before = finish(console, limit_ms ? clock_now_ns() + limit_ms * NS_PER_MS : UINT64_MAX, false);
	if (before == ANSWER_OVER || console->interrupted || console->ask.command_id)
		return before;
	console->on_data = on_data_;
	console->answered = false;
	ask_again(&console->ask, request);
	return finish(console, limit_ms ? clock_now_ns() + limit_ms * NS_PER_MS : UINT64_MAX, limit_ms == 0);
}

void console_close(struct console *console)
{
	struct ask *ask = &console->ask;

	/* Where something is still running in there, the closed socket tells the process to end it. */
	if (!ask->over && !ask->command_id && ask->session.state == SESSION_ARMED) {
		ask->session.timeout_ns = console->options.timeout_ns;
		ask_detach(ask);
		while (!ask->over && !console->interrupted)
			console_wait(console, NULL, 0);
	}
	ask_close(ask);
}
