/* All that a traced process may send to `rbprobe trace`, up to the lines that are shown. */

#define _GNU_SOURCE
#include "records.h"

/* What it does with records is nobody else's. */
#include "tracer/follower.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *texts[] = {"String#x", "Order#"};
	static const struct sink_style style = {.durations = true, .start_times = true, .many_pids = true, .indent = 3};
	struct lies lies = {data, size};
	uint8_t mode = lies_byte(&lies);
	bool json = mode & 1;
	struct output output = {.fd = -1};
	struct options options = {.quiet = true, .selectors = {.texts = texts, .count = 2}};
	struct sink *sink = sink_new(json ? &sink_json : &sink_text, &output, &style);
	struct run run = {.options = &options,
	                  .output = &output,
	                  .sink = sink,
	                  .process_count = 1,
	                  .limit = {.limited = mode & 2, .left = 3}};
	struct follower follower = {.run = &run, .pid = 1};
	struct session *session = &follower.session;
	struct error err;

	session->target.pid = session->target.own_pid = 1;
	session->state = SESSION_ASKED;
	session->request_id = FUZZ_REQUEST;
	follower.stream = lies_stream(sink, &run.limit, &handlers, &follower);
	lies_tell(&lies, follower.stream, &err);
	if (mode & 4 && sink->ops->quiet)
		sink->ops->quiet(sink);
	calls_finish(follower.stream);
	name_unmatched(&follower);
	summarise(&follower, "it is over");
	if (json)
		must_be_json(&output.buffer);
	else
		must_be_harmless(&output.buffer);
	lies_end(follower.stream);
	sink_free(sink);
	free(follower.found);
	buffer_free(&output.buffer);
	return 0;
}
