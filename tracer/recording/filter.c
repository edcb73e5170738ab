/* Conditions of a trace, applied to records. See filter.h. */

#include "tracer/recording/filter.h"

#include "tracer/recording/meant.h"
#include "tracer/recording/texts.h"
#include "tracer/stream/calls.h"
#include "tracer/stream/decode.h"
#include "tracer/stream/sink.h"

#include <stdlib.h>
#include <string.h>

#define PASS_SIZE (64u << 10)

struct filter {
	struct filter_wants wants;
	bool within, outside, selected; /* there are selectors of such a role */
	bool at_end;                    /* only a call's end says whether it is shown */
	struct output nowhere;
	struct sink *sink;
	struct stream *from; /* all of the session */
	struct stream *to;
	msgpack_sbuffer records; /* that were not passed on yet */
	struct batch batch;      /* the last of them, if it is open */
	bool batching;
	struct buffer values, outcome; /* of an event that is added */
	uint64_t last_ns;
	uint64_t left_out, marks_left_out;
	bool looked; /* at the calls that are open at the end */
};

struct filter_sink {
	struct sink sink;
	struct filter *filter;
};

/* What is kept of an open call, in front of its values. Numbers are of the calls around it and itself. */
struct kept_call {
	uint32_t within, outside, shown;
	bool told;    /* its start was passed on */
	bool waiting; /* its end decides */
};

static struct filter *filter_of(struct sink *sink)
{
	return ((struct filter_sink *)sink)->filter;
}

bool filter_wants_any(const struct filter_wants *wants)
{
	return wants->selector_count || conditions_any(wants->conditions) || wants->from_ns || wants->to_ns;
}

/* --- What is meant */

/* Bits by enum selector_role, found once. */
static unsigned roles_of(const struct filter *filter, struct method *method)
{
	char roles = filter->selected ? 0 : 1u << ROLE_SHOWN;

	if (method->prepared.size)
		return (unsigned char)*method->prepared.bytes;
	for (uint32_t i = 0; i < filter->wants.selector_count; i++) {
		if (!method_is_meant(&filter->wants.selectors[i], method))
			continue;
		roles = (char)(roles | 1 << filter->wants.selectors[i].role);
		if (filter->wants.met)
			filter->wants.met[i] = true;
	}
	buffer_add_char(&method->prepared, roles);
	return (unsigned char)roles;
}

static bool is_thread_meant(const struct filter *filter, struct fiber *fiber)
{
	struct slice wanted = filter->wants.conditions->thread;

	if (!wanted.size)
		return true;
	if (!fiber->prepared.size)
		buffer_add_char(&fiber->prepared, thread_is_meant(wanted, fiber));
	return *fiber->prepared.bytes;
}

static bool is_then(const struct filter *filter, uint64_t time_ns)
{
	uint64_t wall_ns = time_ns + (uint64_t)filter->from->wall_offset_ns;

	return wall_ns >= filter->wants.from_ns && (!filter->wants.to_ns || wall_ns < filter->wants.to_ns);
}

/* Of the innermost of so many open calls. */
static struct kept_call kept_of(const struct fiber *fiber, uint32_t depth)
{
	struct kept_call kept = {0};

	if (depth)
		memcpy(&kept, fiber->kept.bytes + fiber->calls[depth - 1].kept, sizeof(kept));
	return kept;
}

static bool is_place_meant(const struct filter *filter, struct fiber *fiber, const struct kept_call *around, unsigned roles,
                           uint64_t time_ns)
{
	return (!filter->within || around->within) && !around->outside && !(roles & 1u << ROLE_OUTSIDE) &&
	       is_thread_meant(filter, fiber) && is_then(filter, time_ns);
}

static bool meets_start(const struct filter *filter, struct fiber *fiber, const struct kept_call *around, unsigned roles,
                        uint64_t time_ns)
{
	uint32_t depth = filter->wants.conditions->depth;

	return (!depth || around->shown < depth) && is_place_meant(filter, fiber, around, roles, time_ns);
}

/* values: what came with the end. */
static bool meets_end(const struct filter *filter, enum ending ending, struct values values, uint64_t duration_ns)
{
	const struct conditions *conditions = filter->wants.conditions;

	return duration_ns >= conditions->slow_ns &&
	       (!conditions->raised.bytes || exception_is_meant(conditions->raised, ending, values));
}

/* --- What comes out */

static void end_batch(struct filter *filter)
{
	if (filter->batching)
		batch_end(&filter->batch);
	filter->batching = false;
}

static void pass_event(struct filter *filter, const struct batch_event *event)
{
	if (filter->batching && batch_add(&filter->batch, event))
		return;
	end_batch(filter);
	batch_begin(&filter->batch, &filter->records, event->time_ns);
	filter->batching = true;
	batch_add(&filter->batch, event);
}

static struct slice packed(struct buffer *to, const struct values *values)
{
	to->size = 0;
	texts_add_values(to, values);
	return (struct slice){to->bytes, to->size};
}

static void pass(struct filter *filter, const struct event *event)
{
	pass_event(filter, &(struct batch_event){.kind = event->kind,
	                                         .ending = event->ending,
	                                         .method = event->method,
	                                         .fiber = event->fiber,
	                                         .time_ns = event->time_ns,
	                                         .duration_ns = event->duration_ns,
	                                         .values = packed(&filter->values, &event->values),
	                                         .outcome = packed(&filter->outcome, &event->outcome)});
}

static void pass_retries(struct filter *filter, uint32_t fiber, uint32_t times)
{
	const struct record record = {.kind = RECORD_RETRIED, .retried = {.fiber = fiber, .times = times}};

	if (!times)
		return;
	end_batch(filter);
	record_encode(&filter->records, &record);
}

/* Its values are kept as one array. end: where what is kept of the calls inside begins. */
static void pass_kept_start(struct filter *filter, const struct fiber *fiber, const struct call *call, size_t end)
{
	size_t from = call->kept + sizeof(struct kept_call);

	pass_event(filter, &(struct batch_event){.kind = EVENT_START,
	                                         .method = call->method->ref,
	                                         .fiber = fiber->ref,
	                                         .time_ns = call->start_ns,
	                                         .values = {fiber->kept.bytes + from, end - from}});
}

/* --- What goes in */

static void on_start(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event)
{
	struct filter *filter = filter_of(sink);
	struct kept_call kept = kept_of(fiber, fiber->depth);
	unsigned roles = roles_of(filter, call->method);
	bool selected = roles & 1u << ROLE_SHOWN;
	bool meets = selected && meets_start(filter, fiber, &kept, roles, event->time_ns);

	filter->last_ns = event->time_ns;
	filter->left_out += selected && !meets;
	kept.told = meets && !filter->at_end;
	kept.waiting = meets && filter->at_end;
	kept.shown += kept.told;
	kept.within += (roles >> ROLE_WITHIN) & 1;
	kept.outside += (roles >> ROLE_OUTSIDE) & 1;
	buffer_add(&fiber->kept, (const char *)&kept, sizeof(kept));
	if (kept.told)
		pass(filter, event);
	if (kept.waiting)
		texts_add_values(&fiber->kept, &event->values);
}

/* One that was begun anew needs a start, between which and the end this is said. */
static void pass_whole(struct filter *filter, const struct fiber *fiber, const struct call *call, const struct event *event,
                       uint64_t duration_ns)
{
	size_t from = call->kept + sizeof(struct kept_call);

	if (call->retries) {
		pass_kept_start(filter, fiber, call, fiber->kept.size);
		pass_retries(filter, fiber->ref, call->retries);
		pass(filter, event);
		return;
	}
	pass_event(filter, &(struct batch_event){.kind = EVENT_CALL,
	                                         .ending = event->ending,
	                                         .method = event->method,
	                                         .fiber = event->fiber,
	                                         .time_ns = call->start_ns,
	                                         .duration_ns = duration_ns,
	                                         .values = {fiber->kept.bytes + from, fiber->kept.size - from},
	                                         .outcome = packed(&filter->outcome, &event->values)});
}

static void tell_left(const struct filter *filter, const struct fiber *fiber, const struct method *method, uint64_t start_ns,
                      uint64_t duration_ns)
{
	const struct filter_left *left = filter->wants.left;

	if (left)
		left->call(left->owner, filter->to, fiber, method, start_ns, duration_ns);
}

static void on_end(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event, uint64_t duration_ns)
{
	struct filter *filter = filter_of(sink);
	struct kept_call kept = kept_of(fiber, fiber->depth + 1);
	bool meets = kept.waiting && meets_end(filter, event->ending, event->values, duration_ns);

	filter->last_ns = event->time_ns;
	filter->left_out += kept.waiting && !meets;
	if (kept.told) {
		pass_retries(filter, fiber->ref, call->retries);
		pass(filter, event);
	}
	if (meets)
		pass_whole(filter, fiber, call, event, duration_ns);
	if (!kept.told && !meets)
		tell_left(filter, fiber, call->method, call->start_ns, duration_ns);
	fiber->kept.size = call->kept;
}

static void on_whole(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event)
{
	struct filter *filter = filter_of(sink);
	struct kept_call around = kept_of(fiber, fiber->depth);
	unsigned roles = roles_of(filter, method);

	filter->last_ns = event->time_ns + event->duration_ns;
	if (roles & 1u << ROLE_SHOWN && meets_start(filter, fiber, &around, roles, event->time_ns) &&
	    meets_end(filter, event->ending, event->outcome, event->duration_ns)) {
		pass(filter, event);
		return;
	}
	filter->left_out += roles >> ROLE_SHOWN & 1;
	tell_left(filter, fiber, method, event->time_ns, event->duration_ns);
}

/* A line has no end that could meet anything. */
static void on_line(struct sink *sink, struct fiber *fiber, struct method *line, const struct event *event)
{
	struct filter *filter = filter_of(sink);
	struct kept_call around = kept_of(fiber, fiber->depth);
	unsigned roles = roles_of(filter, line);

	if (!(roles & 1u << ROLE_SHOWN))
		return;
	if (!filter->at_end && meets_start(filter, fiber, &around, roles, event->time_ns))
		pass(filter, event);
	else
		filter->left_out++;
}

/* What is about calls alone is not about these. */
static void on_mark(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event)
{
	struct filter *filter = filter_of(sink);
	struct kept_call around = kept_of(fiber, fiber->depth);

	(void)method;
	if (is_place_meant(filter, fiber, &around, 0, event->time_ns))
		pass(filter, event);
	else
		filter->marks_left_out++;
}

/* Its fiber is gone, or filter_finish() has looked at it. */
static void on_open(struct sink *sink, struct fiber *fiber, struct call *call)
{
	(void)sink;
	fiber->kept.size = call->kept;
}

static void look_at_open_calls(const struct fiber *fiber, void *owner)
{
	struct filter *filter = owner;
	const struct conditions *conditions = filter->wants.conditions;

	for (uint32_t i = 0; i < fiber->depth; i++) {
		const struct call *call = &fiber->calls[i];
		bool is_slow = conditions->slow_ns && !conditions->raised.bytes && filter->last_ns >= call->start_ns &&
		               filter->last_ns - call->start_ns >= conditions->slow_ns;

		if (!kept_of(fiber, i + 1).waiting)
			continue;
		if (is_slow)
			pass_kept_start(filter, fiber, call, i + 1 < fiber->depth ? fiber->calls[i + 1].kept : fiber->kept.size);
		else
			filter->left_out++;
	}
}

/* Once, and before END, after which nothing may come. */
static void look_once(struct filter *filter)
{
	if (!filter->looked)
		calls_each_fiber(filter->from, look_at_open_calls, filter);
	filter->looked = true;
}

static void on_record(struct sink *sink, struct stream *stream, const struct record *record, const uint8_t *bytes, size_t size)
{
	struct filter *filter = filter_of(sink);

	(void)stream;
	if (record->kind == RECORD_END)
		look_once(filter);
	end_batch(filter);
	if (record->kind != RECORD_EVENTS && record->kind != RECORD_RETRIED)
		msgpack_sbuffer_write(&filter->records, (const char *)bytes, size);
}

static const struct sink_ops sink_filter = {
	.name = "filter",
	.size = sizeof(struct filter_sink),
	.start = on_start,
	.end = on_end,
	.whole = on_whole,
	.mark = on_mark,
	.line = on_line,
	.open = on_open,
	.record = on_record,
};

/* --- The filter */

struct filter *filter_new(const struct filter_wants *wants, struct stream *to)
{
	static const struct stream_handler nobody;
	static const struct sink_style style;
	struct filter *filter = memory_zeroed(sizeof(*filter));

	filter->wants = *wants;
	filter->at_end = wants->conditions->slow_ns || wants->conditions->raised.bytes;
	for (uint32_t i = 0; i < wants->selector_count; i++) {
		filter->selected = filter->selected || wants->selectors[i].role == ROLE_SHOWN;
		filter->within = filter->within || wants->selectors[i].role == ROLE_WITHIN;
		filter->outside = filter->outside || wants->selectors[i].role == ROLE_OUTSIDE;
	}
	filter->nowhere.fd = -1;
	filter->sink = sink_new(&sink_filter, &filter->nowhere, &style);
	((struct filter_sink *)filter->sink)->filter = filter;
	filter->from = stream_new(to->pid, filter->sink, NULL, &nobody, NULL);
	filter->from->wall_offset_ns = to->wall_offset_ns;
	filter->from->main_native_id = to->main_native_id;
	filter->to = to;
	msgpack_sbuffer_init(&filter->records);
	return filter;
}

void filter_free(struct filter *filter)
{
	if (!filter)
		return;
	stream_free(filter->from);
	sink_free(filter->sink);
	msgpack_sbuffer_destroy(&filter->records);
	buffer_free(&filter->values);
	buffer_free(&filter->outcome);
	free(filter);
}

static int pass_on(struct filter *filter, struct error *err)
{
	int status;

	end_batch(filter);
	status = stream_feed(filter->to, filter->records.data, filter->records.size, err);
	msgpack_sbuffer_clear(&filter->records);
	return status;
}

int filter_feed(struct filter *filter, const void *bytes, size_t size, struct error *err)
{
	const char *from = bytes;
	int status = 0;

	/* In pieces, so that what comes out does not pile up. */
	while (size && status == 0) {
		size_t piece = size < PASS_SIZE ? size : PASS_SIZE;

		status = stream_feed(filter->from, from, piece, err);
		if (status == 0)
			status = pass_on(filter, err);
		from += piece;
		size -= piece;
	}
	return status;
}

int filter_finish(struct filter *filter, struct error *err)
{
	look_once(filter);
	return pass_on(filter, err);
}

uint64_t filter_left_out(const struct filter *filter)
{
	return filter->left_out;
}

uint64_t filter_marks_left_out(const struct filter *filter)
{
	return filter->marks_left_out;
}

uint64_t filter_memory(const struct filter *filter)
{
	return filter->from->memory + filter->records.alloc + filter->values.capacity + filter->outcome.capacity;
}
