/* All that a process may send to `rbprobe stat`, up to the tables that are shown. */

#define _GNU_SOURCE
#include "records.h"

/* What it does with records is nobody else's. */
#include "tracer/commands/trace_target.c"

#include "tracer/commands/stat_sink.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *texts[] = {"String#x"};
	static struct selector selectors[1];
	static const char *sorts[] = {"total", "calls", "p99", "method", "cpu", "allocs"};
	static const struct sink_style style = {.many_pids = true};
	static int file = -1;
	struct lies lies = {data, size};
	uint8_t mode = lies_byte(&lies), more = lies_byte(&lies);
	struct output output = {.fd = lies_file(&file)};
	struct buffer written = {0};
	struct options options = {.quiet = true, .selectors = {.items = selectors, .texts = texts, .count = 1}};
	struct sink *sink = sink_new(&sink_stat, &output, &style);
	struct stat_sink *stat = (struct stat_sink *)sink;
	struct run run = {.options = &options, .output = &output, .sink = sink};
	struct trace_target traced = {.run = &run, .pid = 1, .output = &output, .sink = sink};
	struct attachment *attachment = &traced.attachment;
	struct error err;

	stat->view = (struct stat_view){.sort = sorts[more % 6],
	                                .top = mode & 4,
	                                .histogram = mode & 8,
	                                .calls_only = mode & 16,
	                                .by = mode & 1 ? "caller" : NULL,
	                                .by_title = "caller",
	                                .tree = more & 16,
	                                .rates = more & 32,
	                                .measures = more & 8 ? TRACE_CPU | TRACE_OBJECTS | TRACE_GC : 0};
	stat->format = (enum stat_format)((mode >> 5) % 3);
	stat->sum = mode & 0x80;
	attachment->target.pid = attachment->target.own_pid = 1;
	attachment->state = ATTACHMENT_CONNECTED;
	attachment->command_id = FUZZ_REQUEST;
	traced.stream = lies_stream(sink, &run.limit, &handlers, &traced);
	lies_tell(&lies, traced.stream, &err);
	sink->ops->round(sink);
	sink->ops->round(sink);
	calls_finish(traced.stream);
	trace_summary_say(&traced, "it is over", 1);
	stat_sink_end(stat);
	lies_file_read(file, &written);
	if (stat->format == STAT_JSON)
		must_be_json(&written);
	else
		must_be_harmless(&written);
	lies_end(traced.stream);
	sink_free(sink);
	free(traced.found);
	buffer_free(&output.buffer);
	buffer_free(&written);
	return 0;
}
