/*
 * Any bytes as one line of a heap dump. One parser takes them all, as in a report. fuzz_heap_report tries whole dumps,
 * which is slower.
 */

#include "tracer/heap/heap_line.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile size_t read_through;

static void read_slice(struct slice slice)
{
	for (size_t i = 0; i < slice.size; i++)
		read_through += (unsigned char)slice.bytes[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct heap_parser *parser;
	struct heap_line line;
	char *bytes = malloc(size + HEAP_LINE_PADDING);

	if (!parser)
		parser = heap_parser_new();
	if (!bytes || !parser)
		abort();
	memset(bytes, '"', size + HEAP_LINE_PADDING);
	memcpy(bytes, data, size);
	if (heap_parser_line(parser, bytes, size, &line) == 0) {
		const struct slice *const slices[] = {&line.type,      &line.file,       &line.name,        &line.real_class_name,
		                                      &line.value,     &line.imemo_type, &line.struct_name, &line.root,
		                                      &line.references};

		for (size_t i = 0; i < sizeof(slices) / sizeof(*slices); i++)
			read_slice(*slices[i]);
	}
	free(bytes);
	return 0;
}
