/* What threads did, on a page. See html_parts.h. */

#include "tracer/html/html_parts.h"

#include "tracer/stream/thread_states.h"

#include <string.h>

static struct slice key_of(const uint32_t key[2])
{
	return (struct slice){(const char *)key, 2 * sizeof(*key)};
}

/* Those without a native id are few, and ended at once: one for all. */
static uint32_t name_of(struct html *html, const struct stream *stream, uint32_t native_id)
{
	struct buffer name = {0};
	uint32_t text;

	if (native_id)
		thread_states_add_name(stream, native_id, &name);
	else
		buffer_add_text(&name, "threads without a native id");
	text = html_text(html, (struct slice){name.bytes, name.size});
	buffer_free(&name);
	return text;
}

static uint32_t number_of(struct html *html, const struct stream *stream, const struct thread_span *span)
{
	/* No native id has the highest bit. */
	const uint32_t key[] = {(uint32_t)stream->pid, span->shared ? 1u << 31 | span->number : span->native_id};
	uint32_t known = html->span_keys.count, number = words_number(&html->span_keys, key_of(key));

	if (number >= html->span_thread_room) {
		html->span_thread_room = 2 * number + 16;
		html->span_threads = memory_resize(html->span_threads, html->span_thread_room * sizeof(*html->span_threads));
	}
	if (number == known)
		html->span_threads[number] = (struct html_span_thread){.pid = stream->pid, .native_id = span->native_id};
	if (number == known || span->first)
		html->span_threads[number].name = name_of(html, stream, span->native_id);
	return number;
}

void html_spans_add(struct html *html, const struct stream *stream, const struct thread_span *span)
{
	int64_t from_ns = html_time(html, stream, span->from_ns), to_ns = html_time(html, stream, span->to_ns);

	html->states_rate_hz = stream->states_rate_hz;
	if (html->span_count == HTML_SPANS_MAX) {
		html->spans_left++;
		return;
	}
	if (html->span_count == html->span_room) {
		html->span_room = html->span_room ? 2 * html->span_room : 1024;
		html->spans = memory_resize(html->spans, html->span_room * sizeof(*html->spans));
	}
	html->spans[html->span_count++] = (struct html_span){from_ns, to_ns > from_ns ? (uint64_t)(to_ns - from_ns) : 0,
	                                                     number_of(html, stream, span), span->doing};
	if (to_ns > html->end_ns)
		html->end_ns = to_ns;
}

void html_spans_settle(struct html *html)
{
	struct lanes *lanes = &html->lanes;

	/* Where several threads have had an id one after the other, it is the last. */
	for (uint32_t i = 0; i < lanes->thread_count; i++) {
		const uint32_t key[] = {(uint32_t)lanes->threads[i].pid, lanes->threads[i].native_id};
		uint32_t number = words_find(&html->span_keys, key_of(key));

		if (number != NO_WORD)
			html->span_threads[number].thread = i + 1;
	}
	for (uint32_t i = 0; i < html->span_keys.count; i++) {
		struct html_span_thread *of = &html->span_threads[i];

		if (!of->thread && lanes->thread_count < HTML_THREADS_MAX)
			of->thread = 1 + html_lanes_thread(lanes, &(struct html_thread){.pid = of->pid,
			                                                                .native_id = of->native_id,
			                                                                .name = of->name});
	}
	for (uint32_t i = 0; i < html->span_count; i++)
		html->spans_left += !html->span_threads[html->spans[i].of].thread;
}

void html_spans_write(struct html *html, int64_t origin, struct html_columns *columns)
{
	struct column column = html_column(columns, "spans");

	for (uint32_t i = 0; i < html->span_count; i++) {
		const struct html_span *span = &html->spans[i];
		uint64_t thread = html->span_threads[span->of].thread;

		if (!thread)
			continue;
		html_column_add(&column, (uint64_t)(span->from_ns - origin));
		html_column_add(&column, span->duration_ns);
		html_column_add(&column, (thread - 1) * THREAD_DOINGS + span->doing);
	}
	html_column_end(&column);
}
