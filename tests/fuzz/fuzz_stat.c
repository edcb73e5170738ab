/* All that a process may send to `rbprobe stat`, up to the tables that are shown. */

#define _GNU_SOURCE
#include "records.h"

/* What it does with records is nobody else's. */
#include "tracer/commands/trace_target.c"

#include "tracer/commands/stat_sink.h"

#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A file in memory, as each table is written at once; empty. */
static int file(void)
{
	static int fd = -1;

	if (fd < 0)
		fd = memfd_create("fuzz_stat", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 0) != 0 || lseek(fd, 0, SEEK_SET) != 0)
		__builtin_trap();
	return fd;
}

static void read_back(int fd, struct buffer *to)
{
	ssize_t got;

	while ((got = pread(fd, buffer_reserve(to, 65536), 65536, (off_t)to->size)) > 0)
		to->size += (size_t)got;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *texts[] = {"String#x"};
	static struct selector selectors[1];
	static const char *sorts[] = {"total", "calls", "p99", "method", "cpu", "allocs"};
	static const struct sink_style style = {.many_pids = true};
	struct lies lies = {data, size};
	uint8_t mode = lies_byte(&lies), more = lies_byte(&lies);
	struct output output = {.fd = file()};
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
	read_back(output.fd, &written);
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
