/* A recording as a page: what html_sink.c has kept of it, written. See html.h. */

#include "tracer/html/html_parts.h"

#include "proto/names.h"
#include "tracer/base/json.h"
#include "tracer/base/utf8.h"
#include "tracer/stream/measures.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct html *html_new(uint32_t calls_max)
{
	static const struct slice others = {"(others)", 8};
	struct html *html = memory_zeroed(sizeof(*html));

	html->calls.max = calls_max;
	html->slowest = slowest_new(HTML_SLOWEST, html_slow_call, NULL);
	html_tree_open(&html->tree);
	words_number(&html->texts, (struct slice){"", 0});
	words_number(&html->names, others);
	html->method_room = 64;
	html->methods = memory_zeroed(html->method_room * sizeof(*html->methods));
	return html;
}

void html_free(struct html *html)
{
	if (!html)
		return;
	for (uint32_t i = 0; i < html->method_room; i++)
		for (uint32_t k = 0; k < HISTOGRAM_OCTAVES; k++)
			free(html->methods[i].octaves[k]);
	free(html->methods);
	words_free(&html->texts);
	words_free(&html->names);
	html_tree_free(&html->tree);
	free(html->calls.items);
	free(html->lanes.threads);
	free(html->lanes.items);
	free(html->marks);
	free(html->gaps);
	free(html->spans);
	free(html->span_threads);
	words_free(&html->span_keys);
	words_free(&html->lanes.keys);
	slowest_free(html->slowest);
	buffer_free(&html->heads);
	buffer_free(&html->sessions);
	buffer_free(&html->notes);
	free(html);
}

static uint32_t word_of(struct words *words, struct slice text, uint32_t max)
{
	uint32_t word =
		words->memory < HTML_TEXTS_MAX && words->count < max ? words_number(words, text) : words_find(words, text);

	return word == NO_WORD ? OTHER_WORD : word;
}

uint32_t html_name(struct html *html, struct slice text)
{
	return word_of(&html->names, text, HTML_METHODS_MAX);
}

uint32_t html_text(struct html *html, struct slice text)
{
	return word_of(&html->texts, text, UINT32_MAX);
}

int64_t html_time(struct html *html, const struct stream *stream, uint64_t time_ns)
{
	int64_t wall_ns = (int64_t)(time_ns + (uint64_t)stream->wall_offset_ns);

	if (!html->has_base) {
		html->has_base = true;
		html->base_ns = wall_ns;
	}
	wall_ns = (int64_t)((uint64_t)wall_ns - (uint64_t)html->base_ns);
	return wall_ns < -HTML_FAR_NS ? -HTML_FAR_NS : wall_ns > HTML_FAR_NS ? HTML_FAR_NS : wall_ns;
}

int64_t html_end(int64_t start_ns, uint64_t duration_ns)
{
	return start_ns + (int64_t)(duration_ns < HTML_FAR_NS ? duration_ns : HTML_FAR_NS);
}

void html_add_shown(struct buffer *to, struct slice text)
{
	struct buffer shown = {0};
	size_t size = text.size;

	if (size > HTML_VALUE_MAX)
		for (size = HTML_VALUE_MAX; size && ((unsigned char)text.bytes[size] & 0xc0) == 0x80;)
			size--;
	buffer_add_printable(&shown, text.bytes, size);
	if (size < text.size)
		buffer_add_text(&shown, "...");
	json_add_text(to, (struct slice){shown.bytes, shown.size});
	buffer_free(&shown);
}

void html_note(struct html *html, const char *text)
{
	html_add_shown(&html->notes, (struct slice){text, strlen(text)});
}

static void add_head(struct buffer *to, const struct recording_head *head)
{
	json_open_object(to);
	html_add_shown(json_key(to, "host"), head->host);
	html_add_shown(json_key(to, "program"), head->program);
	json_member_uint(to, "began_ms", head->began_ns / 1000000);
	json_member_bool(to, "args", head->flags & TRACE_ARGUMENTS);
	json_member_bool(to, "results", head->flags & TRACE_RESULT);
	json_member_bool(to, "slow", head->slow);
	json_open_array(json_key(to, "selectors"));
	for (uint32_t i = 0; i < head->selector_count && i < 100; i++)
		html_add_shown(to, head->selectors[i]);
	json_close_array(to);
	json_member_uint(to, "selector_count", head->selector_count);
	json_close_object(to);
}

void html_note_part(struct html *html, const struct recording_item *item)
{
	struct buffer *to = &html->sessions;

	if (item->part == RECORDING_HEAD)
		add_head(&html->heads, &item->head);
	if (item->part != RECORDING_SESSION)
		return;
	json_open_object(to);
	json_member_uint(to, "pid", item->session.pid);
	html_add_shown(json_key(to, "ruby"), item->session.ruby_version);
	html_add_shown(json_key(to, "command"), item->session.command);
	json_member_bool(to, "continued", item->session.continued);
	json_close_object(to);
}

/* --- Slow calls */

static void add_values(struct buffer *to, const char *key, const struct labels *labels, struct values values)
{
	struct slice text;

	json_open_array(json_key(to, key));
	for (uint32_t i = 0; values_next(&values, &text); i++) {
		if (!text.bytes)
			continue;
		json_open_array(to);
		html_add_shown(to, i < labels->count ? labels->names[i] : (struct slice){"", 0});
		html_add_shown(to, text);
		json_close_array(to);
	}
	json_close_array(to);
}

void html_slow_call(struct buffer *to, const struct sink *sink, const struct fiber *fiber, const struct slow_call *call)
{
	struct values texts = call->outcome, locals;
	struct measures measures = measures_take(&texts, sink->style.flags);
	struct fiber_place place = {0};

	if (fiber->prepared.size == sizeof(place))
		memcpy(&place, fiber->prepared.bytes, sizeof(place));
	json_open_object(to);
	html_add_shown(json_key(to, "method"), call->method->shown);
	json_member_uint(to, "thread", place.thread);
	json_member_uint(to, "lane", place.lane);
	/* Of its own clock: no browser has such numbers exactly, which are therefore texts. */
	buffer_add_format(json_key(to, "start"), "\"%" PRId64 "\"",
	                  (int64_t)(call->start_ns + (uint64_t)fiber->stream->wall_offset_ns));
	json_member_uint(to, "duration", call->duration_ns);
	json_member_string(to, "ended", ending_name(call->ending));
	if (call->retries)
		json_member_uint(to, "retries", call->retries);
	add_values(to, "args", &call->method->labels, call->values);
	if (values_take_array(&texts, &locals))
		add_values(to, "locals", &call->method->locals, locals);
	if (texts.count)
		html_add_shown(json_key(to, call->ending == ENDING_RAISED ? "exception" : "result"), values_get(texts, 0));
	if (texts.count > 1 && call->ending == ENDING_RAISED)
		html_add_shown(json_key(to, "message"), values_get(texts, 1));
	measures_add_json(to, &measures);
	json_close_object(to);
	buffer_add_char(to, '\n');
}

/* --- The page */

/* The middle of the bucket that has it, but not beyond what was seen. */
static uint64_t quantile(const struct html_method *method, double part)
{
	uint64_t wanted = (uint64_t)(part * (double)method->calls), found = 0;

	for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
		const uint64_t *octave = method->octaves[bucket / HISTOGRAM_PER_OCTAVE];
		uint64_t middle;

		found += octave ? octave[bucket % HISTOGRAM_PER_OCTAVE] : 0;
		if (found <= wanted && found < method->calls)
			continue;
		middle = histogram_least(bucket) + histogram_width(bucket) / 2;
		middle = middle < method->min_ns ? method->min_ns : middle;
		return middle > method->max_ns ? method->max_ns : middle;
	}
	return method->max_ns;
}

static void add_methods(const struct html *html, struct buffer *to)
{
	json_open_array(json_key(to, "methods"));
	for (uint32_t i = 0; i < html->names.count; i++) {
		static const struct html_method none;
		const struct html_method *method = i < html->method_room ? &html->methods[i] : &none;

		json_open_array(to);
		html_add_shown(to, html->names.texts[i]);
		html_add_shown(to, html->texts.texts[method->file]);
		json_add_int(to, method->line);
		json_add_uint(to, method->min_ns);
		json_add_uint(to, method->max_ns);
		json_add_uint(to, quantile(method, 0.5));
		json_add_uint(to, quantile(method, 0.99));
		json_close_array(to);
	}
	json_close_array(to);
}

static void add_threads(const struct html *html, struct buffer *to)
{
	json_open_array(json_key(to, "threads"));
	for (uint32_t i = 0; i < html->lanes.thread_count; i++) {
		const struct html_thread *thread = &html->lanes.threads[i];

		json_open_object(to);
		html_add_shown(json_key(to, "name"), html->texts.texts[thread->name]);
		json_member_int(to, "pid", thread->pid);
		json_member_uint(to, "id", thread->native_id);
		json_member_bool(to, "main", thread->main);
		json_close_object(to);
	}
	json_close_array(to);
	json_open_array(json_key(to, "lanes"));
	for (uint32_t i = 0; i < html->lanes.count; i++) {
		json_open_array(to);
		json_add_uint(to, html->lanes.items[i].thread);
		json_add_uint(to, html->lanes.items[i].number);
		json_close_array(to);
	}
	json_close_array(to);
}

static void add_counts(const struct html *html, struct buffer *to)
{
	const struct {
		const char *name;
		uint64_t count;
	} counts[] = {
		{"calls", html->calls_seen},
		{"shown_calls", html->calls.count},
		{"left_longest", html->calls.left_longest},
		{"lines", html->lines_seen},
		{"lost", html->lost},
		{"left_out", html->left_out},
		{"counted", html->counted},
		{"other_ractors", html->other_ractors},
		{"marks_left", html->marks_left},
		{"marks_lost", html->marks_lost},
		{"gaps_left", html->gaps_left},
		{"open", html->open},
		{"folded", html->tree.folded},
		{"crowded", html->lanes.crowded},
		{"spans_left", html->spans_left},
		{"states_lost", html->states_lost},
		{"states_sampled_hz", html->states_rate_hz},
		{"levels_max", HTML_LEVELS_MAX},
		{"slowest_max", HTML_SLOWEST},
	};

	json_open_object(json_key(to, "counts"));
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
		json_member_uint(to, counts[i].name, counts[i].count);
	json_close_object(to);
}

static void add_array(struct buffer *to, const char *key, const struct buffer *elements)
{
	json_open_array(json_key(to, key));
	json_add_members(to, elements);
	json_close_array(to);
}

static void add_slowest(struct html *html, struct buffer *to)
{
	struct buffer lines = {0};

	slowest_show(html->slowest, &lines);
	for (size_t i = 0; i + 1 < lines.size; i++)
		if (lines.bytes[i] == '\n')
			lines.bytes[i] = ',';
	lines.size -= lines.size > 0;
	add_array(to, "slowest", &lines);
	buffer_free(&lines);
}

/* The earliest time of all: others are given as time since then. */
static int64_t origin_of(const struct html *html)
{
	int64_t origin = INT64_MAX;

	for (size_t i = 0; i < html->calls.count; i++)
		origin = html->calls.items[i].start_ns < origin ? html->calls.items[i].start_ns : origin;
	for (uint32_t i = 0; i < html->mark_count; i++)
		origin = html->marks[i].from_ns < origin ? html->marks[i].from_ns : origin;
	for (uint32_t i = 0; i < html->span_count; i++)
		origin = html->spans[i].from_ns < origin ? html->spans[i].from_ns : origin;
	for (uint32_t i = 0; i < html->gap_count; i++)
		origin = html->gaps[i].from_ns < origin ? html->gaps[i].from_ns : origin;
	return origin == INT64_MAX ? 0 : origin;
}

/* Of each lane how many, and then all: the start since the one before it in the lane, ... */
static void add_calls(const struct html *html, int64_t origin, struct html_columns *columns)
{
	const struct html_calls *calls = &html->calls;
	uint64_t *counts = memory_zeroed((html->lanes.count + 1) * sizeof(*counts));
	struct column column = html_column(columns, "lane_calls");

	for (size_t i = 0; i < calls->count; i++)
		counts[calls->items[i].lane]++;
	for (uint32_t i = 0; i < html->lanes.count; i++)
		html_column_add(&column, counts[i]);
	html_column_end(&column);
	free(counts);
	column = html_column(columns, "call_start");
	for (size_t i = 0; i < calls->count; i++) {
		bool first = !i || calls->items[i].lane != calls->items[i - 1].lane;

		html_column_add(&column,
		                (uint64_t)calls->items[i].start_ns - (uint64_t)(first ? origin : calls->items[i - 1].start_ns));
	}
	html_column_end(&column);
	column = html_column(columns, "call_duration");
	for (size_t i = 0; i < calls->count; i++)
		html_column_add(&column, calls->items[i].duration_ns);
	html_column_end(&column);
	column = html_column(columns, "call_name");
	for (size_t i = 0; i < calls->count; i++)
		html_column_add(&column, (uint64_t)calls->items[i].name << 2 | calls->items[i].ended);
	html_column_end(&column);
}

static void add_marks(const struct html *html, int64_t origin, struct html_columns *columns, struct buffer *about)
{
	struct column column = html_column(columns, "marks");

	for (uint32_t i = 0; i < html->mark_count; i++) {
		html_column_add(&column, (uint64_t)(html->marks[i].from_ns - origin));
		html_column_add(&column, html->marks[i].duration_ns);
		html_column_add(&column, html->marks[i].lane);
		html_column_add(&column, html->marks[i].kind);
		html_column_add(&column, html->marks[i].text);
	}
	html_column_end(&column);
	json_open_array(json_key(about, "texts"));
	for (uint32_t i = 0; i < html->texts.count; i++)
		html_add_shown(about, html->mark_count ? html->texts.texts[i] : (struct slice){"", 0});
	json_close_array(about);
	json_open_array(json_key(about, "mark_kinds"));
	for (uint32_t kind = 0; kind < MARK_COUNT; kind++)
		json_add_string(about, mark_form(kind) ? mark_form(kind)->name : "");
	json_close_array(about);
	json_open_array(json_key(about, "gaps"));
	for (uint32_t i = 0; i < html->gap_count; i++) {
		json_open_array(about);
		json_add_uint(about, (uint64_t)(html->gaps[i].from_ns - origin));
		json_add_uint(about, html->gaps[i].duration_ns);
		json_add_uint(about, html->gaps[i].calls);
		json_add_int(about, html->gaps[i].pid);
		json_close_array(about);
	}
	json_close_array(about);
}

/* What was told late is put where it belongs, of the calls that are there. */
static void settle_tree(struct html *html)
{
	if (!html->late)
		return;
	html_tree_free(&html->tree);
	html_tree_open(&html->tree);
	html_calls_tree(&html->calls, &html->lanes, &html->tree);
}

void html_write(struct html *html, const char *name, struct buffer *to)
{
	struct html_columns columns = {0};
	struct buffer about = {0};
	int64_t origin;

	html_calls_sort(&html->calls);
	settle_tree(html);
	html_spans_settle(html);
	origin = origin_of(html);
	json_open_object(&about);
	json_member_string(&about, "kind", "recording");
	json_member_string(&about, "version", RBPROBE_VERSION);
	html_add_shown(json_key(&about, "file"), (struct slice){name, strlen(name)});
	/* ns since 1970 are more than a browser's numbers have digits for. */
	buffer_add_format(json_key(&about, "origin"), "\"%" PRId64 "\"", (int64_t)((uint64_t)html->base_ns + (uint64_t)origin));
	json_member_uint(&about, "span", html->end_ns > origin ? (uint64_t)(html->end_ns - origin) : 0);
	json_member_bool(&about, "late", html->late);
	add_array(&about, "heads", &html->heads);
	add_array(&about, "sessions", &html->sessions);
	add_array(&about, "notes", &html->notes);
	add_methods(html, &about);
	add_threads(html, &about);
	add_counts(html, &about);
	add_slowest(html, &about);
	html_columns_tree(&columns, "", &html->tree);
	add_calls(html, origin, &columns);
	add_marks(html, origin, &columns, &about);
	html_spans_write(html, origin, &columns);
	html_page(&columns, &about, to);
	buffer_free(&about);
}
