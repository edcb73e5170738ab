#ifndef RBPROBE_STRING_SLICE_H
#define RBPROBE_STRING_SLICE_H

#include "proto/limits.h"
#include "proto/slice.h"

#include <ruby.h>

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

/* Cut to what a name may have on the wire. */
static inline struct slice string_slice_of_name(VALUE string)
{
	struct slice slice = string_slice(string);

	if (slice.size > NAME_SIZE_MAX)
		slice.size = NAME_SIZE_MAX;
	return slice;
}

#endif
