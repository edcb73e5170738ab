/* Names in recordings. See meant.h. */

#define _GNU_SOURCE
#include "tracer/recording/meant.h"

#include "proto/name_pattern.h"
#include "tracer/base/value.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

static bool is_file(struct slice file, struct slice wanted)
{
	const char *tail;

	if (file.size < wanted.size || !file.bytes)
		return false;
	tail = file.bytes + file.size - wanted.size;
	return memcmp(tail, wanted.bytes, wanted.size) == 0 && (tail == file.bytes || tail[-1] == '/' || *tail == '/');
}

bool method_is_meant(const struct selector *selector, const struct method *method)
{
	uint32_t line = selector_line(selector);
	struct slice pattern = selector->method_pattern;
	bool all = selector->class_pattern.size && pattern.size == 1 && *pattern.bytes == '*'; /* Order#*, as trace reads it */

	if (line)
		return method->is_line && method->line == (int32_t)line && is_file(method->file, selector->class_pattern);
	if (method->is_line || (selector->separator && selector->separator != method->separator))
		return false;
	if (selector->class_pattern.size &&
	    !name_glob(selector->class_pattern, method->class_name.bytes, method->class_name.size))
		return false;
	return all || name_pattern_is_met(pattern, method->method_name.bytes, method->method_name.size);
}

bool thread_is_meant(struct slice wanted, const struct fiber *fiber)
{
	char name[NAME_SIZE_MAX + 1];

	snprintf(name, sizeof(name), "%u", fiber->native_id);
	if (slice_is(wanted, name))
		return true;
	if (slice_is(wanted, "main") && fiber->native_id && fiber->native_id == fiber->stream->main_native_id)
		return true;
	snprintf(name, sizeof(name), "%.*s", (int)fiber->thread_name.size, fiber->thread_name.bytes);
	return fiber->thread_name.size && fnmatch(wanted.bytes, name, 0) == 0;
}

bool class_is_meant(struct slice wanted, struct slice class_name)
{
	char name[NAME_SIZE_MAX + 1];

	if (!wanted.size)
		return true;
	snprintf(name, sizeof(name), "%.*s", (int)class_name.size, class_name.bytes);
	return fnmatch(wanted.bytes, name, 0) == 0;
}

bool exception_is_meant(struct slice wanted, enum ending ending, struct values values)
{
	return ending == ENDING_RAISED && class_is_meant(wanted, values_get(values, 0));
}
