#ifndef RBPROBE_TESTS_BUFFER_FIXTURE_H
#define RBPROBE_TESTS_BUFFER_FIXTURE_H

#include "unit.h"

#include "tracer/base/buffer.h"

/* A buffer for the tests of one program, and what was added to it. */

static struct buffer buffer;

static int buffer_teardown(void **state)
{
	(void)state;
	buffer_free(&buffer);
	memset(&buffer, 0, sizeof(buffer));
	return 0;
}

/* The buffer holds that and nothing else; then it is empty. */
static inline void assert_added(const char *expected)
{
	buffer_add_char(&buffer, '\0');
	assert_string_equal(buffer.bytes, expected);
	assert_int_equal(buffer.size, strlen(expected) + 1);
	buffer.size = 0;
}

#endif
