/*
 * Answers: maps and arrays whose sizes come last are the same bytes as those whose sizes are known, and what failed
 * stays failed.
 */

#include "proto/fields.h"
#include "tracee/base/msgpack_builder.h"
#include "unit.h"

#include <msgpack.h>

static struct msgpack_builder answer;
static msgpack_sbuffer expected;
static msgpack_packer packer;

static int setup(void **state)
{
	(void)state;
	builder_init(&answer);
	msgpack_sbuffer_init(&expected);
	msgpack_packer_init(&packer, &expected, msgpack_sbuffer_write);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	builder_free(&answer);
	msgpack_sbuffer_destroy(&expected);
	return 0;
}

static void text(const char *string)
{
	pack_text(&packer, string, strlen(string));
}

static void assert_as_expected(void)
{
	assert_false(answer.failed);
	assert_int_equal(answer.depth, 0);
	assert_int_equal(answer.buffer.size, expected.size);
	assert_memory_equal(answer.buffer.data, expected.data, expected.size);
}

static void every_kind_of_value(void **state)
{
	(void)state;
	builder_map(&answer, NULL);
	builder_uint(&answer, "uint", UINT64_MAX);
	builder_int(&answer, "int", -5);
	builder_double(&answer, "double", 0.5);
	builder_bool(&answer, "true", true);
	builder_bool(&answer, "false", false);
	builder_nil(&answer, "nil");
	builder_text(&answer, "text", "a\0b", 3);
	builder_key(&answer, "k\0y", 3);
	builder_cstr(&answer, NULL, "cstr");
	builder_end(&answer);

	msgpack_pack_map(&packer, 8);
	text("uint");
	msgpack_pack_uint64(&packer, UINT64_MAX);
	text("int");
	msgpack_pack_int64(&packer, -5);
	text("double");
	msgpack_pack_double(&packer, 0.5);
	text("true");
	msgpack_pack_true(&packer);
	text("false");
	msgpack_pack_false(&packer);
	text("nil");
	msgpack_pack_nil(&packer);
	text("text");
	pack_text(&packer, "a\0b", 3);
	pack_text(&packer, "k\0y", 3);
	text("cstr");
	assert_as_expected();
}

/* A header has one byte up to 15 elements, three up to 65535, else five. */
static void as_many_elements_as_there_are(void **state)
{
	static const uint32_t counts[] = {0, 1, 15, 16, 65535, 65536};

	(void)state;
	builder_map(&answer, NULL);
	msgpack_pack_map(&packer, sizeof(counts) / sizeof(*counts));
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		builder_array(&answer, "list");
		text("list");
		msgpack_pack_array(&packer, counts[i]);
		for (uint32_t k = 0; k < counts[i]; k++) {
			builder_map(&answer, NULL);
			builder_uint(&answer, "k", k);
			builder_end(&answer);
			msgpack_pack_map(&packer, 1);
			text("k");
			msgpack_pack_uint64(&packer, k);
		}
		builder_end(&answer);
	}
	builder_end(&answer);
	assert_as_expected();
}

static void nested_too_deep(void **state)
{
	unsigned levels = 20;

	(void)state;
	for (unsigned i = 0; i < levels; i++)
		builder_array(&answer, NULL);
	builder_uint(&answer, NULL, 1);
	for (unsigned i = 0; i < levels; i++)
		builder_end(&answer);
	assert_true(answer.failed);

	builder_clear(&answer);
	builder_array(&answer, NULL);
	builder_end(&answer);
	msgpack_pack_array(&packer, 0);
	assert_as_expected();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(every_kind_of_value),
		TEST(as_many_elements_as_there_are),
		TEST(nested_too_deep),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
