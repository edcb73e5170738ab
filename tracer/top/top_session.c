/* One trace of one process. See top_session.h. */

#define _GNU_SOURCE
#include "tracer/top/top_session.h"

#include "tracer/base/message.h"
#include "tracer/cli/hook_question.h"
#include "tracer/stream/calls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- A sink for processes that count: what they send beside figures is not shown */

static void no_start(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event)
{
	(void)sink;
	(void)fiber;
	(void)call;
	(void)event;
}

static void no_end(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event, uint64_t duration_ns)
{
	(void)duration_ns;
	no_start(sink, fiber, call, event);
}

static void no_method(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event)
{
	(void)method;
	no_start(sink, fiber, NULL, event);
}

static void no_open(struct sink *sink, struct fiber *fiber, struct call *call)
{
	no_start(sink, fiber, call, NULL);
}

static void no_lost(struct sink *sink, struct stream *stream, const struct record_lost *lost)
{
	(void)stream;
	(void)lost;
	no_start(sink, NULL, NULL, NULL);
}

static const struct sink_ops quiet_sink = {
	.name = "quiet",
	.size = sizeof(struct sink),
	.start = no_start,
	.end = no_end,
	.whole = no_method,
	.mark = no_method,
	.line = no_method,
	.open = no_open,
	.lost = no_lost,
};

/* --- How it ends */

static void over(struct top_session *session, enum top_outcome outcome, const char *why)
{
	struct buffer text = {0};
	char prefix[32];

	if (top_session_is_over(session))
		return;
	/* The owner says of which process it is. */
	snprintf(prefix, sizeof(prefix), "process %d: ", (int)session->pid);
	if (strncmp(why, prefix, strlen(prefix)) == 0)
		why += strlen(prefix);
	session->outcome = outcome;
	buffer_add_printable(&text, why, strlen(why));
	snprintf(session->why, sizeof(session->why), "%.*s", (int)text.size, text.size ? text.bytes : "");
	buffer_free(&text);
	attachment_close(&session->attachment);
}

static void fail(struct top_session *session, const struct error *err)
{
	char text[sizeof(err->text) + 128];
	bool attached = session->attachment.state >= ATTACHMENT_ARMED;

	if (session->stopping) {
		over(session, TOP_ENDED, "");
		return;
	}
	snprintf(text, sizeof(text), "%s%s", err->text, err->code == -EACCES ? hook_remedy(session->options) : "");
	over(session, attached || err->code == -ECANCELED ? TOP_FAILED : TOP_NOT_ATTACHED, text);
}

/* It ended and said nothing: by a signal, by exit!, by an exec, or its application has closed the socket. */
static void died(struct top_session *session)
{
	static const char *const texts[] = {
		[LEFT_BY_EXEC] = "it has become another program (exec)",
		[LEFT_ALONE] = "it closed the connection without a word, though it still runs",
		[LEFT_BY_EXIT] = "it left without its exit handlers (exit!)",
		[LEFT_UNKNOWN] = "it ended without a word: it was killed, it crashed, or it left by exit!",
	};
	char killed[sizeof(session->why)];
	int signal = 0;
	enum attachment_leaving left = attachment_left(&session->attachment, &signal);

	if (left == LEFT_BY_SIGNAL)
		snprintf(killed, sizeof(killed), "it was killed by signal %d (%s)", signal, strsignal(signal));
	over(session, TOP_GONE, left == LEFT_BY_SIGNAL ? killed : texts[left]);
}

static void disconnected(struct top_session *session)
{
	if (session->has_end || session->stopping)
		over(session, TOP_ENDED, session->stopping ? "" : "it has exited");
	else
		died(session);
}

/* --- Records */

static int on_hello(void *owner, const struct record_hello *hello, struct error *err)
{
	struct top_session *session = owner;
	struct buffer version = {0};

	buffer_add_printable(&version, hello->ruby_version.bytes, hello->ruby_version.size);
	snprintf(session->ruby, sizeof(session->ruby), "%.*s", (int)version.size, version.size ? version.bytes : "");
	buffer_free(&version);
	return attachment_hello(&session->attachment, hello, err);
}

static int on_reply(void *owner, const struct record_reply *reply, struct error *err)
{
	struct top_session *session = owner;
	int status = attachment_reply(&session->attachment, reply, err);

	if (status == -ECANCELED && reply->code == EACCES)
		return err->code = -EACCES;
	if (session->armed && reply->code)
		session->asked = false;
	session->armed = session->armed || status == 0;
	return status;
}

static int on_note(void *owner, const struct record_note *note, struct error *err)
{
	const struct top_session *session = owner;
	static const char unmatched[] = "matches no method yet";

	(void)err;
	/* Not every process has each of the methods that were chosen for all. */
	if (session->own_selectors && memmem(note->text.bytes, note->text.size, unmatched, sizeof(unmatched) - 1))
		return 0;
	if (note->level == NOTE_WARNING)
		message("process %d: %.*s", (int)session->pid, (int)note->text.size, note->text.bytes);
	return 0;
}

static struct slice name_of(const void *owner, uint32_t ref)
{
	const struct method *method = calls_method_of(owner, ref);

	return method ? method->shown : (struct slice){NULL, 0};
}

static int on_data(void *owner, const struct record_data *data, struct error *err)
{
	struct top_session *session = owner;
	int status = stat_table_add(&session->coming, data->object, name_of, session->stream, err);

	if (status < 0 || !session->coming.complete)
		return status;
	stat_table_free(&session->now);
	session->now = session->coming;
	session->coming = (struct stat_table){0};
	session->now.pid = session->pid;
	session->now.processes = 1;
	session->answers++;
	return 0;
}

static int on_done(void *owner, const struct record_done *done, struct error *err)
{
	(void)done;
	(void)err;
	((struct top_session *)owner)->asked = false;
	return 0;
}

static int on_end(void *owner, const struct record_end *end, struct error *err)
{
	struct top_session *session = owner;

	session->attachment.ended = true;
	session->has_end = true;
	if (end->reason == END_REFUSED)
		return error_set(err, -EPERM, "it refused: %.*s", (int)end->text.size, end->text.bytes);
	return 0;
}

static const struct stream_handler handlers = {
	.hello = on_hello, .reply = on_reply, .note = on_note, .data = on_data, .done = on_done, .end = on_end};

/* --- For the owner */

static void open_session(struct top_session *session)
{
	const struct attach_manner manner = options_manner(session->options);
	struct error err;

	session->command.selectors = session->selectors.items;
	session->command.selector_count = session->selectors.count;
	session->command.options.expression_timeout_ms = options_limit_ms(session->options);
	session->command.options.work_limit_ms = session->command.options.expression_timeout_ms;
	session->unused.fd = -1;
	if (!session->sink)
		session->sink = session->quiet = sink_new(&quiet_sink, &session->unused, &session->options->style);
	if (attachment_open(&session->attachment, session->pid, &session->command, &manner, &err) < 0)
		over(session, TOP_NOT_ATTACHED, err.text);
	else
		session->stream = stream_new(session->pid, session->sink, NULL, &handlers, session);
}

static struct top_session *new_session(pid_t pid, const struct trace_options *trace, const struct options *options,
                                       struct sink *sink)
{
	struct top_session *session = memory_zeroed(sizeof(*session));

	session->pid = pid;
	session->options = options;
	session->command = (struct command){.kind = COMMAND_TRACE, .options = *trace};
	session->sink = sink;
	return session;
}

struct top_session *top_session_open(pid_t pid, const struct trace_options *trace, const struct selector_list *selectors,
                                     const struct options *options, struct sink *sink)
{
	struct top_session *session = new_session(pid, trace, options, sink);

	session->selectors = *selectors;
	open_session(session);
	return session;
}

struct top_session *top_session_open_texts(pid_t pid, const struct trace_options *trace, char *const *texts, size_t count,
                                           const struct options *options, struct sink *sink)
{
	struct top_session *session = new_session(pid, trace, options, sink);
	struct error err;

	session->own_selectors = true;
	for (size_t i = 0; i < count; i++) {
		size_t size = strlen(texts[i]) + 1;
		char *copy = memory_resize(NULL, size);

		memcpy(copy, texts[i], size);
		if (selector_parse(&session->selectors, copy, &err) < 0)
			free(copy); /* the owner has tried it; it would be left out */
	}
	open_session(session);
	return session;
}

int top_session_descriptor(const struct top_session *session)
{
	return top_session_is_over(session) ? -1 : attachment_descriptor(&session->attachment);
}

uint64_t top_session_wake_ns(const struct top_session *session)
{
	return top_session_is_over(session) ? UINT64_MAX : session->attachment.wake_ns;
}

static void read_stream(struct top_session *session)
{
	struct error err;
	int status = stream_read(session->stream, session->attachment.fd, &err);

	if ((status > 0 && session->has_end) || status == -ENODATA)
		disconnected(session);
	else if (status < 0)
		fail(session, &err);
}

void top_session_step(struct top_session *session, short events, uint64_t now_ns)
{
	struct attachment *attachment = &session->attachment;
	struct error err;

	if (top_session_is_over(session))
		return;
	if (now_ns >= attachment->wake_ns || (attachment->fd < 0 && events))
		if (attachment_step(attachment, now_ns, &err) < 0) {
			fail(session, &err);
			return;
		}
	if (attachment->fd >= 0 && events)
		read_stream(session);
}

void top_session_ask(struct top_session *session)
{
	if (!top_session_is_over(session) && !session->asked)
		session->asked = attachment_ask_statistics(&session->attachment);
}

void top_session_stop(struct top_session *session)
{
	if (top_session_is_over(session) || session->stopping)
		return;
	session->stopping = true;
	if (session->attachment.state >= ATTACHMENT_ARMED)
		attachment_detach(&session->attachment);
	else
		over(session, TOP_ENDED, "");
}

void top_session_excuse(struct top_session *session, uint64_t busy_ns)
{
	if (!top_session_is_over(session))
		attachment_excuse(&session->attachment, busy_ns);
}

void top_session_free(struct top_session *session)
{
	if (!session)
		return;
	if (!top_session_is_over(session))
		attachment_close(&session->attachment);
	/* A sink may hold calls back. */
	if (session->stream)
		calls_finish(session->stream);
	stream_free(session->stream);
	sink_free(session->quiet);
	stat_table_free(&session->now);
	stat_table_free(&session->coming);
	for (uint32_t i = 0; session->own_selectors && i < session->selectors.count; i++)
		free((char *)session->selectors.texts[i]);
	if (session->own_selectors)
		selector_list_free(&session->selectors);
	free(session);
}

const struct method *top_session_method(const struct top_session *session, struct slice name)
{
	for (size_t i = 0; i < session->now.count; i++) {
		const struct stat_row *row = &session->now.rows[i];

		if (session->stream && row->name.size == name.size && memcmp(row->name.bytes, name.bytes, name.size) == 0)
			return calls_method_of(session->stream, row->method);
	}
	return NULL;
}
