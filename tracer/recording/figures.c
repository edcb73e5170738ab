/* Adding up calls. See figures.h. on_end(), on_whole() and what they call are done for each call: keep them lean. */

#include "tracer/recording/figures.h"

#include "proto/histogram.h"
#include "tracer/recording/ended.h"
#include "tracer/recording/recorded.h"
#include "tracer/recording/slowest.h"
#include "tracer/recording/words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NO_ROW UINT32_MAX

struct row {
	uint32_t name, around; /* numbers of words; by path, around is that row's number and 1 */
	uint64_t calls, errors, folded;
	double total_ns, self_ns, min_ns, max_ns;
	struct figure_spread spread;
	uint64_t *octaves[HISTOGRAM_OCTAVES]; /* NULL: no call in it */
};

struct figures {
	enum figures_by by;
	struct words words;
	struct row *rows;
	uint32_t row_count, row_room;
	uint32_t *places; /* an open hash of rows' numbers and 1; 0: free */
	uint32_t place_count;
	struct slowest *slowest;
	struct buffer values; /* of a call that ends */
	uint64_t memory;
	uint64_t left;
	struct recorded processes;
	uint64_t open, lost, left_out;
};

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

static uint32_t thread_word(struct figures *figures, struct fiber *fiber)
{
	struct buffer text = {0};
	uint32_t number;

	if (fiber->prepared.size)
		return remembered(&fiber->prepared);
	buffer_add_format(&text, "%" PRIu32, fiber->native_id);
	if (fiber->thread_name.size) {
		buffer_add_char(&text, ' ');
		buffer_add_printable(&text, fiber->thread_name.bytes, fiber->thread_name.size);
	}
	number = word_of(figures, (struct slice){text.bytes, text.size});
	buffer_free(&text);
	return remember(&fiber->prepared, number);
}

static uint32_t place_of(const struct figures *figures, uint32_t name, uint32_t around)
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
		figures->places[place_of(figures, figures->rows[i].name, figures->rows[i].around)] = i + 1;
}

/* NO_ROW: there is no room for it. */
static uint32_t row_of(struct figures *figures, uint32_t name, uint32_t around)
{
	uint32_t at;

	if (name == NO_WORD || around == NO_WORD)
		return NO_ROW;
	if (2 * figures->row_count >= figures->place_count)
		make_places(figures);
	at = place_of(figures, name, around);
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

/* In the fiber's open calls. */
static struct kept_call begin_call(struct figures *figures, struct fiber *fiber, struct method *method)
{
	uint32_t name = method_word(figures, method);
	struct kept_call around = kept_of(fiber, fiber->depth), call = {.level = around.level + 1};

	if (figures->by == FIGURES_BY_METHOD) {
		call.row = row_of(figures, name, 0);
	} else if (figures->by == FIGURES_BY_THREAD) {
		call.row = row_of(figures, name, thread_word(figures, fiber));
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

static void on_open(struct sink *sink, struct fiber *fiber, struct call *call)
{
	figures_of(sink)->open++;
	fiber->kept.size = call->kept;
}

static void on_lost(struct sink *sink, struct stream *stream, const struct record_lost *lost)
{
	(void)sink;
	(void)stream;
	(void)lost;
}

static void on_summary(struct sink *sink, const struct sink_summary *summary)
{
	struct figures *figures = figures_of(sink);

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
	.open = on_open,
	.lost = on_lost,
	.summary = on_summary,
};

struct sink *figures_sink(struct figures *figures, struct output *output, const struct sink_style *style)
{
	struct sink *sink = sink_new(&sink_figures, output, style);

	((struct figures_sink *)sink)->figures = figures;
	return sink;
}

/* --- The table */

static void add_key(const struct figures *figures, const struct row *row, struct buffer *key)
{
	if (figures->by == FIGURES_BY_THREAD)
		buffer_add_slice(key, figures->words.texts[row->around]);
	if (figures->by != FIGURES_BY_PATH)
		return;
	if (row->around) {
		add_key(figures, &figures->rows[row->around - 1], key);
		buffer_add_char(key, STAT_PATH_SEPARATOR);
	}
	buffer_add_slice(key, figures->words.texts[row->name]);
}

static void add_buckets(const struct row *row, struct stat_row *to)
{
	for (uint32_t octave = 0; octave < HISTOGRAM_OCTAVES; octave++)
		for (uint32_t i = 0; row->octaves[octave] && i < HISTOGRAM_PER_OCTAVE; i++) {
			uint32_t number = octave * HISTOGRAM_PER_OCTAVE + i;
			double least = (double)histogram_least(number);

			if (!row->octaves[octave][i])
				continue;
			to->buckets = memory_resize(to->buckets, (to->bucket_count + 1) * sizeof(*to->buckets));
			to->buckets[to->bucket_count++] = (struct stat_bucket){.number = number,
			                                                       .least_ns = least,
			                                                       .most_ns = least + (double)histogram_width(number),
			                                                       .count = row->octaves[octave][i]};
		}
}

struct stat_table figures_table(const struct figures *figures)
{
	struct stat_table table = {0}, one = {0};

	for (uint32_t i = 0; i < figures->row_count; i++) {
		const struct row *row = &figures->rows[i];
		struct buffer key = {0};
		struct stat_row *to;

		add_key(figures, row, &key);
		one.rows = memory_resize(one.rows, (one.count + 1) * sizeof(*one.rows));
		to = &one.rows[one.count++];
		*to = (struct stat_row){.name = figures->words.texts[row->name],
		                        .key = {key.bytes, key.size},
		                        .is_node = figures->by == FIGURES_BY_PATH,
		                        .calls = row->calls,
		                        .folded = row->folded,
		                        .timed = row->calls > 0,
		                        .errors = row->errors,
		                        .total_ns = row->total_ns,
		                        .self_ns = row->self_ns,
		                        .min_ns = row->min_ns,
		                        .max_ns = row->max_ns};
		add_buckets(row, to);
	}
	stat_table_sum(&table, &one);
	for (size_t i = 0; i < one.count; i++) {
		free((char *)one.rows[i].key.bytes);
		free(one.rows[i].buckets);
	}
	free(one.rows);
	table.pid = recorded_pid(&figures->processes);
	table.processes = recorded_count(&figures->processes);
	table.open = figures->open;
	table.lost = figures->lost;
	table.left_out = figures->left_out;
	table.elapsed_ns = figures->processes.longest_ns;
	stat_table_rate(&table);
	return table;
}

struct figure_spread figures_spread(const struct figures *figures, struct slice name, struct slice key)
{
	uint32_t number = words_find(&figures->words, name), around = 0, place;

	if (figures->by == FIGURES_BY_THREAD)
		around = words_find(&figures->words, key);
	if (number == NO_WORD || around == NO_WORD || !figures->place_count)
		return (struct figure_spread){0};
	place = figures->places[place_of(figures, number, around)];
	return place ? figures->rows[place - 1].spread : (struct figure_spread){0};
}

uint64_t figures_left(const struct figures *figures)
{
	return figures->left;
}
