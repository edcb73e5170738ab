/* Adding up calls. See figures.h. on_end(), on_whole() and what they call are done for each call: keep them lean. */

#include "tracer/recording/ended.h"
#include "tracer/recording/figures_parts.h"
#include "tracer/recording/meant.h"
#include "tracer/recording/slowest.h"
#include "tracer/recording/texts.h"
#include "tracer/recording/waits.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct figures_sink {
	struct sink sink;
	struct figures *figures;
};

/* What is kept of an open call, in front of its values. */
struct kept_call {
	uint32_t row;   /* NO_ROW: it has none; folded: that of a call around it */
	uint32_t level; /* of calls around it that are in rows */
	bool folded;
	uint32_t values, values_size;
	uint64_t inside_ns; /* the time of calls inside it */
};

struct figures *figures_new(enum figures_by by, struct slowest *slowest)
{
	struct figures *figures = memory_zeroed(sizeof(*figures));

	figures->by = by;
	figures->slowest = slowest;
	return figures;
}

void figures_choose(struct figures *figures, const struct figures_choice *choice)
{
	figures->choice = *choice;
}

void figures_follow(struct figures *figures, struct waits *waits)
{
	figures->waits = waits;
}

void figures_free(struct figures *figures)
{
	if (!figures)
		return;
	for (uint32_t i = 0; i < figures->row_count; i++)
		for (uint32_t k = 0; k < HISTOGRAM_OCTAVES; k++)
			free(figures->rows[i].octaves[k]);
	buffer_free(&figures->values);
	words_free(&figures->words);
	recorded_free(&figures->processes);
	free(figures->rows);
	free(figures->places);
	free(figures);
}

/* --- Rows */

/* A number that is kept in a buffer of the stream's, once it is known. */
static uint32_t remembered(const struct buffer *prepared)
{
	uint32_t number;

	memcpy(&number, prepared->bytes, sizeof(number));
	return number;
}

static uint32_t remember(struct buffer *prepared, uint32_t number)
{
	buffer_add(prepared, (const char *)&number, sizeof(number));
	return number;
}

static bool is_full(const struct figures *figures)
{
	return figures->memory + figures->words.memory >= FIGURES_MEMORY_MAX;
}

/* NO_WORD: there is no room for it. */
static uint32_t word_of(struct figures *figures, struct slice text)
{
	return is_full(figures) ? words_find(&figures->words, text) : words_number(&figures->words, text);
}

static uint32_t method_word(struct figures *figures, struct method *method)
{
	return method->prepared.size ? remembered(&method->prepared)
	                             : remember(&method->prepared, word_of(figures, method->shown));
}

/* Whether calls of the method, and calls inside of them, are wanted: found once, and kept after the number of its name. */
static bool is_wanted(struct figures *figures, struct method *method, bool inside)
{
	const struct figures_choice *choice = &figures->choice;
	char wanted[2] = {0};

	method_word(figures, method);
	if (method->prepared.size == sizeof(uint32_t)) {
		for (uint32_t i = 0; i < choice->caller_count; i++)
			wanted[0] |= method_is_meant(&choice->callers[i], method);
		for (uint32_t i = 0; i < choice->callee_count; i++)
			wanted[1] |= method_is_meant(&choice->callees[i], method);
		buffer_add(&method->prepared, wanted, sizeof(wanted));
	}
	return method->prepared.bytes[sizeof(uint32_t) + inside];
}

static uint32_t thread_word(struct figures *figures, struct fiber *fiber)
{
	struct buffer text = {0};
	uint32_t number;

	if (fiber->prepared.size)
		return remembered(&fiber->prepared);
	texts_add_thread(&text, fiber);
	number = word_of(figures, (struct slice){text.bytes, text.size});
	buffer_free(&text);
	return remember(&fiber->prepared, number);
}

uint32_t figures_place(const struct figures *figures, uint32_t name, uint32_t around)
{
	uint64_t hash = ((uint64_t)around << 32 | name) * UINT64_C(0x9E3779B97F4A7C15);
	uint32_t mask = figures->place_count - 1, at = (uint32_t)(hash >> 32) & mask;

	while (figures->places[at]) {
		const struct row *row = &figures->rows[figures->places[at] - 1];

		if (row->name == name && row->around == around)
			break;
		at = (at + 1) & mask;
	}
	return at;
}

static void make_places(struct figures *figures)
{
	uint32_t count = figures->place_count ? 2 * figures->place_count : 256;

	free(figures->places);
	figures->places = memory_zeroed(count * sizeof(*figures->places));
	figures->memory += (count - figures->place_count) * sizeof(*figures->places);
	figures->place_count = count;
	for (uint32_t i = 0; i < figures->row_count; i++)
		figures->places[figures_place(figures, figures->rows[i].name, figures->rows[i].around)] = i + 1;
}

/* NO_ROW: there is no room for it. */
static uint32_t row_of(struct figures *figures, uint32_t name, uint32_t around)
{
	uint32_t at;

	if (name == NO_WORD || around == NO_WORD)
		return NO_ROW;
	if (2 * figures->row_count >= figures->place_count)
		make_places(figures);
	at = figures_place(figures, name, around);
	if (figures->places[at])
		return figures->places[at] - 1;
	if (is_full(figures) || (figures->by == FIGURES_BY_PATH && figures->row_count == FIGURES_PATHS_MAX))
		return NO_ROW;
	if (figures->row_count == figures->row_room) {
		figures->row_room = figures->row_room ? 2 * figures->row_room : 64;
		figures->rows = memory_resize(figures->rows, figures->row_room * sizeof(*figures->rows));
	}
	figures->rows[figures->row_count] = (struct row){.name = name, .around = around};
	figures->memory += sizeof(struct row);
	figures->places[at] = ++figures->row_count;
	return figures->row_count - 1;
}

static void add_to_histogram(struct figures *figures, struct row *row, uint64_t duration_ns)
{
	struct histogram_place place = histogram_place(duration_ns);
	uint64_t **octave = &row->octaves[place.octave];

	if (!*octave) {
		*octave = memory_zeroed(HISTOGRAM_PER_OCTAVE * sizeof(**octave));
		figures->memory += HISTOGRAM_PER_OCTAVE * sizeof(**octave);
	}
	(*octave)[place.bucket]++;
}

static void add_call(struct figures *figures, const struct kept_call *call, enum ending ending, uint64_t duration_ns)
{
	double ns = (double)duration_ns, before;
	struct row *row;

	if (call->row == NO_WANTED_ROW)
		return;
	if (call->row == NO_ROW) {
		figures->left++;
		return;
	}
	row = &figures->rows[call->row];
	if (call->folded) {
		row->folded++;
		return;
	}
	row->min_ns = !row->calls || ns < row->min_ns ? ns : row->min_ns;
	row->max_ns = ns > row->max_ns ? ns : row->max_ns;
	row->calls++;
	row->errors += ending == ENDING_RAISED;
	row->total_ns += ns;
	row->self_ns += duration_ns > call->inside_ns ? (double)(duration_ns - call->inside_ns) : 0;
	before = ns - row->spread.mean_ns;
	row->spread.mean_ns += before / (double)row->calls;
	row->spread.squares += before * (ns - row->spread.mean_ns);
	add_to_histogram(figures, row, duration_ns);
}

/* --- Calls */

static struct figures *figures_of(struct sink *sink)
{
	return ((struct figures_sink *)sink)->figures;
}

static struct kept_call kept_of(const struct fiber *fiber, uint32_t depth)
{
	struct kept_call kept = {.row = NO_ROW};

	if (depth)
		memcpy(&kept, fiber->kept.bytes + fiber->calls[depth - 1].kept, sizeof(kept));
	return kept;
}

static uint32_t caller_row(struct figures *figures, const struct fiber *fiber, struct method *method, uint32_t name)
{
	struct method *caller = fiber->depth ? fiber->calls[fiber->depth - 1].method : NULL;
	uint32_t word;

	if (!is_wanted(figures, method, false) && (!caller || !is_wanted(figures, caller, true)))
		return NO_WANTED_ROW;
	word = caller ? method_word(figures, caller) : 0;
	return word == NO_WORD ? NO_ROW : row_of(figures, name, caller ? word + 1 : 0);
}

/* In the fiber's open calls. */
static struct kept_call begin_call(struct figures *figures, struct fiber *fiber, struct method *method)
{
	uint32_t name = method_word(figures, method);
	struct kept_call around = kept_of(fiber, fiber->depth), call = {.level = around.level + 1};

	if (figures->by == FIGURES_BY_METHOD) {
		call.row = row_of(figures, name, 0);
	} else if (figures->by == FIGURES_BY_THREAD) {
		call.row = row_of(figures, name, thread_word(figures, fiber));
	} else if (figures->by == FIGURES_BY_CALLER) {
		call.row = caller_row(figures, fiber, method, name);
	} else {
		if (!around.folded && around.level < FIGURES_LEVELS_MAX && (!fiber->depth || around.row != NO_ROW))
			call.row = row_of(figures, name, fiber->depth ? around.row + 1 : 0);
		else
			call.row = NO_ROW;
		if (call.row == NO_ROW) {
			call.row = around.row;
			call.folded = true;
		}
	}
	return call;
}

/* Where in fiber->kept those begin that have ended inside the innermost open call. */
static size_t ended_from(const struct fiber *fiber)
{
	return fiber->depth
	               ? fiber->calls[fiber->depth - 1].kept + sizeof(struct kept_call) + kept_of(fiber, fiber->depth).values_size
	               : 0;
}

/* The time of one that is in no row is that of the one around it. Paths are of calls that were told when they began. */
static void end_call(struct figures *figures, struct fiber *fiber, struct kept_call *call, enum ending ending, uint64_t start_ns,
                     uint64_t duration_ns)
{
	uint64_t late_ns = figures->by == FIGURES_BY_PATH ? 0 : ended_take(&fiber->kept, ended_from(fiber), start_ns);
	struct kept_call around;

	call->inside_ns += late_ns;
	add_call(figures, call, ending, duration_ns);
	if (fiber->depth && !call->folded) {
		around = kept_of(fiber, fiber->depth);
		around.inside_ns += duration_ns - (late_ns < duration_ns ? late_ns : duration_ns);
		memcpy(fiber->kept.bytes + fiber->calls[fiber->depth - 1].kept, &around, sizeof(around));
	}
	if (figures->by != FIGURES_BY_PATH)
		ended_add(&fiber->kept, ended_from(fiber), start_ns, duration_ns);
}

static void on_start(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event)
{
	struct figures *figures = figures_of(sink);
	struct kept_call kept = begin_call(figures, fiber, call->method);

	kept.values = figures->slowest ? event->values.count : 0;
	kept.values_size = kept.values ? (uint32_t)(event->values.end - event->values.bytes) : 0;
	buffer_add(&fiber->kept, (const char *)&kept, sizeof(kept));
	if (kept.values)
		buffer_add(&fiber->kept, (const char *)event->values.bytes, kept.values_size);
}

static void on_end(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event, uint64_t duration_ns)
{
	struct figures *figures = figures_of(sink);
	struct kept_call kept = kept_of(fiber, fiber->depth + 1);

	if (figures->slowest && slowest_wants(figures->slowest, duration_ns)) {
		const uint8_t *bytes = (const uint8_t *)fiber->kept.bytes + call->kept + sizeof(kept);
		const struct values values = {bytes, bytes + kept.values_size, kept.values};

		slowest_add(figures->slowest, sink, fiber,
		            &(struct slow_call){call->method, call->start_ns, duration_ns, call->retries, event->ending, values,
		                                event->values});
	}
	fiber->kept.size = call->kept;
	if (figures->waits)
		waits_call(figures->waits, fiber, call->method, call->start_ns, duration_ns);
	end_call(figures, fiber, &kept, event->ending, call->start_ns, duration_ns);
}

static void on_whole(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event)
{
	struct figures *figures = figures_of(sink);
	struct kept_call call = begin_call(figures, fiber, method);

	if (figures->slowest && slowest_wants(figures->slowest, event->duration_ns))
		slowest_add(figures->slowest, sink, fiber,
		            &(struct slow_call){method, event->time_ns, event->duration_ns, 0, event->ending, event->values,
		                                event->outcome});
	if (figures->waits)
		waits_call(figures->waits, fiber, method, event->time_ns, event->duration_ns);
	end_call(figures, fiber, &call, event->ending, event->time_ns, event->duration_ns);
}

static void on_line(struct sink *sink, struct fiber *fiber, struct method *line, const struct event *event)
{
	(void)sink;
	(void)fiber;
	(void)line;
	(void)event;
}

/* Only counted, by the stream. */
static void on_mark(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event)
{
	(void)sink;
	(void)fiber;
	(void)method;
	(void)event;
}

static void on_thread(struct sink *sink, struct stream *stream, const struct thread_span *span)
{
	if (figures_of(sink)->waits)
		waits_span(figures_of(sink)->waits, stream, span);
}

static void on_threads_lost(struct sink *sink, struct stream *stream, const struct threads_gap *gap)
{
	(void)stream;
	if (figures_of(sink)->waits)
		waits_lost(figures_of(sink)->waits, gap->changes);
}

static void on_open(struct sink *sink, struct fiber *fiber, struct call *call)
{
	figures_of(sink)->open++;
	fiber->kept.size = call->kept;
}

static void on_summary(struct sink *sink, const struct sink_summary *summary)
{
	struct figures *figures = figures_of(sink);

	if (figures->waits)
		waits_end(figures->waits, summary->pid);
	recorded_add(&figures->processes, summary->pid, summary->duration_ns);
	figures->lost += summary->lost;
	figures->left_out += summary->left_out;
}

static const struct sink_ops sink_figures = {
	.name = "figures",
	.size = sizeof(struct figures_sink),
	.start = on_start,
	.end = on_end,
	.whole = on_whole,
	.mark = on_mark,
	.line = on_line,
	.thread = on_thread,
	.threads_lost = on_threads_lost,
	.open = on_open,
	.summary = on_summary,
};

struct sink *figures_sink(struct figures *figures, struct output *output, const struct sink_style *style)
{
	struct sink *sink = sink_new(&sink_figures, output, style);

	((struct figures_sink *)sink)->figures = figures;
	return sink;
}

uint64_t figures_left(const struct figures *figures)
{
	return figures->left;
}
