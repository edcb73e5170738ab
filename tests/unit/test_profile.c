/* What samples add up to, whatever the process says, and how it is exported. */

#include "proto/fields.h"
#include "tracer/export/export.h"
#include "tracer/profile/profile_text.h"
#include "unit.h"

#include <errno.h>
#include <stdlib.h>

#define MS UINT64_C(1000000)

static struct profile *profile;
static msgpack_sbuffer packed;
static msgpack_packer packer;

static int setup(void **state)
{
	(void)state;
	profile = profile_new();
	profile->rate_hz = 100;
	msgpack_sbuffer_init(&packed);
	msgpack_packer_init(&packer, &packed, msgpack_sbuffer_write);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	profile_free(profile);
	msgpack_sbuffer_destroy(&packed);
	return 0;
}

static void word(const char *text)
{
	pack_text(&packer, text, strlen(text));
}

static void numbers(const char *key, const int64_t *values, size_t count)
{
	word(key);
	msgpack_pack_array(&packer, count);
	for (size_t i = 0; i < count; i++)
		msgpack_pack_int64(&packer, values[i]);
}

static int add(struct error *err)
{
	msgpack_unpacked unpacked;
	int status;

	msgpack_unpacked_init(&unpacked);
	assert_int_equal(msgpack_unpack_next(&unpacked, packed.data, packed.size, NULL), MSGPACK_UNPACK_SUCCESS);
	status = profile_add(profile, profile_process(profile, 7, 0), &unpacked.data, err);
	msgpack_unpacked_destroy(&unpacked);
	msgpack_sbuffer_clear(&packed);
	return status;
}

static void function(const char *label, const char *path, int line)
{
	word(label);
	word(path);
	msgpack_pack_int(&packer, line);
}

/* main calls Order#save at line 3 and at line 4, which calls String#; (sic) and itself. */
static void add_frames(void)
{
	static const int64_t stacks[] = {0, 1, 1, 1, 2, 3, 1, 2, 4, 2, 3, 0, 3, 2, 4};
	struct error err;

	msgpack_pack_map(&packer, 3);
	word("threads");
	msgpack_pack_array(&packer, 1);
	msgpack_pack_map(&packer, 2);
	word("thread");
	msgpack_pack_int(&packer, 1);
	word("main");
	msgpack_pack_true(&packer);
	word("functions");
	msgpack_pack_array(&packer, 9);
	function("<main>", "shop.rb", 0);
	function("Order#save", "order.rb", 2);
	function("String#;", "", 0);
	numbers("stacks", stacks, sizeof(stacks) / sizeof(*stacks));
	assert_int_equal(add(&err), 0);
}

static void add_sums(void)
{
	static const int64_t sums[] = {1, 4, 3, 30 * MS, 20 * MS, 1, 3, 1, 10 * MS, 0, 1, 5, 1, 10 * MS, 10 * MS};
	struct error err;

	msgpack_pack_map(&packer, 1);
	numbers("sums", sums, sizeof(sums) / sizeof(*sums));
	assert_int_equal(add(&err), 0);
}

static void assert_collapsed(const char *expected, enum profile_weight weight, bool threads)
{
	struct profile_view view = profile_view_make(profile, weight, threads);
	struct buffer text = {0};

	export_collapsed.profile(&view, &text);
	buffer_add_char(&text, '\0');
	assert_string_equal(text.bytes, expected);
	buffer_free(&text);
	profile_view_free(&view);
}

static void frames_of_one_method_at_several_lines_are_one(void **state)
{
	(void)state;
	add_frames();
	add_sums();
	assert_collapsed("<main>;Order#save 10000\n"
	                 "<main>;Order#save;String#: 30000\n"
	                 "<main>;Order#save;Order#save 10000\n",
	                 PROFILE_WALL, false);
}

static void what_comes_again_is_added(void **state)
{
	(void)state;
	add_frames();
	add_sums();
	add_sums();
	assert_collapsed("main;<main>;Order#save;String#: 40000\n"
	                 "main;<main>;Order#save;Order#save 20000\n",
	                 PROFILE_CPU, true);
}

static void samples_of_cpu_time_are_brought_to_the_clock(void **state)
{
	static const int64_t clocks[] = {1, 15 * MS};
	struct error err;

	(void)state;
	add_frames();
	add_sums();
	msgpack_pack_map(&packer, 1);
	numbers("clocks", clocks, 2);
	assert_int_equal(add(&err), 0);
	profile_settle(profile);
	assert_collapsed("<main>;Order#save;String#: 10000\n"
	                 "<main>;Order#save;Order#save 5000\n",
	                 PROFILE_CPU, false);
}

static void a_method_that_calls_itself_counts_once(void **state)
{
	struct profile_view view;

	(void)state;
	add_frames();
	add_sums();
	view = profile_view_make(profile, PROFILE_WALL, false);
	assert_int_equal(view.total, 50 * MS);
	assert_int_equal(view.functions[1].total, 50 * MS);
	assert_int_equal(view.functions[1].self, 20 * MS);
	assert_int_equal(view.functions[1].self_other, 10 * MS);
	profile_view_free(&view);
}

static void the_text_has_methods_threads_and_a_tree(void **state)
{
	const struct profile_style style = {.top = 2};
	struct buffer text = {0};

	(void)state;
	add_frames();
	add_sums();
	profile_text(profile, &style, &text);
	buffer_add_char(&text, '\0');
	assert_non_null(strstr(text.bytes, "   0.030s  60.0%  60.0%    0.020s  String#; [C]\n"
	                                   "   0.020s  40.0% 100.0%    0.010s  Order#save order.rb:2\n"
	                                   "                                    1 more; --top N shows more\n"));
	assert_non_null(strstr(text.bytes, "   0.050s    0.030s  40.0%  main\n"));
	assert_non_null(strstr(text.bytes, "100.0%   0.0%  <main> shop.rb\n"
	                                   "100.0%  20.0%   Order#save order.rb:2\n"
	                                   " 60.0%  60.0%    String#; [C]\n"
	                                   " 20.0%  20.0%    Order#save order.rb:2\n"));
	buffer_free(&text);
}

static void objects_are_of_their_class_and_of_who_makes_them(void **state)
{
	const struct profile_style style = {.top = 3, .weight = PROFILE_BYTES};
	struct buffer text = {0};
	struct error err;

	(void)state;
	add_frames();
	msgpack_pack_map(&packer, 3);
	word("functions");
	msgpack_pack_array(&packer, 3);
	function("String", "(objects)", 0);
	numbers("stacks", (const int64_t[]){2, 4, 0}, 3); /* number 6 */
	numbers("objects", (const int64_t[]){1, 6, 2, 32, 40960}, 5);
	assert_int_equal(add(&err), 0);
	assert_int_equal(profile_weight_usual(profile), PROFILE_BYTES);
	assert_collapsed("<main>;Order#save;String 40960\n", PROFILE_BYTES, false);
	assert_collapsed("<main>;Order#save;String 32\n", PROFILE_OBJECTS, false);
	profile_text(profile, &style, &text);
	buffer_add_char(&text, '\0');
	assert_non_null(strstr(text.bytes, "  40.0KiB 100.0% 100.0%        32  Order#save order.rb:2\n"
	                                   "  40.0KiB 100.0% 100.0%        32  String (made)\n"));
	assert_non_null(strstr(text.bytes, "    BYTES   OBJECTS  THREAD\n  40.0KiB        32  main\n"));
	buffer_free(&text);
}

static void assert_refused(const char *key, const int64_t *values, size_t count)
{
	struct error err;

	msgpack_pack_map(&packer, 1);
	numbers(key, values, count);
	assert_int_equal(add(&err), -EPROTO);
	assert_string_equal(err.text, "process 7 sends a profile that is none");
}

static void numbers_that_stand_for_nothing_are_refused(void **state)
{
	static const int64_t no_function[] = {0, 9, 1}, no_parent[] = {9, 1, 1}, no_thread[] = {2, 1, 1, 1, 1},
			     no_stack[] = {1, 77, 1, 1, 1};

	(void)state;
	add_frames();
	assert_refused("stacks", no_function, 3);
	assert_refused("stacks", no_parent, 3);
	assert_refused("stacks", no_parent, 2);
	assert_refused("sums", no_thread, 5);
	assert_refused("sums", no_stack, 5);
	assert_refused("functions", no_stack, 1);
}

static void without_samples_there_is_nothing(void **state)
{
	const struct profile_style style = {.top = 2};
	struct buffer text = {0};

	(void)state;
	assert_collapsed("", PROFILE_WALL, true);
	profile_text(profile, &style, &text);
	buffer_add_char(&text, '\0');
	assert_string_equal(text.bytes, "nothing was sampled\n");
	buffer_free(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(frames_of_one_method_at_several_lines_are_one, setup, teardown),
		cmocka_unit_test_setup_teardown(what_comes_again_is_added, setup, teardown),
		cmocka_unit_test_setup_teardown(samples_of_cpu_time_are_brought_to_the_clock, setup, teardown),
		cmocka_unit_test_setup_teardown(a_method_that_calls_itself_counts_once, setup, teardown),
		cmocka_unit_test_setup_teardown(the_text_has_methods_threads_and_a_tree, setup, teardown),
		cmocka_unit_test_setup_teardown(objects_are_of_their_class_and_of_who_makes_them, setup, teardown),
		cmocka_unit_test_setup_teardown(numbers_that_stand_for_nothing_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(without_samples_there_is_nothing, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
