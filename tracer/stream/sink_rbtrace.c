/*
 * The format of the rbtrace gem, for people and programs that know it.
 *
 *     Dir.chdir                                   a call with traced calls inside: where it begins
 *       Dir.pwd <0.000023>                        one without
 *       String#gsub(self="hello", @test=123)
 *         String#* <0.000008>
 *       String#gsub <0.000050>
 *     Dir.chdir <0.499025>                        and where it ends; then, after the outermost, an empty line
 *
 * A line is written as soon as its call begins, and goes on when the call ends, unless another line came between. How a call
 * ended is not shown.
 *
 * With --slow a call is shown when it ends, after those inside it that were slow, too. How many were around those is known
 * only then: so they wait for it a moment. Methods that are shown in any case go on as above. Among these, slow calls around
 * them do not count, and slow calls inside of them stand right below them.
 */

#include "tracer/stream/measures.h"
#include "tracer/stream/sink_text_parts.h"

#define SLOW_MAX 64u
#define DEPTH_MAX 4096u /* deeper nothing stands */

struct slow_call {
	uint64_t start_ns, duration_ns;
	size_t name, name_size; /* where, in the buffer */
	uint32_t depth;
};

struct rbtrace_sink {
	struct sink sink;
	struct second_text second;
	const struct fiber *pending; /* the fiber whose innermost call's line has no end yet; NULL: none */
	uint32_t pending_depth;      /* so many calls were open around it */
	uint32_t deepest;            /* so many calls were shown inside each other */
	/* --slow: calls of one fiber that have ended, in this order; what is shown of them is in the buffer. */
	struct slow_call slow[SLOW_MAX];
	uint32_t slow_count;
	struct fiber *slow_fiber;
	struct buffer slow_names;
};

static void line_end(struct rbtrace_sink *rbtrace)
{
	buffer_add_char(&rbtrace->sink.output->buffer, '\n');
	output_commit(rbtrace->sink.output);
	rbtrace->pending = NULL;
}

static void pending_end(struct rbtrace_sink *rbtrace)
{
	if (rbtrace->pending)
		line_end(rbtrace);
}

/* time_ns: 0 leaves the time's place empty. */
static void line_begin_at(struct rbtrace_sink *rbtrace, struct fiber *fiber, uint64_t time_ns, uint32_t depth)
{
	struct sink *sink = &rbtrace->sink;
	struct buffer *to = &sink->output->buffer;

	pending_end(rbtrace);
	sink_text_header(sink, fiber);
	sink_text_add_pid(sink, to, fiber->stream);
	if (sink->style.start_times && time_ns)
		sink_text_add_start_time(&rbtrace->second, to, fiber->stream, time_ns);
	else if (sink->style.start_times)
		buffer_add_spaces(to, 16);
	sink_text_indent(sink, to, depth);
}

/* A place in the source is a String to rbtrace. */
static void add_values(const struct sink *sink, const struct method *method, struct values values)
{
	static const char source[] = "__source__";
	struct buffer *to = &sink->output->buffer;
	struct slice value;
	bool more = false;

	if (!values.count)
		return;
	buffer_add_char(to, '(');
	for (uint32_t i = 0; values_next(&values, &value); i++) {
		struct slice name = i < method->labels.count ? method->labels.shown[i] : (struct slice){"", 0};
		bool quoted = name.size == sizeof(source) - 1 && memcmp(name.bytes, source, name.size) == 0;

		if (!value.bytes)
			continue;
		buffer_add_text(to, more ? ", " : "");
		more = true;
		buffer_add_slice(to, name);
		buffer_add_text(to, quoted ? "=\"" : "=");
		buffer_add_printable(to, value.bytes, value.size);
		buffer_add_text(to, quoted ? "\"" : "");
	}
	buffer_add_char(to, ')');
}

static void add_duration(const struct sink *sink, uint64_t duration_ns)
{
	struct buffer *to = &sink->output->buffer;

	if (!sink->style.durations)
		return;
	buffer_add_text(to, " <");
	buffer_add_seconds(to, duration_ns);
	buffer_add_char(to, '>');
}

static void deepen(struct rbtrace_sink *rbtrace, uint32_t depth)
{
	if (depth > rbtrace->deepest)
		rbtrace->deepest = depth;
}

/* Trees are set apart, once there has been one. */
static void tree_end(struct rbtrace_sink *rbtrace, uint32_t depth)
{
	if (depth == 0 && rbtrace->deepest > 1)
		line_end(rbtrace);
}

static void slow_show(struct rbtrace_sink *rbtrace)
{
	for (uint32_t i = 0; i < rbtrace->slow_count; i++) {
		const struct slow_call *call = &rbtrace->slow[i];

		deepen(rbtrace, call->depth);
		line_begin_at(rbtrace, rbtrace->slow_fiber, call->start_ns, call->depth);
		buffer_add(&rbtrace->sink.output->buffer, rbtrace->slow_names.bytes + call->name, call->name_size);
		add_duration(&rbtrace->sink, call->duration_ns);
		line_end(rbtrace);
		tree_end(rbtrace, call->depth);
	}
	rbtrace->slow_count = 0;
	rbtrace->slow_names.size = 0;
}

/*
 * One has ended. It was around all of those that wait and began later; their depth counts it already where its beginning was
 * told, since it ran for so long.
 */
static void slow_add(struct rbtrace_sink *rbtrace, struct fiber *fiber, struct slice name, uint64_t start_ns,
                     uint64_t duration_ns, bool told)
{
	struct slow_call call = {start_ns, duration_ns, 0, name.size, fiber->depth};

	if (rbtrace->slow_fiber != fiber || rbtrace->slow_count == SLOW_MAX)
		slow_show(rbtrace);
	for (uint32_t i = 0; i < rbtrace->slow_count && !told; i++)
		rbtrace->slow[i].depth += rbtrace->slow[i].start_ns >= start_ns;
	call.name = rbtrace->slow_names.size;
	buffer_add_slice(&rbtrace->slow_names, name);
	rbtrace->slow_fiber = fiber;
	rbtrace->slow[rbtrace->slow_count++] = call;
}

static bool is_if_slow(const struct sink *sink, const struct method *method)
{
	return sink->style.running && !method->always;
}

/* How many calls are shown around what comes now. */
static uint32_t depth_of(const struct sink *sink, const struct fiber *fiber)
{
	uint32_t depth = 0;

	if (!sink->style.running)
		return fiber->depth;
	for (uint32_t i = 0; i < fiber->depth && i < DEPTH_MAX; i++)
		depth += !is_if_slow(sink, fiber->calls[i].method);
	return depth;
}

static void line_begin(struct rbtrace_sink *rbtrace, struct fiber *fiber, uint64_t time_ns)
{
	slow_show(rbtrace);
	line_begin_at(rbtrace, fiber, time_ns, depth_of(&rbtrace->sink, fiber));
}

/* Right below a call that is shown in any case, or among other slow ones, which it may be around. */
static void slow_end(struct rbtrace_sink *rbtrace, struct fiber *fiber, struct slice name, uint64_t start_ns,
                     uint64_t duration_ns, bool told)
{
	uint32_t depth = depth_of(&rbtrace->sink, fiber);

	if (depth == 0) {
		slow_add(rbtrace, fiber, name, start_ns, duration_ns, told);
		return;
	}
	deepen(rbtrace, depth);
	line_begin(rbtrace, fiber, start_ns);
	buffer_add_slice(&rbtrace->sink.output->buffer, name);
	add_duration(&rbtrace->sink, duration_ns);
	line_end(rbtrace);
}

static void rbtrace_start(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event)
{
	struct rbtrace_sink *rbtrace = (struct rbtrace_sink *)sink;

	if (is_if_slow(sink, call->method))
		return;
	deepen(rbtrace, depth_of(sink, fiber) + 1);
	line_begin(rbtrace, fiber, event->time_ns);
	buffer_add_slice(&sink->output->buffer, call->method->shown);
	add_values(sink, call->method, event->values);
	rbtrace->pending = fiber;
	rbtrace->pending_depth = fiber->depth;
}

static void rbtrace_end(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event,
                        uint64_t duration_ns)
{
	struct rbtrace_sink *rbtrace = (struct rbtrace_sink *)sink;

	(void)event;
	if (is_if_slow(sink, call->method)) {
		slow_end(rbtrace, fiber, call->method->shown, call->start_ns, duration_ns, true);
		return;
	}
	if (rbtrace->pending != fiber || rbtrace->pending_depth != fiber->depth) {
		line_begin(rbtrace, fiber, 0);
		buffer_add_slice(&sink->output->buffer, call->method->shown);
	}
	add_duration(sink, duration_ns);
	line_end(rbtrace);
	tree_end(rbtrace, depth_of(sink, fiber));
}

static void rbtrace_whole(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event)
{
	struct rbtrace_sink *rbtrace = (struct rbtrace_sink *)sink;

	if (is_if_slow(sink, method)) {
		slow_end(rbtrace, fiber, method->shown, event->time_ns, event->duration_ns, false);
		return;
	}
	deepen(rbtrace, depth_of(sink, fiber) + 1);
	line_begin(rbtrace, fiber, event->time_ns);
	buffer_add_slice(&sink->output->buffer, method->shown);
	add_values(sink, method, event->values);
	add_duration(sink, event->duration_ns);
	line_end(rbtrace);
	tree_end(rbtrace, depth_of(sink, fiber));
}

static void rbtrace_line(struct sink *sink, struct fiber *fiber, struct method *line, const struct event *event)
{
	struct rbtrace_sink *rbtrace = (struct rbtrace_sink *)sink;
	struct values values = event->values;

	measures_take_stack(&values, sink->style.flags); /* not among its lines */
	line_begin(rbtrace, fiber, event->time_ns);
	buffer_add_slice(&sink->output->buffer, line->shown);
	add_values(sink, line, values);
	line_end(rbtrace);
}

static void rbtrace_mark(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event)
{
	struct rbtrace_sink *rbtrace = (struct rbtrace_sink *)sink;

	/* rbtrace has a line for a collection, none for each pause of it. */
	if (method->mark_kind == MARK_GC_PAUSE)
		return;
	line_begin(rbtrace, fiber, event->time_ns);
	if (method->mark_kind == MARK_GC) {
		buffer_add_text(&sink->output->buffer, "garbage_collect");
		add_duration(sink, sink_text_number(values_get(event->values, 4)));
	} else {
		sink_text_add_mark(sink, &sink->output->buffer, method->mark_kind, event->values);
	}
	line_end(rbtrace);
}

/* Its line, if it has one, stays as it is. */
static void rbtrace_open(struct sink *sink, struct fiber *fiber, struct call *call)
{
	struct rbtrace_sink *rbtrace = (struct rbtrace_sink *)sink;

	(void)call;
	if (rbtrace->pending == fiber)
		line_end(rbtrace);
}

static void rbtrace_forget(struct sink *sink, const struct fiber *fiber)
{
	struct rbtrace_sink *rbtrace = (struct rbtrace_sink *)sink;

	if (rbtrace->slow_fiber == fiber)
		slow_show(rbtrace);
}

static void rbtrace_quiet(struct sink *sink)
{
	slow_show((struct rbtrace_sink *)sink);
}

static bool rbtrace_holds(const struct sink *sink)
{
	return ((const struct rbtrace_sink *)sink)->slow_count > 0;
}

static void rbtrace_lost(struct sink *sink, struct stream *stream, const struct record_lost *lost)
{
	struct rbtrace_sink *rbtrace = (struct rbtrace_sink *)sink;

	slow_show(rbtrace);
	pending_end(rbtrace);
	sink_text_add_pid(sink, &sink->output->buffer, stream);
	sink_text_add_lost(sink, &sink->output->buffer, lost);
	line_end(rbtrace);
}

static void rbtrace_summary(struct sink *sink, const struct sink_summary *summary)
{
	(void)summary;
	slow_show((struct rbtrace_sink *)sink);
	pending_end((struct rbtrace_sink *)sink);
}

static void rbtrace_close(struct sink *sink)
{
	buffer_free(&((struct rbtrace_sink *)sink)->slow_names);
}

const struct sink_ops sink_rbtrace = {
	.name = "rbtrace",
	.size = sizeof(struct rbtrace_sink),
	.start = rbtrace_start,
	.end = rbtrace_end,
	.whole = rbtrace_whole,
	.mark = rbtrace_mark,
	.line = rbtrace_line,
	.open = rbtrace_open,
	.forget = rbtrace_forget,
	.lost = rbtrace_lost,
	.quiet = rbtrace_quiet,
	.holds = rbtrace_holds,
	.summary = rbtrace_summary,
	.close = rbtrace_close,
};
