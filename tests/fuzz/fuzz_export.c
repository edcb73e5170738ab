/* All that a lying recording may have, in each format of `rbprobe export`, and in what `rbprobe report` adds up. */

#define _GNU_SOURCE
#include "records.h"

#include "tracer/export/call_stacks.h"
#include "tracer/export/export.h"
#include "tracer/html/html.h"
#include "tracer/recording/figures.h"
#include "tracer/recording/slowest.h"
#include "tracer/recording/waits.h"
#include "tracer/stream/calls.h"

#include <jansson.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct sink_style style = {.flags = TRACE_CPU | TRACE_OBJECTS | TRACE_GC | TRACE_SPAN, .durations = true};
static int file = -1;

/* One session of it. */
static void tell(struct lies *lies, struct sink *sink)
{
	static const struct stream_handler nobody;
	struct stream *stream = lies_stream(sink, NULL, &nobody, NULL);
	struct error err;

	stream->wall_offset_ns = (int64_t)lies_number(lies);
	stream->main_native_id = (uint32_t)lies_number(lies);
	lies_tell(lies, stream, &err);
	calls_finish(stream);
	if (sink->ops->summary)
		sink->ops->summary(
			sink, &(struct sink_summary){.pid = 1, .lost = stream->lost, .marks = stream->marks, .reason = "over"});
	lies_end(stream);
}

static void is_one_value_of_json(const char *bytes, size_t size)
{
	json_error_t err;
	json_t *value = json_loadb(bytes, size, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &err);

	if (!value)
		__builtin_trap();
	json_decref(value);
}

/* Events as they come. */
static void as_events(struct lies *lies, const struct export_format *format)
{
	struct output output = {.fd = lies_file(&file)};
	struct sink *sink = sink_new(format->calls, &output, &style);
	struct buffer written = {0};

	tell(lies, sink);
	sink_free(sink);
	output_flush(&output);
	lies_file_read(file, &written);
	if (format == &export_chrome)
		is_one_value_of_json(written.bytes, written.size);
	buffer_free(&output.buffer);
	buffer_free(&written);
}

static void as_stacks(struct lies *lies, bool threads)
{
	struct output output = {.fd = lies_file(&file)};
	struct call_stacks *stacks = call_stacks_new();
	struct sink *sink = call_stacks_sink(stacks, &output, &style);
	struct profile_view view;

	tell(lies, sink);
	view = profile_view_make(call_stacks_profile(stacks), PROFILE_WALL, threads);
	for (size_t i = 0; export_formats[i]; i++) {
		struct output exported = {.fd = lies_file(&file)};
		struct buffer text = {0};

		if (export_formats[i]->profile)
			export_formats[i]->profile(&view, &exported);
		output_flush(&exported);
		lies_file_read(file, &text);
		if (export_formats[i] == &export_speedscope)
			is_one_value_of_json(text.bytes, text.size);
		else if (export_formats[i] != &export_pprof)
			must_be_harmless(&text);
		buffer_free(&exported.buffer);
		buffer_free(&text);
	}
	profile_view_free(&view);
	sink_free(sink);
	call_stacks_free(stacks);
	buffer_free(&output.buffer);
}

static void as_page(struct lies *lies)
{
	static const char begins[] = "<script type='application/json' id='about'>";
	struct output output = {.fd = lies_file(&file)};
	struct html *html = html_new(3);
	struct sink *sink = html_sink(html, &output, &style);
	struct buffer page = {0};
	const char *about, *end;

	tell(lies, sink);
	sink_free(sink);
	html_write(html, "fuzz", &page);
	about = (const char *)memmem(page.bytes, page.size, begins, strlen(begins)) + strlen(begins);
	end = memmem(about, page.size - (size_t)(about - page.bytes), "</script>", strlen("</script>"));
	is_one_value_of_json(about, (size_t)(end - about));
	html_free(html);
	buffer_free(&page);
	buffer_free(&output.buffer);
}

static void as_figures(struct lies *lies, enum figures_by by, bool json)
{
	struct output output = {.fd = lies_file(&file)};
	struct waits *waits = waits_new();
	struct slowest *slowest = slowest_new(3, json ? slowest_json : NULL, waits);
	struct figures *figures = figures_new(by, slowest);
	struct sink *sink;
	struct buffer text = {0};
	struct stat_table table;

	figures_follow(figures, waits);
	sink = figures_sink(figures, &output, &style);
	tell(lies, sink);
	sink_free(sink);
	table = figures_table(figures);
	stat_table_free(&table);
	slowest_show(slowest, &text);
	waits_table(waits, json, &text);
	if (json)
		must_be_json(&text);
	else
		must_be_harmless(&text);
	figures_free(figures);
	slowest_free(slowest);
	waits_free(waits);
	buffer_free(&text);
	buffer_free(&output.buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct lies lies = {data, size};
	uint8_t what = lies_byte(&lies);

	switch (what % 5) {
	case 0:
		as_events(&lies, &export_chrome);
		break;
	case 1:
		as_events(&lies, &export_perfetto);
		break;
	case 2:
		as_stacks(&lies, what & 0x80);
		break;
	case 3:
		as_page(&lies);
		break;
	default:
		as_figures(&lies,
		           what & 0x40   ? FIGURES_BY_PATH
		           : what & 0x20 ? FIGURES_BY_THREAD
		                         : FIGURES_BY_METHOD,
		           what & 0x80);
	}
	return 0;
}
