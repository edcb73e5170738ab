/* What a page has of a recording, added up while the calls pass. on_end(), on_whole() and what they call are done for each. */

#include "tracer/html/html_parts.h"

#include "tracer/recording/ended.h"
#include "tracer/stream/sink_text_parts.h"
#include "tracer/stream/thread_states.h"

#include <string.h>

struct html_sink {
	struct sink sink;
	struct html *html;
};

/* What is kept of an open call, in front of its values. */
struct kept_call {
	uint32_t node; /* where it is folded, that of a call around it; 0: not even that is there */
	uint32_t values, values_size;
	bool folded;
	uint64_t inside_ns; /* the time of calls inside it */
};

static struct html *html_of(struct sink *sink)
{
	return ((struct html_sink *)sink)->html;
}

/* --- Methods */

static uint32_t method_word(struct html *html, struct method *method)
{
	uint32_t word;

	if (method->prepared.size) {
		memcpy(&word, method->prepared.bytes, sizeof(word));
		return word;
	}
	word = html_name(html, method->shown);
	buffer_add(&method->prepared, (const char *)&word, sizeof(word));
	if (word >= html->method_room) {
		uint32_t room = html->method_room;

		html->method_room = 2 * word + 64;
		html->methods = memory_resize(html->methods, html->method_room * sizeof(*html->methods));
		memset(html->methods + room, 0, (html->method_room - room) * sizeof(*html->methods));
	}
	if (word != OTHER_WORD && !html->methods[word].file && method->file.size) {
		html->methods[word].file = html_text(html, method->file);
		html->methods[word].line = method->line;
	}
	return word;
}

static void add_to_method(struct html_method *method, enum ending ending, uint64_t duration_ns)
{
	struct histogram_place place = histogram_place(duration_ns);
	uint64_t **octave = &method->octaves[place.octave];

	if (!*octave)
		*octave = memory_zeroed(HISTOGRAM_PER_OCTAVE * sizeof(**octave));
	(*octave)[place.bucket]++;
	if (!method->calls || duration_ns < method->min_ns)
		method->min_ns = duration_ns;
	if (duration_ns > method->max_ns)
		method->max_ns = duration_ns;
	method->calls++;
	method->errors += ending == ENDING_RAISED;
}

/* --- Calls */

static struct kept_call kept_of(const struct fiber *fiber, uint32_t depth)
{
	struct kept_call kept = {0};

	if (depth)
		memcpy(&kept, fiber->kept.bytes + fiber->calls[depth - 1].kept, sizeof(kept));
	return kept;
}

static struct kept_call begin_call(struct html *html, struct fiber *fiber, uint32_t name, int64_t start_ns)
{
	struct kept_call around = kept_of(fiber, fiber->depth), call = {0};

	if (!fiber->depth)
		around.node = html_tree_node(&html->tree, 0, html_lanes_of(html, fiber, start_ns).thread);
	call.node = around.folded || around.node == UINT32_MAX ? UINT32_MAX : html_tree_node(&html->tree, around.node, name);
	if (call.node == UINT32_MAX) {
		call.folded = true;
		call.node = around.node == UINT32_MAX ? 0 : around.node;
	}
	return call;
}

static size_t ended_from(const struct fiber *fiber)
{
	return fiber->depth
	               ? fiber->calls[fiber->depth - 1].kept + sizeof(struct kept_call) + kept_of(fiber, fiber->depth).values_size
	               : 0;
}

static void add_to_tree(struct html *html, const struct kept_call *call, enum ending ending, uint64_t duration_ns)
{
	struct html_node *node = &html->tree.nodes[call->node];

	if (call->folded) {
		html->tree.folded++;
		return;
	}
	node->calls++;
	node->errors += ending == ENDING_RAISED;
	node->total_ns += duration_ns;
	node->self_ns += duration_ns > call->inside_ns ? duration_ns - call->inside_ns : 0;
}

static enum html_ended how_ended(enum ending ending)
{
	return ending == ENDING_RETURNED ? HTML_RETURNED : ending == ENDING_RAISED ? HTML_RAISED : HTML_OTHERWISE;
}

static void add_to_timeline(struct html *html, struct fiber *fiber, uint32_t name, enum html_ended ended, int64_t start_ns,
                            uint64_t duration_ns)
{
	struct fiber_place place = html_lanes_of(html, fiber, start_ns);
	int64_t end_ns = html_end(start_ns, duration_ns);

	if (end_ns > html->end_ns)
		html->end_ns = end_ns;
	if (place.lane == UINT32_MAX) {
		html->lanes.crowded++;
		return;
	}
	if (end_ns > html->lanes.items[place.lane].busy_ns)
		html->lanes.items[place.lane].busy_ns = end_ns;
	html_calls_add(&html->calls, &(struct html_call){start_ns, duration_ns, name, place.lane, ended});
}

/* The call is over, and no open one any more. */
static void end_call(struct html *html, struct fiber *fiber, struct method *method, struct kept_call *call, enum ending ending,
                     uint64_t start_ns, uint64_t duration_ns)
{
	uint64_t late_ns = ended_take(&fiber->kept, ended_from(fiber), start_ns);
	uint32_t name = method_word(html, method);
	struct kept_call around;

	html->late = html->late || late_ns;
	call->inside_ns += late_ns;
	add_to_tree(html, call, ending, duration_ns);
	add_to_method(&html->methods[name], ending, duration_ns);
	add_to_timeline(html, fiber, name, how_ended(ending), html_time(html, fiber->stream, start_ns), duration_ns);
	html->calls_seen++;
	if (fiber->depth && !call->folded) {
		around = kept_of(fiber, fiber->depth);
		around.inside_ns += duration_ns - (late_ns < duration_ns ? late_ns : duration_ns);
		memcpy(fiber->kept.bytes + fiber->calls[fiber->depth - 1].kept, &around, sizeof(around));
	}
	ended_add(&fiber->kept, ended_from(fiber), start_ns, duration_ns);
}

static void on_start(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event)
{
	struct html *html = html_of(sink);
	struct kept_call kept =
		begin_call(html, fiber, method_word(html, call->method), html_time(html, fiber->stream, event->time_ns));

	kept.values = event->values.count;
	kept.values_size = kept.values ? (uint32_t)(event->values.end - event->values.bytes) : 0;
	buffer_add(&fiber->kept, (const char *)&kept, sizeof(kept));
	if (kept.values)
		buffer_add(&fiber->kept, (const char *)event->values.bytes, kept.values_size);
}

static void on_end(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event, uint64_t duration_ns)
{
	struct html *html = html_of(sink);
	struct kept_call kept = kept_of(fiber, fiber->depth + 1);

	if (slowest_wants(html->slowest, duration_ns)) {
		const uint8_t *bytes = (const uint8_t *)fiber->kept.bytes + call->kept + sizeof(kept);
		const struct values values = {bytes, bytes + kept.values_size, kept.values};

		slowest_add(html->slowest, sink, fiber,
		            &(struct slow_call){call->method, call->start_ns, duration_ns, call->retries, event->ending, values,
		                                event->values});
	}
	fiber->kept.size = call->kept;
	end_call(html, fiber, call->method, &kept, event->ending, call->start_ns, duration_ns);
}

static void on_whole(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event)
{
	struct html *html = html_of(sink);
	struct kept_call call =
		begin_call(html, fiber, method_word(html, method), html_time(html, fiber->stream, event->time_ns));

	if (slowest_wants(html->slowest, event->duration_ns))
		slowest_add(html->slowest, sink, fiber,
		            &(struct slow_call){method, event->time_ns, event->duration_ns, 0, event->ending, event->values,
		                                event->outcome});
	end_call(html, fiber, method, &call, event->ending, event->time_ns, event->duration_ns);
}

/* It lasts to the end of what is shown. */
static void on_open(struct sink *sink, struct fiber *fiber, struct call *call)
{
	struct html *html = html_of(sink);
	int64_t start_ns = html_time(html, fiber->stream, call->start_ns);

	html->open++;
	fiber->kept.size = call->kept;
	add_to_timeline(html, fiber, method_word(html, call->method), HTML_OPEN, start_ns,
	                html->end_ns > start_ns ? (uint64_t)(html->end_ns - start_ns) : 0);
}

static void on_line(struct sink *sink, struct fiber *fiber, struct method *line, const struct event *event)
{
	(void)fiber;
	(void)line;
	(void)event;
	html_of(sink)->lines_seen++;
}

/* --- What happened beside calls */

static uint64_t number_of(struct values values, uint32_t index)
{
	return sink_text_number(values_get(values, index));
}

/* A mark comes at its end. A collection in several pauses has no beginning that is known. */
static uint64_t mark_duration(const struct method *method, struct values values)
{
	switch (method->mark_kind) {
	case MARK_GC:
		return number_of(values, 5) == 1 ? number_of(values, 4) : 0;
	case MARK_GC_PAUSE:
		return number_of(values, 2);
	case MARK_GVL:
		return number_of(values, 0);
	default:
		return 0;
	}
}

static void on_mark(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event)
{
	struct html *html = html_of(sink);
	int64_t time_ns = html_time(html, fiber->stream, event->time_ns);
	struct fiber_place place = html_lanes_of(html, fiber, time_ns);
	uint64_t duration_ns = mark_duration(method, event->values);
	struct buffer text = {0};

	if (html->mark_count == HTML_MARKS_MAX || place.lane == UINT32_MAX) {
		html->marks_left++;
		return;
	}
	if (html->mark_count == html->mark_room) {
		html->mark_room = html->mark_room ? 2 * html->mark_room : 256;
		html->marks = memory_resize(html->marks, html->mark_room * sizeof(*html->marks));
	}
	sink_text_add_mark(sink, &text, method->mark_kind, event->values);
	html->marks[html->mark_count++] =
		(struct html_mark){time_ns - (int64_t)(duration_ns < HTML_FAR_NS / 2 ? duration_ns : 0), duration_ns, place.lane,
	                           method->mark_kind, html_text(html, (struct slice){text.bytes, text.size})};
	if (time_ns > html->end_ns)
		html->end_ns = time_ns;
	buffer_free(&text);
}

static void on_thread(struct sink *sink, struct stream *stream, const struct thread_span *span)
{
	html_spans_add(html_of(sink), stream, span);
}

static void on_threads_lost(struct sink *sink, struct stream *stream, const struct threads_gap *gap)
{
	(void)stream;
	html_of(sink)->states_lost += gap->changes;
}

static void on_lost(struct sink *sink, struct stream *stream, const struct record_lost *lost)
{
	struct html *html = html_of(sink);
	int64_t from_ns = html_time(html, stream, lost->from_ns);

	if (html->gap_count == HTML_GAPS_MAX) {
		html->gaps_left++;
		return;
	}
	if (html->gap_count == html->gap_room) {
		html->gap_room = html->gap_room ? 2 * html->gap_room : 64;
		html->gaps = memory_resize(html->gaps, html->gap_room * sizeof(*html->gaps));
	}
	html->gaps[html->gap_count++] = (struct html_gap){from_ns, lost->to_ns > lost->from_ns ? lost->to_ns - lost->from_ns : 0,
	                                                  lost->calls, stream->pid};
}

static void on_forget(struct sink *sink, const struct fiber *fiber)
{
	html_lanes_forget(&html_of(sink)->lanes, fiber);
}

static void on_summary(struct sink *sink, const struct sink_summary *summary)
{
	struct html *html = html_of(sink);

	html->lost += summary->lost;
	html->left_out += summary->left_out;
	html->counted += summary->counted;
	html->other_ractors += summary->other_ractors;
	html->marks_lost += summary->marks_lost;
	html_lanes_let_go(&html->lanes, summary->pid);
}

static const struct sink_ops sink_html = {
	.name = "html",
	.size = sizeof(struct html_sink),
	.start = on_start,
	.end = on_end,
	.whole = on_whole,
	.mark = on_mark,
	.line = on_line,
	.open = on_open,
	.forget = on_forget,
	.described_anew = on_forget, /* it gets another lane, and the one that it has must not go on knowing it */
	.lost = on_lost,
	.thread = on_thread,
	.threads_lost = on_threads_lost,
	.summary = on_summary,
};

struct sink *html_sink(struct html *html, struct output *output, const struct sink_style *style)
{
	struct sink *sink = sink_new(&sink_html, output, style);

	((struct html_sink *)sink)->html = html;
	return sink;
}
