/* All that a traced process may send to `rbprobe trace`, up to the lines that are shown. */

#define _GNU_SOURCE
#include "records.h"

/* What it does with records is nobody else's. */
#include "tracer/commands/trace_target.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *texts[] = {"String#x", "Order#"};
	static struct selector selectors[2];
	struct lies lies = {data, size};
	uint8_t mode = lies_byte(&lies);
	const struct sink_style style = {.durations = true,
	                                 .start_times = true,
	                                 .many_pids = true,
	                                 .indent = 3,
	                                 .flags = (mode & 8 ? TRACE_CPU : 0) |
	                                          (mode & 16 ? TRACE_OBJECTS | TRACE_GC | TRACE_SPAN : 0)};
	bool json = mode & 1;
	struct output output = {.fd = -1};
	struct options options = {
		.quiet = true, .trace.marks.kinds = mode & 0x2e, .selectors = {.items = selectors, .texts = texts, .count = 2}};
	struct sink *sink = sink_new(json ? &sink_json : &sink_text, &output, &style);
	struct run run = {.options = &options, .output = &output, .sink = sink, .limit = {.limited = mode & 2, .left = 3}};
	struct trace_target traced = {.run = &run, .pid = 1, .output = &output, .sink = sink};
	struct attachment *attachment = &traced.attachment;
	struct error err;

	attachment->target.pid = attachment->target.own_pid = 1;
	attachment->state = ATTACHMENT_CONNECTED;
	attachment->command_id = FUZZ_REQUEST;
	traced.stream = lies_stream(sink, &run.limit, &handlers, &traced);
	lies_tell(&lies, traced.stream, &err);
	if (mode & 4 && sink->ops->quiet)
		sink->ops->quiet(sink);
	calls_finish(traced.stream);
	trace_unmatched_at_end(&traced);
	trace_summary_say(&traced, "it is over", 1);
	if (json)
		must_be_json(&output.buffer);
	else
		must_be_harmless(&output.buffer);
	lies_end(traced.stream);
	sink_free(sink);
	free(traced.found);
	buffer_free(&output.buffer);
	return 0;
}
