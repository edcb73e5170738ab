/* rbprobe methods: what selectors would match in a process, without tracing anything. */

#define _GNU_SOURCE
#include "attach.h"
#include "decode.h"
#include "exit_status.h"
#include "message.h"
#include "options.h"
#include "output.h"
#include "proto/clock.h"
#include "signals.h"
#include "subcommand.h"
#include "trace_help.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

static const struct argp_child children[] = {
	{&options_target, 0, NULL, 0},
	{&options_selectors, 0, NULL, 0},
	{&options_engine, 0, NULL, 0},
	{&options_session, 0, NULL, 0},
	{0},
};

static const struct argp argp = {
	.args_doc = "-p PID SELECTOR...",
	.doc = "List the methods that selectors match in a process: name, where it is defined (- : not in Ruby), and the engine "
	       "that would "
	       "observe it, with the reason where it is not the usual one. Nothing is traced.\v" TRACE_HELP_SELECTORS
		       TRACE_HELP_STATUS,
	.children = children,
};

/* One process's answer. */
struct listing {
	const struct options *options;
	struct output *output;
	struct session session;
	bool *matched; /* by selector */
	bool answered;
	bool ended;
};

static int on_hello(void *owner, const struct record_hello *hello, struct error *err)
{
	return session_hello(&((struct listing *)owner)->session, hello, err);
}

static int on_match(void *owner, const struct record_match *match, struct error *err)
{
	struct listing *listing = owner;
	struct buffer *to = &listing->output->buffer;

	(void)err;
	if (match->selector < listing->options->selectors.count)
		listing->matched[match->selector] = true;
	if (listing->options->pids.count > 1)
		buffer_add_format(to, "%d: ", (int)listing->session.target.pid);
	buffer_add_printable(to, match->class_name.bytes, match->class_name.size);
	buffer_add_char(to, match->separator == '.' ? '.' : '#');
	buffer_add_printable(to, match->method_name.bytes, match->method_name.size);
	buffer_add_text(to, "  ");
	if (match->file.bytes) {
		buffer_add_printable(to, match->file.bytes, match->file.size);
		buffer_add_char(to, ':');
		buffer_add_uint(to, match->line);
	} else {
		buffer_add_char(to, '-');
	}
	buffer_add_text(to, "  ");
	buffer_add_text(to, engine_name(match->engine));
	if (match->reason.size) {
		buffer_add_text(to, " (");
		buffer_add_printable(to, match->reason.bytes, match->reason.size);
		buffer_add_char(to, ')');
	}
	buffer_add_char(to, '\n');
	output_commit(listing->output);
	return 0;
}

static int on_reply(void *owner, const struct record_reply *reply, struct error *err)
{
	struct listing *listing = owner;
	int status = session_reply(&listing->session, reply, err);

	if (status == 0 && listing->session.state == SESSION_ARMED) {
		listing->answered = true;
		session_detach(&listing->session);
	}
	return status;
}

static int on_note(void *owner, const struct record_note *note, struct error *err)
{
	const struct listing *listing = owner;

	(void)err;
	if (!listing->options->quiet && (note->level == NOTE_WARNING || listing->options->verbose))
		message("process %d: %.*s", (int)listing->session.target.pid, (int)note->text.size, note->text.bytes);
	return 0;
}

static int on_end(void *owner, const struct record_end *end, struct error *err)
{
	struct listing *listing = owner;

	listing->ended = listing->session.ended = true;
	if (end->reason == END_REFUSED)
		return error_set(err, -EPERM, "process %d refused: %.*s", (int)listing->session.target.pid, (int)end->text.size,
		                 end->text.bytes);
	return 0;
}

static const struct stream_handler handlers = {
	.hello = on_hello, .reply = on_reply, .match = on_match, .note = on_note, .end = on_end};

/* Until the process has answered and let go, or something fails. */
static int converse(struct listing *listing, struct stream *stream, int signals_descriptor, struct error *err)
{
	struct session *session = &listing->session;

	while (!listing->ended) {
		struct pollfd polled[] = {{.fd = signals_descriptor, .events = POLLIN}, {.events = POLLIN}};
		int status = session_step(session, clock_now_ns(), err);
		uint64_t now_ns;
		struct timespec wait;

		if (status < 0)
			return listing->answered ? 0 : status;
		polled[1].fd = session_descriptor(session);
		now_ns = clock_now_ns();
		wait.tv_sec = session->wake_ns > now_ns ? (time_t)((session->wake_ns - now_ns) / NS_PER_S) : 0;
		wait.tv_nsec = session->wake_ns > now_ns ? (long)((session->wake_ns - now_ns) % NS_PER_S) : 0;
		if (ppoll(polled, 2, session->wake_ns == UINT64_MAX ? NULL : &wait, NULL) <= 0)
			continue;
		if (polled[0].revents)
			return error_set(err, -EINTR, "interrupted");
		if (session->fd < 0 || !polled[1].revents)
			continue;
		status = stream_read(stream, session->fd, err);
		if (status == -ENODATA)
			return listing->answered ? 0
			                         : error_set(err, -ESRCH, "process %d went away before it answered",
			                                     (int)session->target.pid);
		if (status < 0)
			return status;
	}
	return 0;
}

static void tell_unmatched(const struct listing *listing)
{
	const struct selector_list *selectors = &listing->options->selectors;

	for (uint32_t i = 0; i < selectors->count && !listing->options->quiet; i++)
		if (!listing->matched[i])
			message("process %d: nothing matches %s so far%s", (int)listing->session.target.pid, selectors->texts[i],
			        selector_may_be_class(&selectors->items[i]) ? SELECTOR_CLASS_HINT : "");
}

static int list_one(const struct options *options, struct output *output, pid_t pid, int signals_descriptor)
{
	struct listing listing = {.options = options, .output = output};
	struct command request = options_request(options, COMMAND_METHODS);
	const struct session_manner manner = options_manner(options);
	struct stream *stream;
	struct error err;
	int status;

	status = session_open(&listing.session, pid, &request, &manner, &err);
	if (status < 0) {
		message("%s", err.text);
		return STATUS_NOT_ATTACHED;
	}
	listing.matched = memory_zeroed(options->selectors.count * sizeof(bool));
	stream = stream_new(pid, NULL, NULL, &handlers, &listing);
	status = converse(&listing, stream, signals_descriptor, &err);
	output_flush(output);
	if (status < 0)
		message("%s", err.text);
	else
		tell_unmatched(&listing);
	stream_free(stream);
	free(listing.matched);
	session_close(&listing.session);
	return status == 0 ? STATUS_DONE : status == -ECANCELED ? STATUS_FAILED : STATUS_NOT_ATTACHED;
}

static int methods_run(int argc, char **argv)
{
	struct options options;
	struct output output;
	int status, signals_descriptor;

	options_init(&options);
	status = options_parse(&argp, argc, argv, &options);
	if (status == 0 && (options.pids.count == 0 || options.selectors.count == 0)) {
		message(options.pids.count == 0 ? "methods needs -p PID; `rbprobe ps` lists the Ruby processes"
		                                : "which methods? Give selectors such as String#gsub");
		status = STATUS_USAGE;
	}
	if (status == 0) {
		output_open(&output, NULL, false, NULL);
		signals_descriptor = signals_install();
		for (size_t i = 0; i < options.pids.count; i++) {
			int one = list_one(&options, &output, options.pids.items[i], signals_descriptor);

			status = status ? status : one;
		}
		if (output_close(&output) < 0) {
			message("%s", output.error.text);
			status = STATUS_FAILED;
		}
	}
	options_free(&options);
	return status;
}

const struct subcommand cmd_methods = {
	.name = "methods",
	.arguments = "-p PID SELECTOR...",
	.summary = "list what selectors match",
	.run = methods_run,
};
