/* One question to the console's process at a time. See console.h. */

#include "tracer/console/console.h"

#include "proto/clock.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/base/poll_until.h"
#include "tracer/base/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* How long a cancelled request may take to end before we say that it does not. */
#define PATIENCE_NS (2 * NS_PER_S)

static int on_data(struct request *request, const msgpack_object *object, struct error *err)
{
	struct console *console = request->owner;

	(void)err;
	console->answered = true;
	terminal_text_end(&console->out_text, &console->invocation.output.buffer);
	if (console->on_data)
		console->on_data(console, object);
	return 0;
}

static int on_output(struct request *request, enum output_stream stream, struct slice bytes, struct error *err)
{
	struct console *console = request->owner;

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
	terminal_text_add(&console->out_text, &console->invocation.output.buffer, bytes);
	output_flush(&console->invocation.output);
	return 0;
}

static void on_done(struct request *request, uint32_t code, struct slice text)
{
	const struct console *console = request->owner;

	/* An evaluation has said how it failed. */
	if (code && console->on_data && !console->answered && !console->request.cancelled)
		message("%.*s", (int)text.size, text.bytes);
}

static const struct request_handler handler = {.data = on_data, .output = on_output, .done = on_done};

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
	struct pollfd polled[4] = {{.fd = console->invocation.signals, .events = POLLIN},
	                           {.fd = request_descriptor(&console->request), .events = POLLIN}};
	uint64_t wake_ns = request_wake_ns(&console->request);
	int ready = 0;

	if (console->interrupted || console->signal || console->request.over)
		wake_ns = 0;
	else if (until_ns < wake_ns)
		wake_ns = until_ns;
	for (size_t i = 0; i < count; i++)
		polled[2 + i] = descriptors[i];
	poll_until(polled, 2 + count, wake_ns);
	console_take_signals(console);
	request_step(&console->request, polled[1].revents != 0, clock_now_ns());
	for (size_t i = 0; i < count; i++) {
		descriptors[i].revents = polled[2 + i].revents;
		ready |= descriptors[i].revents;
	}
	return ready != 0 && !console->request.over && !console->interrupted && !console->signal;
}

bool console_wait(struct console *console, struct pollfd *descriptors, size_t count)
{
	return wait_until(console, descriptors, count, UINT64_MAX);
}

/* What is waited for, and what the user has been informed of. */
struct patience {
	uint64_t limit_ns;    /* then it is given up; UINT64_MAX: never */
	uint64_t unheard_ns;  /* when it is said that the process does not even look at it */
	uint64_t unending_ns; /* when it is said that it goes on although it is cancelled; UINT64_MAX: it is not */
	bool may_leave;       /* that was said: one more Ctrl-C leaves it */
};

static uint64_t next_look(const struct console *console, const struct patience *patience)
{
	uint64_t next_ns = patience->limit_ns < patience->unending_ns ? patience->limit_ns : patience->unending_ns;

	return patience->unheard_ns < next_ns && !attachment_has_answered(&console->request.attachment) ? patience->unheard_ns
	                                                                                                : next_ns;
}

static void inform(const struct console *console, struct patience *patience)
{
	const struct attachment *attachment = &console->request.attachment;
	uint64_t now_ns = clock_now_ns();
	int pid = (int)attachment->target.pid;

	if (now_ns >= patience->unheard_ns && !attachment_has_answered(attachment)) {
		char state = target_state(&attachment->target);

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
	if (console->request.cancelled)
		return;
	if (console->interactive) {
		/* The terminal has shown ^C. */
		buffer_add_char(&console->invocation.output.buffer, '\n');
		output_flush(&console->invocation.output);
	}
	request_cancel(&console->request);
	console->request.deadline_ns = UINT64_MAX; /* the person decides how long that is waited for */
	patience->unending_ns = clock_now_ns() + PATIENCE_NS;
}

/* Until the request under way is over. cancels: Ctrl-C is meant for it; else it is given up, and Ctrl-C is left to the caller. */
static enum answer finish(struct console *console, uint64_t limit_ns, bool cancels)
{
	struct request *request = &console->request;
	struct patience patience = {.limit_ns = limit_ns, .unheard_ns = UINT64_MAX, .unending_ns = UINT64_MAX};

	/* Of a completion nothing is said: the line that is being written is in the way. */
	if (limit_ns == UINT64_MAX)
		patience.unheard_ns = clock_now_ns() + console->invocation.options.timeout_ns;
	while (!request->over && request->command_id) {
		wait_until(console, NULL, 0, next_look(console, &patience));
		if (console->signal || (console->interrupted && patience.may_leave)) {
			request_cancel(request);
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
		inform(console, &patience);
	}
	if (request->over)
		return ANSWER_OVER;
	return request->status == STATUS_DONE ? ANSWER_DONE : ANSWER_FAILED;
}

enum answer console_open(struct console *console, pid_t pid, const struct command *first,
                         void (*on_data_)(struct console *console, const msgpack_object *object))
{
	console->on_data = on_data_;
	request_open(&console->request, pid, first, &console->invocation.options, &handler, console);
	console->request.keep = true;
	while (!console->request.over && console->request.command_id) {
		console_wait(console, NULL, 0);
		if (console->interrupted || console->signal) {
			console->leaving = true;
			return ANSWER_OVER;
		}
	}
	if (console->request.over)
		return ANSWER_OVER;
	/* From now on a process that does not answer is waited for: a person sees it, and has Ctrl-C. */
	console->request.attachment.timeout_ns = UINT64_MAX / 4;
	return ANSWER_DONE;
}

enum answer console_request(struct console *console, const struct command *command, uint32_t limit_ms,
                            void (*on_data_)(struct console *console, const msgpack_object *object))
{
	enum answer before;

	/* A completion that was given up may still be under way. */
	console->on_data = NULL;
	before = finish(console, limit_ms ? clock_now_ns() + limit_ms * NS_PER_MS : UINT64_MAX, false);
	if (before == ANSWER_OVER || console->interrupted || console->request.command_id)
		return before;
	console->on_data = on_data_;
	console->answered = false;
	request_again(&console->request, command);
	return finish(console, limit_ms ? clock_now_ns() + limit_ms * NS_PER_MS : UINT64_MAX, limit_ms == 0);
}

void console_close(struct console *console)
{
	struct request *request = &console->request;

	/* Where something is still running in there, the process ends it when it sees the closed socket. */
	if (!request->over && !request->command_id && request->attachment.state == ATTACHMENT_ARMED) {
		request->attachment.timeout_ns = console->invocation.options.timeout_ns;
		request_detach(request);
		while (!request->over && !console->interrupted)
			console_wait(console, NULL, 0);
	}
	request_close(request);
}
