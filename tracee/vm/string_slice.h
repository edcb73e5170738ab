#ifndef RBPROBE_STRING_SLICE_H
#define RBPROBE_STRING_SLICE_H

#include "proto/limits.h"
#include "proto/slice.h"

#include <ruby.h>

#include <stdbool.h>
#include <string.h>

/*
 * The bytes of a Ruby String, as long as somebody keeps it (RB_GC_GUARD) and nobody changes it. Empty where it is no String.
 * Allocates nothing: also for a signal handler.
 */

static inline struct slice string_slice(VALUE string)
{
	if (RB_SPECIAL_CONST_P(string) || RB_BUILTIN_TYPE(string) != T_STRING)
		return (struct slice){"", 0};
	return (struct slice){RSTRING_PTR(string), (size_t)RSTRING_LEN(string)};
}

/* Whether both are Strings with the same bytes: `==` may be the application's. */
static inline bool string_same(VALUE one, VALUE other)
{
	return RB_TYPE_P(one, T_STRING) && RB_TYPE_P(other, T_STRING) && RSTRING_LEN(one) == RSTRING_LEN(other) &&
	       memcmp(RSTRING_PTR(one), RSTRING_PTR(other), (size_t)RSTRING_LEN(one)) == 0;
}

/* Whether it is the path of a method that is Ruby's own and written in Ruby. */
static inline bool string_is_internal_path(VALUE path)
{
	static const char internal[] = "<internal:";
	struct slice slice = string_slice(path);

	return slice.size >= sizeof(internal) - 1 && memcmp(slice.bytes, internal, sizeof(internal) - 1) == 0;
}

/* Cut to what a name may have on the wire. */
static inline struct slice string_slice_of_name(VALUE string)
{
	struct slice slice = string_slice(string);

	if (slice.size > NAME_SIZE_MAX)
		slice.size = NAME_SIZE_MAX;
	return slice;
}

#endif
