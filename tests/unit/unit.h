#ifndef RBPROBE_TESTS_UNIT_H
#define RBPROBE_TESTS_UNIT_H

/* What every unit test includes: cmocka and the headers that it wants in front of it. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/error.h"
#include "proto/slice.h"

/* A string literal as a slice. */
#define SLICE(literal)                                                                                                           \
	(struct slice)                                                                                                           \
	{                                                                                                                        \
		literal, sizeof(literal) - 1                                                                                     \
	}

static inline void assert_slice(struct slice actual, const char *expected)
{
	assert_int_equal(actual.size, strlen(expected));
	assert_memory_equal(actual.bytes, expected, actual.size);
}

/* The error is this code, and its sentence contains this. */
static inline void assert_error(const struct error *err, int code, const char *part)
{
	assert_int_equal(err->code, code);
	if (!strstr(err->text, part))
		fail_msg("the error says \"%s\", which does not contain \"%s\"", err->text, part);
}

#endif
