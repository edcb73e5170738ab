/*
 * Any bytes as heap dumps: one, or up to three with 0x1e between them; reported in all formats, with shapes and who holds what.
 * What follows the last 0x1d is whose holders are asked for: a class or an address.
 */

#define _GNU_SOURCE
#include "tracer/heap/heap_report.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const struct heap_format *const formats[] = {&heap_format_text, &heap_format_json, &heap_format_html};

static int file_with(const uint8_t *bytes, size_t size)
{
	int fd = memfd_create("dump", MFD_CLOEXEC);

	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
		abort();
	return fd;
}

static void show(struct heap_report *report)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++) {
		struct output output;

		if (output_open(&output, "/dev/null", false, NULL) < 0)
			abort();
		formats[i]->write(report, &output);
		output_close(&output);
	}
}

/* Takes it from the end of the bytes; NULL: none. For free(). */
static char *take_question(const uint8_t *bytes, size_t *size)
{
	const uint8_t *separator = memrchr(bytes, 0x1d, *size);
	char *question;

	if (!separator)
		return NULL;
	question = strndup((const char *)separator + 1, *size - (size_t)(separator + 1 - bytes));
	*size = (size_t)(separator - bytes);
	return question;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct heap_report report = {.top = 2, .dominators = true, .wants_shapes = true, .classes_with_paths = 2};
	char *question = take_question(bytes, &size);
	char paths[HEAP_DUMPS_MAX][32];
	int files[HEAP_DUMPS_MAX];
	struct error err;

	for (bool more = true; more && report.dump_count < HEAP_DUMPS_MAX; report.dump_count++) {
		const uint8_t *separator = memchr(bytes, 0x1e, size);
		size_t piece = separator ? (size_t)(separator - bytes) : size;
		int *file = &files[report.dump_count];

		*file = file_with(bytes, piece);
		snprintf(paths[report.dump_count], sizeof(paths[0]), "/proc/self/fd/%d", *file);
		report.paths[report.dump_count] = paths[report.dump_count];
		more = separator;
		bytes += piece + more;
		size -= piece + more;
	}
	report.leaks = report.dump_count > 1;
	if (question && *question)
		report.retainers = question;
	if (heap_report_make(&report, &err) == 0)
		show(&report);
	for (uint32_t i = 0; i < report.dump_count; i++)
		close(files[i]);
	heap_report_free(&report);
	free(question);
	return 0;
}
