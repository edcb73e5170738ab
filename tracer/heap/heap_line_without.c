/* Where there is no simdjson, or no compiler for C++: heap report and heap leak refuse before. See heap_line.h. */

#ifndef HAVE_SIMDJSON

#include "tracer/heap/heap_line.h"

#include <errno.h>
#include <stddef.h>

struct heap_parser *heap_parser_new(void)
{
	return NULL;
}

void heap_parser_free(struct heap_parser *parser)
{
	(void)parser;
}

int heap_parser_line(struct heap_parser *parser, const char *bytes, size_t size, struct heap_line *line)
{
	(void)parser;
	(void)bytes;
	(void)size;
	(void)line;
	return -EINVAL;
}

#endif
