/* Requests, asked and answered. See ask.h. */

#define _GNU_SOURCE
#include "ask.h"

#include "exit_status.h"
#include "message.h"
#include "proto/clock.h"
#include "signals.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#define EXIT_LOOKS 100          /* of 2 ms */
#define GRACE_NS (2 * NS_PER_S) /* for a target to end what was cancelled */

static int pid_of(const struct ask *ask)
{
	return (int)ask->session.target.pid;
}

static int on_hello(void *owner, const struct record_hello *hello, struct error *err)
{
	return session_hello(&((struct ask *)owner)->session, hello, err);
}

static void set_deadline(struct ask *ask, uint32_t timeout_ms)
{
	ask->deadline_ns = timeout_ms ? clock_now_ns() + (uint64_t)timeout_ms * NS_PER_MS + GRACE_NS : UINT64_MAX;
}

static int on_reply(void *owner, const struct record_reply *reply, struct error *err)
{
	struct ask *ask = owner;
	bool first = ask->session.state == SESSION_ASKED;
	int status = session_reply(&ask->session, reply, err);

	if (status < 0)
		return status;
	if (reply->command_id != ask->command_id)
		return 0;
	if (reply->code != 0)
		return error_set(err, -ECANCELED, "process %d: %.*s", pid_of(ask), (int)reply->text.size, reply->text.bytes);
	if (first)
		set_deadline(ask, ask->session.request.request.timeout_ms);
	return 0;
}

static int on_note(void *owner, const struct record_note *note, struct error *err)
{
	const struct ask *ask = owner;

	(void)err;
	if (!ask->options->quiet && (note->level == NOTE_WARNING || ask->options->verbose))
		message("process %d: %.*s", pid_of(ask), (int)note->text.size, note->text.bytes);
	return 0;
}

static int on_data(void *owner, const struct record_data *data, struct error *err)
{
	struct ask *ask = owner;

	if (data->command_id != ask->command_id || !ask->handler->data)
		return 0;
	return ask->handler->data(ask->owner, data->object, err);
}

static int on_output(void *owner, const struct record_output *output, struct error *err)
{
	struct ask *ask = owner;

	if (output->command_id != ask->command_id || !ask->handler->output)
		return 0;
	return ask->handler->output(ask->owner, output->stream, output->bytes, err);
}

static int on_done(void *owner, const struct record_done *done, struct error *err)
{
	struct ask *ask = owner;

	(void)err;
	if (done->command_id != ask->command_id)
		return 0;
	ask->command_id = 0;
	ask->deadline_ns = UINT64_MAX;
	if (done->code != 0)
		ask->status = STATUS_FAILED;
	if (ask->handler->done)
		ask->handler->done(ask->owner, done->code, done->text);
	if (!ask->keep)
		ask_detach(ask);
	return 0;
}

static int on_end(void *owner, const struct record_end *end, struct error *err)
{
	struct ask *ask = owner;

	ask->session.ended = true;
	if (end->reason == END_REFUSED)
		return error_set(err, -EPERM, "process %d refused: %.*s", pid_of(ask), (int)end->text.size, end->text.bytes);
	if (ask->command_id)
		return error_set(err, -ESRCH, "process %d ended before it had answered", pid_of(ask));
	if (end->reason == END_EXIT && ask->keep)
		return error_set(err, -ESRCH, "process %d has ended", pid_of(ask));
	ask->over = true;
	return 0;
}

static const struct stream_handler stream_handler = {.hello = on_hello,
                                                     .reply = on_reply,
                                                     .note = on_note,
                                                     .end = on_end,
                                                     .output = on_output,
                                                     .data = on_data,
                                                     .done = on_done};

/* It is over for another reason than its answer's end. */
static void fail(struct ask *ask, int status)
{
	ask->over = true;
	ask->status = status;
}

static bool is_connected(const struct ask *ask)
{
	return ask->session.state >= SESSION_ASKED;
}

void ask_open(struct ask *ask, pid_t pid, const struct command *request, const struct options *options,
              const struct ask_handler *handler, void *owner)
{
	struct session_manner manner = options_manner(options);

	manner.descriptors = handler->descriptors;
	memset(ask, 0, sizeof(*ask));
	ask->options = options;
	ask->handler = handler;
	ask->owner = owner;
	ask->status = STATUS_DONE;
	ask->deadline_ns = UINT64_MAX;
	if (session_open(&ask->session, pid, request, &manner, &ask->error) < 0) {
		fail(ask, STATUS_NOT_ATTACHED);
		return;
	}
	ask->error.text[0] = '\0';
	ask->command_id = ask->session.request_id;
	ask->stream = stream_new(pid, NULL, NULL, &stream_handler, ask);
	ask->stream->takes_descriptors = handler->descriptors;
}

int ask_descriptor(const struct ask *ask)
{
	return ask->over ? -1 : session_descriptor(&ask->session);
}

uint64_t ask_wake_ns(const struct ask *ask)
{
	if (ask->over)
		return UINT64_MAX;
	return ask->session.wake_ns < ask->deadline_ns ? ask->session.wake_ns : ask->deadline_ns;
}

/* A process that exits closes its socket a moment before it counts as ended. */
static bool still_runs(const struct ask *ask)
{
	struct timespec pause = {.tv_nsec = (long)(2 * NS_PER_MS)};

	for (unsigned i = 0; i < EXIT_LOOKS && session_has_execed(&ask->session); i++)
		nanosleep(&pause, NULL);
	return session_has_execed(&ask->session);
}

static void read_stream(struct ask *ask)
{
	bool answered = !ask->command_id && !ask->keep;
	int status = stream_read(ask->stream, ask->session.fd, &ask->error);

	if (status >= 0 || ask->over)
		return;
	if (status == -ENODATA) {
		fail(ask, answered ? ask->status : STATUS_TARGET_GONE);
		if (!answered)
			error_set(&ask->error, status,
			          still_runs(ask)
			                  ? "process %d closed the connection before it had answered: it replaced itself by "
			                    "another program (exec), or a limit keeps it from making a thread"
			                  : "process %d went away before it had answered",
			          pid_of(ask));
		return;
	}
	fail(ask, status == -ECANCELED ? STATUS_FAILED : status == -ESRCH ? STATUS_TARGET_GONE : STATUS_NOT_ATTACHED);
}

void ask_step(struct ask *ask, bool readable, uint64_t now_ns)
{
	int status;

	if (ask->over)
		return;
	status = session_step(&ask->session, now_ns, &ask->error);
	if (status < 0) {
		/* The answer is complete: that the end is not confirmed hurts nobody. */
		bool answered = ask->session.state == SESSION_DETACHING;

		fail(ask, answered ? ask->status : STATUS_NOT_ATTACHED);
		if (answered)
			ask->error.text[0] = '\0';
		return;
	}
	if (readable && ask->session.fd >= 0)
		read_stream(ask);
	if (!ask->over && now_ns >= ask->deadline_ns) {
		fail(ask, STATUS_FAILED);
		error_set(&ask->error, -ETIMEDOUT,
		          "process %d has not ended the request, although it was told to: it is in code that cannot be "
		          "interrupted; left it there",
		          pid_of(ask));
	}
}

void ask_again(struct ask *ask, const struct command *request)
{
	ask->status = STATUS_DONE;
	ask->cancelled = false;
	ask->command_id = session_ask(&ask->session, request);
	set_deadline(ask, request->request.timeout_ms);
}

void ask_cancel(struct ask *ask)
{
	struct command cancel = {.kind = COMMAND_CANCEL, .request = {.limit = ask->command_id, .name = {"", 0}, .text = {"", 0}}};

	if (ask->over || !ask->command_id || ask->cancelled)
		return;
	ask->cancelled = true;
	if (!is_connected(ask)) {
		fail(ask, STATUS_FAILED);
		return;
	}
	session_ask(&ask->session, &cancel);
	ask->deadline_ns = clock_now_ns() + GRACE_NS;
}

void ask_detach(struct ask *ask)
{
	if (ask->over)
		return;
	ask->keep = false;
	session_detach(&ask->session);
}

void ask_close(struct ask *ask)
{
	if (!ask->stream)
		return;
	stream_free(ask->stream);
	ask->stream = NULL;
	session_close(&ask->session);
}

/* Waits for one of them, or for a signal. False when all are over. */
static bool turn(struct ask *asks, size_t count, struct pollfd *polled)
{
	uint64_t now_ns = clock_now_ns(), wake_ns = UINT64_MAX;
	struct timespec wait = {0};
	bool any = false;

	for (size_t i = 0; i < count; i++) {
		polled[1 + i] = (struct pollfd){.fd = ask_descriptor(&asks[i]), .events = POLLIN};
		any = any || !asks[i].over;
		if (ask_wake_ns(&asks[i]) < wake_ns)
			wake_ns = ask_wake_ns(&asks[i]);
	}
	if (!any)
		return false;
	if (wake_ns > now_ns) {
		wait.tv_sec = (time_t)((wake_ns - now_ns) / NS_PER_S);
		wait.tv_nsec = (long)((wake_ns - now_ns) % NS_PER_S);
	}
	if (ppoll(polled, 1 + count, wake_ns == UINT64_MAX ? NULL : &wait, NULL) < 0)
		for (size_t i = 0; i <= count; i++)
			polled[i].revents = 0;
	now_ns = clock_now_ns();
	for (size_t i = 0; i < count; i++) {
		bool was_over = asks[i].over;

		ask_step(&asks[i], polled[1 + i].revents != 0, now_ns);
		if (asks[i].over && !was_over && asks[i].error.text[0])
			message("%s", asks[i].error.text);
	}
	return true;
}

int ask_run(struct ask *asks, size_t count, int signals_descriptor)
{
	struct pollfd *polled = memory_zeroed((1 + count) * sizeof(*polled));
	int status = STATUS_DONE;

	for (size_t i = 0; i < count; i++)
		if (asks[i].over && asks[i].error.text[0])
			message("%s", asks[i].error.text);
	do {
		bool sent_by_process;

		polled[0] = (struct pollfd){.fd = signals_descriptor, .events = POLLIN};
		if (signals_take(&sent_by_process))
			for (size_t i = 0; i < count; i++)
				ask_cancel(&asks[i]);
	} while (turn(asks, count, polled));
	for (size_t i = 0; i < count; i++)
		status = status ? status : asks[i].status;
	free(polled);
	return status;
}
