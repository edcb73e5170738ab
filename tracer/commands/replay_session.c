/* Recorded sessions, shown as if they were live. See replay_session.h. */

#include "tracer/commands/replay_session.h"

#include "tracer/base/message.h"
#include "tracer/base/output_name.h"
#include "tracer/base/signals.h"
#include "tracer/commands/trace_summary.h"
#include "tracer/stream/calls.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What all sessions may take: a small file may have many, each of which makes us remember as much as a process may. */
#define MEMORY_MAX (2 * STREAM_MEMORY_MAX)

struct replayed {
	struct trace_target traced;
	struct replay_sessions *sessions;
	bool ended;              /* END has come */
	bool continued;          /* a part of it is in another file */
	size_t largest_block;    /* the stream keeps room of that size */
	struct filter *filter;   /* NULL: all is shown */
	uint64_t counted;        /* in the sessions' `memory` */
	uint64_t began_ns;       /* of the wall clock; 0: not known */
	uint64_t from_ns, to_ns; /* the events' wall-clock times so far; 0: there was none */
	struct trace_file file;  /* with %p in -o */
	bool found[];            /* by selector */
};

static struct replayed *replayed_of(void *owner)
{
	return owner;
}

static int on_note(void *owner, const struct record_note *note, struct error *err)
{
	(void)err;
	trace_target_note(&replayed_of(owner)->traced, note);
	return 0;
}

static int on_found(void *owner, const struct record_found *found, struct error *err)
{
	struct replayed *replayed = replayed_of(owner);

	(void)err;
	if (found->selector < replayed->sessions->selector_count)
		replayed->found[found->selector] = true;
	return 0;
}

static int on_end(void *owner, const struct record_end *end, struct error *err)
{
	struct replayed *replayed = replayed_of(owner);
	struct trace_target *traced = &replayed->traced;

	(void)err;
	replayed->ended = true;
	/* It counts what is in other files as well. */
	if (replayed->continued)
		return 0;
	traced->end = *end;
	traced->end.text = (struct slice){"", 0};
	traced->has_end = true;
	return 0;
}

static int on_totals(void *owner, const struct record_totals *totals, struct error *err)
{
	(void)err;
	trace_summary_totals(&replayed_of(owner)->traced, totals);
	return 0;
}

static const struct stream_handler handlers = {.note = on_note, .end = on_end, .found = on_found, .totals = on_totals};

bool replay_overwrites(const struct output *output, const char *path)
{
	if (!output_is_file(output, path))
		return false;
	message("%s is the recording itself; write to another file", output->name);
	return true;
}

void replay_open(struct replay_sessions *sessions, const char *path, struct options *options, struct output *output)
{
	*sessions = (struct replay_sessions){
		.options = options,
		.memory_max = MEMORY_MAX,
		.met = memory_zeroed(options->selectors.count + 1),
		.files = options->output_path && output_name_has_pid(options->output_path),
		.path = path,
		.run = {.options = options, .output = output, .limit = {.limited = options->count > 0, .left = options->count}},
	};
}

static void count_memory(struct replayed *replayed)
{
	struct replay_sessions *sessions = replayed->sessions;
	uint64_t now = sizeof(*replayed) + sessions->selector_count * sizeof(*replayed->found) + sizeof(struct stream) +
	               replayed->largest_block + replayed->traced.stream->memory +
	               (replayed->filter ? filter_memory(replayed->filter) : 0);

	sessions->memory += now - replayed->counted;
	replayed->counted = now;
}

static int check_memory(const struct replay_sessions *sessions, struct error *err)
{
	/* One that is over leaves its place. */
	if (sessions->memory + sessions->count * sizeof(*sessions->items) <= sessions->memory_max)
		return 0;
	return error_set(err, -ENOMEM, "the recording is damaged: to show its sessions takes more than %llu MiB",
	                 (unsigned long long)sessions->memory_max >> 20);
}

static void name_unmatched(const struct replayed *replayed)
{
	const struct replay_sessions *sessions = replayed->sessions;
	const struct trace_target *traced = &replayed->traced;

	for (uint32_t i = 0; i < sessions->selector_count; i++) {
		if (replayed->found[i] || !*sessions->selectors[i])
			continue;
		if (traced->sink->ops->unmatched)
			traced->sink->ops->unmatched(traced->sink, traced->pid, sessions->selectors[i]);
		output_flush(traced->output);
		if (!sessions->options->quiet)
			message("process %d: %s never matched", (int)traced->pid, sessions->selectors[i]);
	}
}

static void finish_filter(struct replayed *replayed)
{
	struct error err;

	if (filter_finish(replayed->filter, &err) < 0)
		message("%s", err.text);
	replayed->traced.partial = true;
	replayed->traced.left_out = filter_left_out(replayed->filter);
	replayed->traced.marks_left_out = filter_marks_left_out(replayed->filter);
}

/* How much of the time from then on is within --from and --to. */
static uint64_t within_ns(const struct filter_wants *wants, uint64_t began_ns, uint64_t duration_ns)
{
	uint64_t from_ns = began_ns, to_ns = began_ns + duration_ns;

	if (!began_ns)
		return duration_ns;
	if (wants->from_ns > from_ns)
		from_ns = wants->from_ns;
	if (wants->to_ns && wants->to_ns < to_ns)
		to_ns = wants->to_ns;
	return to_ns > from_ns ? to_ns - from_ns : 0;
}

static void finish(struct replay_sessions *sessions, uint32_t number, const char *reason, uint64_t duration_ns)
{
	struct replayed *replayed = number < sessions->count ? sessions->items[number] : NULL;
	uint64_t began_ns;

	if (!replayed)
		return;
	/* That of one that goes on from another file is not when this one begins. */
	began_ns = replayed->continued || !replayed->began_ns ? replayed->from_ns : replayed->began_ns;
	if (replayed->filter)
		finish_filter(replayed);
	calls_finish(replayed->traced.stream);
	/* What is not all there may have had it. */
	if (replayed->ended && !output_is_flood(replayed->traced.output))
		name_unmatched(replayed);
	trace_summary_say(&replayed->traced, reason, within_ns(&sessions->wants, began_ns, duration_ns));
	filter_free(replayed->filter);
	stream_free(replayed->traced.stream);
	if (trace_file_close(&replayed->file, NULL) < 0)
		sessions->status = -EIO;
	sessions->memory -= replayed->counted;
	free(replayed);
	sessions->items[number] = NULL;
}

/* From its first event to its last. */
static uint64_t seen_ns(const struct replayed *replayed)
{
	return replayed->to_ns > replayed->from_ns ? replayed->to_ns - replayed->from_ns : 0;
}

/* Those that have no end: nothing more of them is wanted, or whoever recorded them was killed. */
static void finish_all(struct replay_sessions *sessions)
{
	const char *reason = replay_has_enough(sessions)         ? "--count reached"
	                     : sessions->run.output->reader_gone ? "the reader closed the pipe"
	                     : sessions->run.stop_reason         ? sessions->run.stop_reason
	                                                         : "the recording breaks off" SUMMARY_UNCONFIRMED;

	for (size_t i = 0; i < sessions->count; i++) {
		const struct replayed *replayed = sessions->items[i];

		if (replayed)
			finish(sessions, (uint32_t)i, reason, seen_ns(replayed));
	}
	sessions->count = 0;
}

bool replay_breaks_off(const struct replay_sessions *sessions)
{
	if (replay_has_enough(sessions) || sessions->run.stop_reason)
		return false;
	for (size_t i = 0; i < sessions->count; i++)
		if (sessions->items[i])
			return true;
	return false;
}

static void forget_selectors(struct replay_sessions *sessions)
{
	for (uint32_t i = 0; i < sessions->selector_count; i++)
		free(sessions->selectors[i]);
	free(sessions->selectors);
	sessions->selectors = NULL;
	sessions->selector_count = 0;
}

/* Those that this version has a form of. */
static uint32_t known_marks(uint32_t marks)
{
	uint32_t known = 0;

	for (uint32_t kind = 0; kind < MARK_COUNT; kind++)
		if (mark_form(kind))
			known |= marks & 1u << kind;
	return known;
}

/* Times of day may be of another day than they were meant for. */
static void say_if_empty(const struct replay_sessions *sessions)
{
	const struct filter_wants *wants = &sessions->wants;

	if (wants->to_ns && wants->from_ns > wants->to_ns && !sessions->options->quiet)
		message("nothing is shown of this recording, where the second time is before the first one; a date in front of "
		        "a time says which day is meant");
}

void replay_head(struct replay_sessions *sessions, const struct recording_head *head)
{
	struct options *options = sessions->options;

	finish_all(sessions);
	forget_selectors(sessions);
	sessions->selectors = memory_zeroed((head->selector_count + 1) * sizeof(*sessions->selectors));
	for (uint32_t i = 0; i < head->selector_count; i++) {
		const struct slice *text = &head->selectors[i];

		sessions->selectors[i] = memory_zeroed(text->size + 1);
		if (text->size)
			memcpy(sessions->selectors[i], text->bytes, text->size);
	}
	sessions->selector_count = head->selector_count;
	snprintf(sessions->host, sizeof(sessions->host), "%.*s", (int)head->host.size, head->host.size ? head->host.bytes : "");
	options->trace.flags = head->flags;
	options->trace.marks.kinds = known_marks(head->marks);
	options->style.flags = head->flags;
	options->style.running = head->slow || options->trace.conditions.slow_ns;
	sessions->wants = (struct filter_wants){
		.conditions = &options->trace.conditions,
		.selectors = options->selectors.items,
		.selector_count = options->selectors.count,
		.met = sessions->met,
		.left = sessions->left,
		.from_ns = replay_when_ns(&sessions->from, head->began_ns),
		.to_ns = replay_when_ns(&sessions->to, head->began_ns),
	};
	say_if_empty(sessions);
	options->style.many_pids = sessions->run.several = head->several;
	if (sessions->files)
		return;
	if (sessions->run.sink)
		sessions->run.sink->style = options->style;
	else
		sessions->run.sink = sink_make(sessions->maker, options, sessions->run.output);
}

/* A process that has come before goes on in its file, as does one that follows by another name. */
static int open_file(struct replay_sessions *sessions, struct replayed *replayed, struct error *err)
{
	struct trace_target *traced = &replayed->traced;
	struct options options = *sessions->options;
	int status;

	for (size_t i = 0; i < sessions->written.count; i++)
		options.append = options.append || sessions->written.items[i] == traced->pid;
	if (!options.append)
		pid_list_add(&sessions->written, traced->pid);
	status = trace_file_open(&replayed->file, traced->pid, &options, NULL, err);
	if (status < 0)
		return status;
	if (output_is_file(&replayed->file.output, sessions->path)) {
		sink_free(replayed->file.sink);
		output_give_up(&replayed->file.output);
		return error_set(err, -EINVAL, "%s is the recording itself for process %d; write to another file",
		                 options.output_path, (int)traced->pid);
	}
	traced->output = &replayed->file.output;
	traced->sink = replayed->file.sink;
	return 0;
}

int replay_session(struct replay_sessions *sessions, const struct recording_session *session, struct error *err)
{
	struct replayed *replayed;

	if (session->number != sessions->count)
		return error_set(err, -EBADMSG, "the recording is damaged: session %u comes where %zu should", session->number,
		                 sessions->count);
	replayed = memory_zeroed(sizeof(*replayed) + sessions->selector_count * sizeof(*replayed->found));
	replayed->sessions = sessions;
	replayed->continued = session->continued;
	replayed->began_ns = session->began_ns;
	replayed->traced = (struct trace_target){
		.run = &sessions->run, .pid = (pid_t)session->pid, .output = sessions->run.output, .sink = sessions->run.sink};
	if (sessions->files && open_file(sessions, replayed, err) < 0) {
		free(replayed);
		return err->code;
	}
	replayed->traced.stream =
		stream_new((pid_t)session->pid, replayed->traced.sink, &sessions->run.limit, &handlers, replayed);
	replayed->traced.stream->wall_offset_ns = session->wall_offset_ns;
	replayed->traced.stream->main_native_id = session->main_thread;
	if (sessions->begins)
		sessions->begins(sessions, replayed->traced.sink, replayed->traced.stream, session);
	if (filter_wants_any(&sessions->wants))
		replayed->filter = filter_new(&sessions->wants, replayed->traced.stream);
	sessions->items = memory_resize(sessions->items, (sessions->count + 1) * sizeof(struct replayed *));
	sessions->items[sessions->count++] = replayed;
	if (session->open_calls && !sessions->options->quiet)
		message("process %u: %" PRIu64 " call%s open when this file begins, and %s shown with the time of %s own start",
		        session->pid, session->open_calls, session->open_calls == 1 ? " was" : "s were",
		        session->open_calls == 1 ? "is" : "are", session->open_calls == 1 ? "its" : "their");
	count_memory(replayed);
	return check_memory(sessions, err);
}

int replay_records(struct replay_sessions *sessions, const struct recording_block *block, const struct buffer *records,
                   struct error *err)
{
	struct replayed *replayed = block->session < sessions->count ? sessions->items[block->session] : NULL;
	int status;

	if (!replayed)
		return error_set(err, -EBADMSG, "the recording is damaged: it has records of session %u, which is not open",
		                 block->session);
	if (!replayed->from_ns)
		replayed->from_ns = block->from_ns;
	if (block->to_ns)
		replayed->to_ns = block->to_ns;
	if (records->size > replayed->largest_block)
		replayed->largest_block = records->size;
	status = replayed->filter ? filter_feed(replayed->filter, records->bytes, records->size, err)
	                          : stream_feed(replayed->traced.stream, records->bytes, records->size, err);
	count_memory(replayed);
	return status < 0 ? status : check_memory(sessions, err);
}

void replay_end(struct replay_sessions *sessions, const struct recording_end *end)
{
	struct replayed *replayed = end->session < sessions->count ? sessions->items[end->session] : NULL;
	struct buffer reason = {0};

	if (!replayed)
		return;
	replayed->traced.gone = end->gone;
	buffer_add_printable(&reason, end->reason.bytes, end->reason.size);
	buffer_add_char(&reason, '\0');
	/* That of one that is in other files as well is the time in all of them. */
	finish(sessions, end->session, reason.bytes,
	       replayed->continued || !end->duration_ns ? seen_ns(replayed) : end->duration_ns);
	buffer_free(&reason);
}

bool replay_has_enough(const struct replay_sessions *sessions)
{
	const struct call_limit *limit = &sessions->run.limit;

	return limit->limited && !limit->left && !limit->open;
}

int replay_close(struct replay_sessions *sessions)
{
	finish_all(sessions);
	sink_free(sessions->run.sink);
	free(sessions->written.items);
	free(sessions->met);
	forget_selectors(sessions);
	free(sessions->items);
	return sessions->status;
}

/* Gives a part to whoever shows it. 0, or negative with err. */
static int take(struct replay_sessions *sessions, struct recording_reader *reader, const struct recording_item *item,
                struct buffer *records, struct error *err)
{
	int status;

	if (sessions->part)
		sessions->part(sessions->part_owner, item);
	switch (item->part) {
	case RECORDING_HEAD:
		if (item->head.rate_hz)
			return error_set(err, -EINVAL, "this is a profile, and has no calls; `rbprobe report` shows it");
		replay_head(sessions, &item->head);
		return 0;
	case RECORDING_SESSION:
		return replay_session(sessions, &item->session, err);
	case RECORDING_BLOCK:
		status = recording_unpack(reader, records, err);
		return status < 0 ? status : replay_records(sessions, &item->block, records, err);
	case RECORDING_END:
		replay_end(sessions, &item->end);
		return 0;
	case RECORDING_NOTHING:
		break;
	}
	return 0;
}

/* It ends a replay as it ends a trace. */
static const char *signal_word(void)
{
	bool sent_by_process;

	return signals_word(signals_take(&sent_by_process));
}

/* A name that is wrong shows nothing, as one that was never called. */
static void name_unmet(const struct replay_sessions *sessions)
{
	const struct options *options = sessions->options;

	for (uint32_t i = 0; i < options->selectors.count && !options->quiet; i++)
		if (!sessions->met[i])
			message("%s: nothing that was recorded is %s; `rbprobe report` lists the methods by their names",
			        sessions->path, options->selectors.texts[i]);
}

int replay_all(struct replay_sessions *sessions, struct recording_reader *reader, struct error *err)
{
	struct buffer records = {0};
	struct recording_item item;
	int status;

	while ((status = recording_next(reader, &item, err)) > 0) {
		status = take(sessions, reader, &item, &records, err);
		if (status < 0 || output_is_over(sessions->run.output) || replay_has_enough(sessions))
			break;
	}
	buffer_free(&records);
	if (status == 0 && !output_is_over(sessions->run.output) && !replay_has_enough(sessions))
		name_unmet(sessions);
	if (status != -EINTR)
		return status < 0 ? status : 0;
	sessions->run.stop_reason = signal_word();
	return 0;
}
