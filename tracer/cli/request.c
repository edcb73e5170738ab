/* One request to one process, and its answer. See request.h. */

#include "tracer/cli/request.h"

#include "proto/clock.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/base/poll_until.h"
#include "tracer/base/signals.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define JOINERS_LOOK_NS (NS_PER_S / 4)

#define GRACE_NS (2 * NS_PER_S) /* for a target to end what was cancelled */

static int pid_of(const struct request *request)
{
	return (int)request->attachment.target.pid;
}

static int on_hello(void *owner, const struct record_hello *hello, struct error *err)
{
	struct request *request = owner;
	int status = attachment_hello(&request->attachment, hello, err);

	if (status == 0 && request->handler->attached)
		request->handler->attached(request);
	return status;
}

static void set_deadline(struct request *request, uint32_t timeout_ms)
{
	request->deadline_ns = timeout_ms ? clock_now_ns() + (uint64_t)timeout_ms * NS_PER_MS + GRACE_NS : UINT64_MAX;
}

void request_report(const struct request *request, uint32_t code, struct slice text)
{
	if (code)
		message_often("process %d: %.*s", pid_of(request), (int)text.size, text.bytes);
}

static void answered(struct request *request, uint32_t code, struct slice text)
{
	request->command_id = 0;
	request->deadline_ns = UINT64_MAX;
	if (code)
		request->status = STATUS_FAILED;
	if (request->handler->done)
		request->handler->done(request, code, text);
	else
		request_report(request, code, text);
	if (!request->keep)
		request_detach(request);
}

static int on_reply(void *owner, const struct record_reply *reply, struct error *err)
{
	struct request *request = owner;
	bool first = request->attachment.state == ATTACHMENT_CONNECTED;
	int status = attachment_reply(&request->attachment, reply, err);

	if (status < 0)
		return status;
	if (reply->command_id != request->command_id)
		return 0;
	if (reply->code != 0)
		return error_set(err, -ECANCELED, "process %d: %.*s", pid_of(request), (int)reply->text.size, reply->text.bytes);
	if (request->handler->reply_ends)
		answered(request, 0, (struct slice){"", 0});
	else if (first)
		set_deadline(request, request->attachment.command.arguments.timeout_ms);
	return 0;
}

static int on_note(void *owner, const struct record_note *note, struct error *err)
{
	const struct request *request = owner;

	(void)err;
	if (!request->options->quiet && (note->level == NOTE_WARNING || request->options->verbose))
		message_often("process %d: %.*s", pid_of(request), (int)note->text.size, note->text.bytes);
	return 0;
}

static int on_data(void *owner, const struct record_data *data, struct error *err)
{
	struct request *request = owner;

	if (data->command_id != request->command_id || !request->handler->data)
		return 0;
	return request->handler->data(request, data->object, err);
}

static int on_output(void *owner, const struct record_output *output, struct error *err)
{
	struct request *request = owner;

	if (output->command_id != request->command_id || !request->handler->output)
		return 0;
	return request->handler->output(request, output->stream, output->bytes, err);
}

static int on_match(void *owner, const struct record_match *match, struct error *err)
{
	struct request *request = owner;

	return request->handler->match ? request->handler->match(request, match, err) : 0;
}

static int on_done(void *owner, const struct record_done *done, struct error *err)
{
	struct request *request = owner;

	(void)err;
	if (done->command_id != request->command_id)
		return 0;
	answered(request, done->code, done->text);
	return 0;
}

static bool has_part(const struct request *request)
{
	return request->handler->partial && request->handler->partial(request);
}

static int on_end(void *owner, const struct record_end *end, struct error *err)
{
	struct request *request = owner;

	request->attachment.ended = true;
	if (end->reason == END_REFUSED)
		return error_set(err, -EPERM, "process %d refused: %.*s", pid_of(request), (int)end->text.size, end->text.bytes);
	if (end->reason == END_EXIT && has_part(request)) {
		request->over = true;
		return error_set(&request->error, 0, "process %d has exited: what is shown ends there", pid_of(request));
	}
	if (request->command_id)
		return error_set(err, -ESRCH, "process %d ended before it had answered", pid_of(request));
	if (end->reason == END_EXIT && request->keep)
		return error_set(err, -ESRCH, "process %d has ended", pid_of(request));
	request->over = true;
	return 0;
}

static const struct stream_handler stream_handler = {.hello = on_hello,
                                                     .reply = on_reply,
                                                     .note = on_note,
                                                     .end = on_end,
                                                     .output = on_output,
                                                     .data = on_data,
                                                     .match = on_match,
                                                     .done = on_done};

/* It is over for another reason than its answer's end. */
static void fail(struct request *request, int status)
{
	request->over = true;
	request->status = status;
}

static bool is_connected(const struct request *request)
{
	return request->attachment.state >= ATTACHMENT_CONNECTED;
}

void request_open(struct request *request, pid_t pid, const struct command *command, const struct options *options,
                  const struct request_handler *handler, void *owner)
{
	struct attach_manner manner = options_manner(options);

	manner.descriptors = handler->descriptors;
	memset(request, 0, sizeof(*request));
	request->options = options;
	request->handler = handler;
	request->owner = owner;
	request->status = STATUS_DONE;
	request->deadline_ns = UINT64_MAX;
	if (attachment_open(&request->attachment, pid, command, &manner, &request->error) < 0) {
		fail(request, STATUS_NOT_ATTACHED);
		return;
	}
	request->error.text[0] = '\0';
	request->command_id = request->attachment.command_id;
	request->stream = stream_new(pid, NULL, NULL, &stream_handler, request);
	request->stream->takes_descriptors = handler->descriptors;
}

int request_descriptor(const struct request *request)
{
	return request->over ? -1 : attachment_descriptor(&request->attachment);
}

uint64_t request_wake_ns(const struct request *request)
{
	if (request->over)
		return UINT64_MAX;
	return request->attachment.wake_ns < request->deadline_ns ? request->attachment.wake_ns : request->deadline_ns;
}

/* What a process has done whose connection ended. */
static const char *leaving_text(const struct request *request, enum attachment_leaving left)
{
	switch (left) {
	case LEFT_BY_EXEC:
		return "called exec";
	case LEFT_BY_EXIT:
		return "left without its exit handlers (exit!, or exec of a short program)";
	case LEFT_ALONE:
		return request->attachment.greeted
		               ? "closed the connection without a word, though it still runs"
		               : "closed the connection, though it still runs (a limit may keep it from making a thread)";
	default:
		return "went away";
	}
}

/* Its socket has ended before the answer. Returns a status. */
static int say_how_it_left(struct request *request)
{
	int signal = 0, pid = pid_of(request);
	enum attachment_leaving left = attachment_left(&request->attachment, &signal);
	bool has_some = has_part(request);
	const char *rest = has_some ? ": what is shown ends there" : left == LEFT_ALONE ? "" : " before it had answered";

	if (left == LEFT_BY_SIGNAL)
		error_set(&request->error, -ENODATA, "process %d was killed by signal %d (%s)%s", pid, signal, strsignal(signal),
		          rest);
	else
		error_set(&request->error, -ENODATA, "process %d %s%s", pid, leaving_text(request, left), rest);
	return has_some && (left == LEFT_BY_EXIT || left == LEFT_BY_EXEC) ? STATUS_DONE : STATUS_TARGET_GONE;
}

static void read_stream(struct request *request)
{
	bool answered = !request->command_id && !request->keep;
	int status = stream_read(request->stream, request->attachment.fd, &request->error);

	if (status >= 0 || request->over)
		return;
	if (status == -ENODATA) {
		fail(request, answered ? request->status : say_how_it_left(request));
		return;
	}
	fail(request, status == -ECANCELED ? STATUS_FAILED : status == -ESRCH ? STATUS_TARGET_GONE : STATUS_NOT_ATTACHED);
}

/* It has not ended the request when asked to. */
static void describe_late(struct request *request)
{
	char state = target_state(&request->attachment.target);
	int pid = pid_of(request);

	if (state == 'T' || state == 't')
		error_set(&request->error, -ETIMEDOUT,
		          "process %d is stopped and cannot answer; let it go on with: kill -CONT %d", pid, pid);
	else
		error_set(&request->error, -ETIMEDOUT,
		          "process %d did not end the request when asked to: it runs code that cannot be interrupted, and "
		          "goes on with it",
		          pid);
}

void request_step(struct request *request, bool readable, uint64_t now_ns)
{
	int status;

	if (request->over)
		return;
	status = attachment_step(&request->attachment, now_ns, &request->error);
	if (status < 0) {
		/* The answer is complete: that the end is not confirmed hurts nobody. */
		bool answered = request->attachment.state == ATTACHMENT_DETACHING;

		fail(request, answered ? request->status : STATUS_NOT_ATTACHED);
		if (answered)
			request->error.text[0] = '\0';
		return;
	}
	if (readable && request->attachment.fd >= 0)
		read_stream(request);
	if (!request->over && now_ns >= request->deadline_ns) {
		fail(request, STATUS_FAILED);
		describe_late(request);
	}
}

void request_again(struct request *request, const struct command *command)
{
	request->status = STATUS_DONE;
	request->cancelled = false;
	request->command_id = attachment_send(&request->attachment, command);
	set_deadline(request, command->arguments.timeout_ms);
}

void request_cancel(struct request *request)
{
	struct command cancel = {.kind = COMMAND_CANCEL, .arguments = {.request_id = request->command_id}};

	if (request->over || !request->command_id || request->cancelled)
		return;
	request->cancelled = true;
	if (!is_connected(request)) {
		fail(request, STATUS_FAILED);
		return;
	}
	attachment_send(&request->attachment, &cancel);
	request->deadline_ns = clock_now_ns() + GRACE_NS;
}

void request_detach(struct request *request)
{
	if (request->over)
		return;
	request->keep = false;
	attachment_detach(&request->attachment);
}

void request_close(struct request *request)
{
	if (!request->stream)
		return;
	stream_free(request->stream);
	request->stream = NULL;
	attachment_close(&request->attachment);
}

/* Waits for one of them, for a signal, or until wake_ns. False when all are over. */
static bool turn(struct request *requests, size_t count, struct pollfd *polled, uint64_t wake_ns)
{
	uint64_t now_ns;
	bool any = false;

	for (size_t i = 0; i < count; i++) {
		polled[1 + i] = (struct pollfd){.fd = request_descriptor(&requests[i]), .events = POLLIN};
		any = any || !requests[i].over;
		if (request_wake_ns(&requests[i]) < wake_ns)
			wake_ns = request_wake_ns(&requests[i]);
	}
	if (!any)
		return false;
	poll_until(polled, 1 + count, wake_ns);
	now_ns = clock_now_ns();
	for (size_t i = 0; i < count; i++) {
		bool was_over = requests[i].over;

		request_step(&requests[i], polled[1 + i].revents != 0, now_ns);
		if (requests[i].over && !was_over && requests[i].error.text[0])
			message_often("%s", requests[i].error.text);
	}
	return true;
}

int request_run(struct request *requests, size_t count, const struct request_joiners *joiners, int signals_descriptor,
                bool *interrupted)
{
	struct pollfd *polled = memory_zeroed((1 + (joiners ? joiners->most : count)) * sizeof(*polled));
	uint64_t look_ns = joiners ? clock_now_ns() + JOINERS_LOOK_NS : UINT64_MAX;
	int status = STATUS_DONE;

	for (size_t i = 0; i < count; i++)
		if (requests[i].over && requests[i].error.text[0])
			message_often("%s", requests[i].error.text);
	do {
		bool sent_by_process;

		polled[0] = (struct pollfd){.fd = signals_descriptor, .events = POLLIN};
		if (signals_take(&sent_by_process)) {
			*interrupted = true;
			for (size_t i = 0; i < count; i++)
				request_cancel(&requests[i]);
		}
		if (joiners && !*interrupted && clock_now_ns() >= look_ns) {
			count = joiners->look(joiners->owner, requests, count);
			look_ns = clock_now_ns() + JOINERS_LOOK_NS;
		}
	} while (turn(requests, count, polled, look_ns));
	for (size_t i = 0; i < count; i++)
		status = status ? status : requests[i].status;
	free(polled);
	return status;
}
