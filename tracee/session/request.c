/*
 * Requests. See request.h.
 *
 * A request may be under way while its session ends, its time limit passes and its client cancels it: all of these happen in
 * jobs, and so does the taking of a request from its session's list, by whoever finishes it under the GVL. The writer thread only
 * watches the earliest deadline.
 */

#define _GNU_SOURCE
#include "tracee/session/request.h"

#include "proto/clock.h"
#include "tracee/base/msgpack_builder.h"
#include "tracee/session/debug.h"
#include "tracee/session/permissions.h"
#include "tracee/session/session.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/exception_drop.h"

#include <errno.h>
#include <ruby.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAITING_MAX (1u << 20) /* bytes for a client that has not read yet, above which request_may_send() says no */

static _Atomic uint64_t earliest_ns = UINT64_MAX; /* deadline of a request under way */

static void update_earliest(void)
{
	uint64_t earliest = UINT64_MAX;

	for (struct session *session = session_first(); session; session = session->next)
		for (struct request *request = session->requests; request; request = request->next)
			if (!request->cancelled && request->deadline_ns < earliest)
				earliest = request->deadline_ns;
	atomic_store_explicit(&earliest_ns, earliest, memory_order_relaxed);
}

bool requests_overdue(void)
{
	uint64_t earliest = atomic_load_explicit(&earliest_ns, memory_order_relaxed);

	return earliest != UINT64_MAX && clock_now_ns() > earliest;
}

int request_open(struct request **made, const struct request_kind *kind, struct session *session, const struct command *command,
                 struct error *err)
{
	struct request *request = calloc(1, sizeof(*request));

	if (!request)
		return error_set(err, -ENOMEM, "no memory for a request");
	request->kind = kind;
	request->session = session;
	request->command_id = command->id;
	request->deadline_ns = UINT64_MAX;
	request->needs = permissions_needed(command, true);
	if (command->arguments.timeout_ms)
		request->deadline_ns = clock_now_ns() + (uint64_t)command->arguments.timeout_ms * NS_PER_MS;
	request->next = session->requests;
	session->requests = request;
	*made = request;
	return 0;
}

struct beginning {
	struct request *request;
	const struct command *command;
};

static VALUE begin_protected(VALUE argument)
{
	const struct beginning *beginning = (const struct beginning *)argument;

	beginning->request->kind->begin(beginning->request, beginning->command);
	return Qnil;
}

/* Whether the request is still one of the session's: begin() may have finished it before it raised. */
static bool is_under_way(const struct session *session, const struct request *request)
{
	for (const struct request *one = session->requests; one; one = one->next)
		if (one == request)
			return true;
	return false;
}

void request_begin(struct request *request, const struct command *command)
{
	struct beginning beginning = {request, command};
	struct session *session = request->session;
	int failed = 0;

	rb_protect(begin_protected, (VALUE)&beginning, &failed);
	if (failed) {
		VALUE error = rb_errinfo();
		char message[ERROR_TEXT_SIZE / 2];

		exception_drop(Qnil);
		builtin_describe(error, message, sizeof(message));
		if (is_under_way(session, request))
			request_finish(request, EIO, "the %s request failed inside the process: %s", request->kind->name,
			               message);
	}
	update_earliest();
}

static void cancel(struct request *request, enum cancel_reason reason)
{
	static const char *const why[] = {[CANCEL_ASKED] = "the client asked",
	                                  [CANCEL_TIMEOUT] = "its time is over",
	                                  [CANCEL_DETACHED] = "the session ends",
	                                  [CANCEL_EXIT] = "the process exits"};

	debug(request->session, DEBUG_REQUEST, "command %u: cancelling %s: %s", request->command_id, request->kind->name,
	      why[reason]);
	request->cancelled = true;
	if (request->kind->cancel)
		request->kind->cancel(request, reason);
}

bool request_cancel(struct session *session, uint32_t command_id)
{
	for (struct request *request = session->requests; request; request = request->next)
		if (request->command_id == command_id) {
			cancel(request, CANCEL_ASKED);
			update_earliest();
			return true;
		}
	return false;
}

void request_abandon_all(struct session *session, enum cancel_reason reason)
{
	while (session->requests) {
		struct request *request = session->requests;

		session->requests = request->next;
		debug(session, DEBUG_REQUEST, "command %u: %s loses its session", request->command_id, request->kind->name);
		request->session = NULL;
		request->next = NULL;
		cancel(request, reason);
	}
	if (reason != CANCEL_EXIT)
		update_earliest();
}

void request_fork_child(struct session *session)
{
	for (struct request *request = session->requests; request; request = request->next)
		request->session = NULL;
	session->requests = NULL;
	atomic_store_explicit(&earliest_ns, UINT64_MAX, memory_order_relaxed);
}

static struct request *overdue(const struct session *session, uint64_t now)
{
	struct request *request = session->requests;

	while (request && (request->cancelled || now <= request->deadline_ns))
		request = request->next;
	return request;
}

void request_cancel_overdue(void)
{
	uint64_t now = clock_now_ns();

	if (!requests_overdue())
		return;
	for (struct session *session = session_first(); session; session = session->next) {
		struct request *request;

		/* From the start each time: cancelling runs Ruby code, and any request may be finished meanwhile. */
		while ((request = overdue(session, now)))
			cancel(request, CANCEL_TIMEOUT);
	}
	update_earliest();
}

bool request_may_send(const struct request *request)
{
	return !request->session || atomic_load_explicit(&request->session->waiting, memory_order_relaxed) < WAITING_MAX;
}

void request_output(struct request *request, enum output_stream stream, const char *bytes, size_t size)
{
	struct record record = {.kind = RECORD_OUTPUT, .output = {.command_id = request->command_id, .stream = stream}};

	while (request->session && size > 0) {
		size_t part = size < OUTPUT_SIZE_MAX ? size : OUTPUT_SIZE_MAX;

		record.output.bytes = (struct slice){bytes, part};
		session_send(request->session, &record);
		bytes += part;
		size -= part;
	}
}

static bool is_sendable(const struct msgpack_builder *answer)
{
	return !answer->failed && answer->buffer.size + 16 <= FRAME_SIZE_MAX;
}

static struct record data_record(const struct request *request, const struct msgpack_builder *answer)
{
	return (struct record){.kind = RECORD_DATA,
	                       .data = {.command_id = request->command_id, .packed = {answer->buffer.data, answer->buffer.size}}};
}

bool request_answer(struct request *request, struct msgpack_builder *answer)
{
	bool sendable = is_sendable(answer);

	if (sendable && request->session) {
		struct record record = data_record(request, answer);

		session_send(request->session, &record);
	}
	builder_clear(answer);
	return sendable;
}

void request_answer_descriptor(struct request *request, struct msgpack_builder *answer, int descriptor)
{
	if (is_sendable(answer) && request->session) {
		struct record record = data_record(request, answer);

		session_send_descriptor(request->session, &record, descriptor);
	} else {
		close(descriptor);
	}
	builder_clear(answer);
}

static void unlink_request(struct request *request)
{
	struct request **link = &request->session->requests;

	while (*link && *link != request)
		link = &(*link)->next;
	if (*link)
		*link = request->next;
	update_earliest();
}

void request_finish(struct request *request, int code, const char *format, ...)
{
	char text[TEXT_SIZE_MAX];
	struct record record = {.kind = RECORD_DONE, .done = {.command_id = request->command_id, .code = (uint32_t)code}};
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	record.done.text = (struct slice){text, strlen(text)};
	debug(request->session, DEBUG_REQUEST, "command %u: %s is over, code %d%s%s", request->command_id, request->kind->name,
	      code, text[0] ? ": " : "", text);
	if (request->session) {
		session_tell_missing(request->session);
		session_send(request->session, &record);
		unlink_request(request);
	}
	free(request);
}
