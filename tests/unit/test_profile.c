/* What samples add up to, whatever the process says, and how it is exported. */

#include "proto/fields.h"
#include "tracer/export/export.h"
#include "tracer/profile/profile_text.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#if defined(HAVE_LIBPROTOBUF_C) && defined(HAVE_ZLIB)
#include <tracer/export/pprof.pb-c.h>
#include <zlib.h>
#endif

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

/* Half a microsecond is one; what is less has no line. */
static void stacks_too_short_for_a_line_are_counted(void **state)
{
	static const uint64_t ns[] = {1, 499, 500};
	struct output output = {.fd = -1};
	struct profile_view view;
	struct export_left left;

	(void)state;
	profile_thread_number(profile, &(struct profile_thread){.id = 1}, 10);
	for (size_t i = 0; i < sizeof(ns) / sizeof(*ns); i++) {
		const char name = (char)('a' + i);
		uint32_t function = profile_function_number(profile, (struct slice){&name, 1}, SLICE(""), 0);

		profile_sum_add(profile, 0, profile_node_number(profile, 0, function, 0, UINT32_MAX))->weights[PROFILE_WALL] =
			ns[i];
	}
	view = profile_view_make(profile, PROFILE_WALL, false);
	left = export_collapsed.profile(&view, &output);
	buffer_add_char(&output.buffer, '\0');
	assert_string_equal(output.buffer.bytes, "c 1\n");
	assert_int_equal(left.small, 2);
	assert_int_equal(left.small_ns, 500);
	assert_int_equal(left.flood, 0);
	buffer_free(&output.buffer);
	profile_view_free(&view);
}

static void assert_collapsed(const char *expected, enum profile_weight weight, bool threads)
{
	struct profile_view view = profile_view_make(profile, weight, threads);
	struct output output = {.fd = -1};

	assert_int_equal(export_collapsed.profile(&view, &output).flood, 0);
	buffer_add_char(&output.buffer, '\0');
	assert_string_equal(output.buffer.bytes, expected);
	buffer_free(&output.buffer);
	profile_view_free(&view);
}

/* In the table, too, and it is no garbage collection. */
static void what_has_no_frames_is_in_every_sum(void **state)
{
	static const int64_t sums[] = {1, 0, 1, 30 * MS, 0}, idle[] = {1, 0, 10 * MS};
	const struct profile_style style = {.weight = PROFILE_WALL, .top = 20};
	struct buffer text = {0};
	struct error err;

	(void)state;
	add_frames();
	add_sums();
	msgpack_pack_map(&packer, 2);
	numbers("sums", sums, sizeof(sums) / sizeof(*sums));
	numbers("idle", idle, sizeof(idle) / sizeof(*idle));
	assert_int_equal(add(&err), 0);
	assert_collapsed("<main>;Order#save 10000\n"
	                 "<main>;Order#save;String#: 30000\n"
	                 "<main>;Order#save;Order#save 10000\n"
	                 "(no frames) 30000\n",
	                 PROFILE_WALL, false);
	profile_text(profile, &style, &text);
	buffer_add_char(&text, '\0');
	assert_non_null(strstr(text.bytes, "(no frames)\n"));
	assert_non_null(strstr(text.bytes, "  of all threads' time: running 87.5 %, idle 12.5 %"));
	buffer_free(&text);
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

#if defined(HAVE_LIBPROTOBUF_C) && defined(HAVE_ZLIB)
/* What pprof reads: the kinds of its numbers, and their sums; and how many stacks there are. */
static void assert_pprof(const char *expected, enum profile_weight weight)
{
	static uint8_t plain[1 << 16];
	struct profile_view view = profile_view_make(profile, weight, false);
	struct output packed_by_gzip = {.fd = -1};
	struct buffer text = {0};
	z_stream stream = {.next_out = plain, .avail_out = sizeof(plain)};
	Perftools__Profiles__Profile *read;

	export_pprof.profile(&view, &packed_by_gzip);
	stream.next_in = (uint8_t *)packed_by_gzip.buffer.bytes;
	stream.avail_in = (unsigned)packed_by_gzip.buffer.size;
	assert_int_equal(inflateInit2(&stream, 16 + MAX_WBITS), Z_OK);
	assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
	read = perftools__profiles__profile__unpack(NULL, stream.total_out, plain);
	assert_non_null(read);
	for (size_t i = 0; i < read->n_sample_type; i++) {
		int64_t sum = 0;

		for (size_t k = 0; k < read->n_sample; k++)
			sum += read->sample[k]->value[i];
		buffer_add_format(&text, "%s %lld, ", read->string_table[read->sample_type[i]->type], (long long)sum);
	}
	buffer_add_format(&text, "in %zu; by %s", read->n_sample, read->string_table[read->default_sample_type]);
	buffer_add_char(&text, '\0');
	assert_string_equal(text.bytes, expected);
	perftools__profiles__profile__free_unpacked(read, NULL);
	inflateEnd(&stream);
	buffer_free(&packed_by_gzip.buffer);
	buffer_free(&text);
	profile_view_free(&view);
}

static void pprof_has_the_time_that_was_asked_for(void **state)
{
	struct error err;

	(void)state;
	add_frames();
	add_sums();
	msgpack_pack_map(&packer, 2);
	numbers("idle", (const int64_t[]){1, 4, 10 * MS, 1, 3, 10 * MS}, 6);
	numbers("gvl", (const int64_t[]){1, 4, 1, 7 * MS, 2 * MS}, 5);
	assert_int_equal(add(&err), 0);
	profile_settle(profile);
	assert_pprof("samples 6, gvl_waited 7000000, gvl_held 2000000, in 3; by gvl_waited", PROFILE_WAITED);
	assert_pprof("samples 6, gvl_waited 7000000, gvl_held 2000000, in 3; by gvl_held", PROFILE_HELD);
	assert_pprof("samples 6, wall 50000000, cpu 30000000, in 3; by wall", PROFILE_WALL);
	assert_pprof("samples 6, wall 50000000, cpu 30000000, in 3; by cpu", PROFILE_CPU);
	/* One of its stacks did nothing but wait. */
	assert_pprof("samples 5, wall 30000000, cpu 30000000, in 2; by wall", PROFILE_BUSY);
}
#endif

/* XML has no U+FFFE, as it has no controls. */
static void a_flame_graph_has_characters_of_xml_alone(void **state)
{
	struct profile_view view;
	struct output output = {.fd = -1};
	uint32_t function = profile_function_number(profile, SLICE("a\xef\xbf\xbe<\x01"), SLICE(""), 0);

	(void)state;
	profile_thread_number(profile, &(struct profile_thread){.id = 1}, 10);
	profile_sum_add(profile, 0, profile_node_number(profile, 0, function, 0, UINT32_MAX))->weights[PROFILE_WALL] = MS;
	view = profile_view_make(profile, PROFILE_WALL, false);
	export_svg.profile(&view, &output);
	buffer_add_char(&output.buffer, '\0');
	assert_non_null(strstr(output.buffer.bytes, "<title>a\\xef\\xbf\\xbe&lt;\\x01 ("));
	buffer_free(&output.buffer);
	profile_view_free(&view);
}

/* Each line has all names: a thousand nodes are 8 GB. */
static void deep_stacks_of_long_names_are_no_flood(void **state)
{
	static const char name[4096];
	struct output output = {.fd = open("/dev/null", O_WRONLY | O_CLOEXEC)};
	struct profile_view view;
	uint32_t node = 0, function = profile_function_number(profile, (struct slice){name, sizeof(name)}, SLICE(""), 0);

	(void)state;
	profile_thread_number(profile, &(struct profile_thread){.id = 1}, 10);
	for (int i = 0; i < 1000; i++) {
		node = profile_node_number(profile, node, function, 0, UINT32_MAX);
		profile_sum_add(profile, 0, node)->weights[PROFILE_WALL] = MS;
	}
	view = profile_view_make(profile, PROFILE_WALL, false);
	assert_in_range(export_collapsed.profile(&view, &output).flood, 500, 999);
	assert_in_range(output.flushed + output.buffer.size, OUTPUT_FREE, OUTPUT_FREE + (8u << 20));
	assert_in_range(output.buffer.capacity, 1, 16u << 20);
	buffer_free(&output.buffer);
	profile_view_free(&view);
}

/* As many as this take minutes where anything is looked through for each. */
static void each_of_many_threads_has_its_own_stacks(void **state)
{
	const uint32_t threads = 200000, function = profile_function_number(profile, SLICE("f"), SLICE(""), 0);
	uint32_t number = 0, outer = profile_node_number(profile, 0, function, 0, UINT32_MAX);
	uint32_t inner = profile_node_number(profile, outer, function, 1, UINT32_MAX);
	struct output output = {.fd = -1};
	struct profile_view view;

	(void)state;
	for (uint32_t i = 0; i < threads; i++) {
		assert_int_equal(profile_thread_number(profile, &(struct profile_thread){.id = i + 1}, threads), i);
		profile_sum_add(profile, i, i % 2 ? outer : inner)->weights[PROFILE_WALL] = threads - i;
	}
	view = profile_view_make(profile, PROFILE_WALL, true);
	export_speedscope.profile(&view, &output);
	buffer_add_char(&output.buffer, '\0');
	/* Not by strstr(): AddressSanitizer's looks at all that follows, each time. */
	for (const char *at = output.buffer.bytes; *at; at++) {
		if (*at != 's' || memcmp(at, "samples\":", 9) != 0)
			continue;
		if (memcmp(at + 9, number % 2 ? "[[0]]" : "[[0,0]]", number % 2 ? 5 : 7) != 0)
			fail_msg("thread %u: %.40s", number, at);
		number++;
	}
	assert_int_equal(number, threads);
	buffer_free(&output.buffer);
	profile_view_free(&view);
}

static void levels_that_the_tree_does_not_show_are_said(void **state)
{
	const struct profile_style style = {.top = 1, .weight = PROFILE_WALL};
	uint32_t node = 0;

	(void)state;
	profile_thread_number(profile, &(struct profile_thread){.id = 1}, 10);
	for (int levels = 0; levels < 2; levels++) {
		struct buffer text = {0};
		const char *said;

		for (int i = 0; i < 60 - 59 * levels; i++)
			node = profile_node_number(profile, node, profile_function_number(profile, SLICE("deep"), SLICE(""), i),
			                           0, UINT32_MAX);
		profile_sum_add(profile, 0, node)->weights[PROFILE_WALL] = MS;
		profile_text(profile, &style, &text);
		buffer_add_char(&text, '\0');
		said = strstr(text.bytes, "levels below the first 60 are left out; exports have them\n");
		assert_true(levels ? said != NULL : said == NULL);
		buffer_free(&text);
	}
}

/* A server that makes a thread for each request makes a million in an hour. */
static void threads_may_be_many(void **state)
{
	const struct profile_style style = {.top = 1};
	static const int64_t sums[] = {1000000, 4, 3, 30 * MS, 20 * MS};
	struct buffer text = {0};
	struct error err;

	(void)state;
	add_frames();
	msgpack_pack_map(&packer, 2);
	word("threads");
	msgpack_pack_array(&packer, 1);
	msgpack_pack_map(&packer, 2);
	word("thread");
	msgpack_pack_int(&packer, 1000000);
	word("name");
	word("the last one");
	numbers("sums", sums, sizeof(sums) / sizeof(*sums));
	assert_int_equal(add(&err), 0);
	profile_json(profile, &style, &text);
	buffer_add_char(&text, '\0');
	assert_non_null(strstr(text.bytes, "\"thread\":999999,\"name\":\"the last one\",\"main\":false,\"wall\":0.030000,"));
	buffer_free(&text);
}

/* A file may have thousands of processes, each of which says that it has many threads. */
static void all_of_it_takes_bounded_memory(void **state)
{
	struct error err;

	(void)state;
	profile->memory_max = 1u << 20;
	for (int i = 0; i < 2; i++) {
		msgpack_pack_map(&packer, 1);
		word("threads");
		msgpack_pack_array(&packer, 1);
		msgpack_pack_map(&packer, 1);
		word("thread");
		msgpack_pack_int(&packer, 1 << 18);
		assert_int_equal(add(&err), i ? -ENOMEM : 0);
	}
	assert_string_equal(err.text, "the profile of process 7 and others takes more than 1 MiB");
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
		cmocka_unit_test_setup_teardown(what_has_no_frames_is_in_every_sum, setup, teardown),
		cmocka_unit_test_setup_teardown(frames_of_one_method_at_several_lines_are_one, setup, teardown),
		cmocka_unit_test_setup_teardown(what_comes_again_is_added, setup, teardown),
		cmocka_unit_test_setup_teardown(samples_of_cpu_time_are_brought_to_the_clock, setup, teardown),
		cmocka_unit_test_setup_teardown(a_method_that_calls_itself_counts_once, setup, teardown),
		cmocka_unit_test_setup_teardown(the_text_has_methods_threads_and_a_tree, setup, teardown),
		cmocka_unit_test_setup_teardown(objects_are_of_their_class_and_of_who_makes_them, setup, teardown),
		cmocka_unit_test_setup_teardown(numbers_that_stand_for_nothing_are_refused, setup, teardown),
#if defined(HAVE_LIBPROTOBUF_C) && defined(HAVE_ZLIB)
		cmocka_unit_test_setup_teardown(pprof_has_the_time_that_was_asked_for, setup, teardown),
#endif
		cmocka_unit_test_setup_teardown(a_flame_graph_has_characters_of_xml_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(stacks_too_short_for_a_line_are_counted, setup, teardown),
		cmocka_unit_test_setup_teardown(deep_stacks_of_long_names_are_no_flood, setup, teardown),
		cmocka_unit_test_setup_teardown(each_of_many_threads_has_its_own_stacks, setup, teardown),
		cmocka_unit_test_setup_teardown(levels_that_the_tree_does_not_show_are_said, setup, teardown),
		cmocka_unit_test_setup_teardown(threads_may_be_many, setup, teardown),
		cmocka_unit_test_setup_teardown(all_of_it_takes_bounded_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(without_samples_there_is_nothing, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
