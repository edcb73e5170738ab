/* Calls, tree and columns of a page; text in it. */

#define _GNU_SOURCE

#include "tracer/html/html_parts.h"
#include "tracer/stream/decode.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

static struct html_call call(int64_t start_ns, uint64_t duration_ns, uint32_t name)
{
	return (struct html_call){.start_ns = start_ns, .duration_ns = duration_ns, .name = name};
}

static void test_the_longest_calls_are_kept(void **state)
{
	struct html_calls calls = {.max = 100};

	(void)state;
	for (uint32_t i = 0; i < 1000; i++) {
		struct html_call one = call(i, 1000 * (i * 7919u % 1000u) + 1, 0);

		html_calls_add(&calls, &one);
	}
	html_calls_sort(&calls);
	assert_int_equal(calls.count, 100);
	assert_int_equal(calls.left, 900);
	/* As well as buckets tell: within 1/32. */
	assert_in_range(calls.left_longest, 880 * 1000, 930 * 1000);
	for (size_t i = 0; i < calls.count; i++)
		assert_true(calls.items[i].duration_ns > calls.left_longest * 31 / 32);
	for (size_t i = 1; i < calls.count; i++)
		assert_true(calls.items[i].start_ns > calls.items[i - 1].start_ns);
	free(calls.items);
}

static void test_calls_of_one_length_are_kept_as_well(void **state)
{
	struct html_calls calls = {.max = 10};

	(void)state;
	for (uint32_t i = 0; i < 1000; i++) {
		struct html_call one = call(i, 5, 0);

		html_calls_add(&calls, &one);
	}
	html_calls_sort(&calls);
	assert_int_equal(calls.count, 10);
	assert_int_equal(calls.left, 990);
	assert_int_equal(calls.left_longest, 5);
	free(calls.items);
}

static void test_times_say_what_is_inside(void **state)
{
	struct html_lane lane = {.thread = 3};
	struct lanes lanes = {.items = &lane, .count = 1};
	struct html_calls calls = {.max = 10};
	struct html_tree tree = {0};
	/* As they ended: inner ones first. The last begins when the one before it ends. */
	const struct html_call told[] = {call(12, 3, 2), call(10, 10, 1), call(20, 10, 1)};

	(void)state;
	for (size_t i = 0; i < 3; i++)
		html_calls_add(&calls, &told[i]);
	html_calls_sort(&calls);
	html_tree_open(&tree);
	html_calls_tree(&calls, &lanes, &tree);
	assert_int_equal(tree.count, 4); /* all, the thread, the outer and the inner call */
	assert_int_equal(tree.nodes[1].name, 3);
	assert_int_equal(tree.nodes[2].parent, 1);
	assert_int_equal(tree.nodes[2].calls, 2);
	assert_int_equal(tree.nodes[2].total_ns, 20);
	assert_int_equal(tree.nodes[2].self_ns, 17);
	assert_int_equal(tree.nodes[3].parent, 2);
	assert_int_equal(tree.nodes[3].self_ns, 3);
	html_tree_free(&tree);
	free(calls.items);
}

static void test_a_tree_has_limits(void **state)
{
	struct html_tree tree = {0};
	uint32_t node = 0, last = 0;

	(void)state;
	html_tree_open(&tree);
	for (uint32_t i = 0; i < HTML_LEVELS_MAX; i++)
		last = node = html_tree_node(&tree, node, 1);
	assert_int_not_equal(last, UINT32_MAX);
	assert_int_equal(html_tree_node(&tree, last, 1), UINT32_MAX);
	for (uint32_t i = 0; i < HTML_NODES_MAX; i++)
		node = html_tree_node(&tree, 0, i);
	assert_int_equal(node, UINT32_MAX);
	assert_int_equal(tree.count, HTML_NODES_MAX);
	assert_int_equal(html_tree_node(&tree, 0, 1), 1);
	html_tree_free(&tree);
}

static void test_columns(void **state)
{
	struct html_columns columns = {0};
	struct column column = html_column(&columns, "numbers");

	(void)state;
	html_column_add(&column, 0);
	html_column_add(&column, 127);
	html_column_add(&column, 300);
	html_column_add(&column, UINT64_MAX);
	html_column_end(&column);
	assert_int_equal(columns.bytes.size, 1 + 1 + 2 + 10);
	assert_memory_equal(columns.bytes.bytes, "\x00\x7f\xac\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 14);
	assert_memory_equal(columns.names.bytes, "[\"numbers\",14]", columns.names.size);
	buffer_free(&columns.bytes);
	buffer_free(&columns.names);
}

static void add_fiber(msgpack_sbuffer *records, uint32_t ref, const char *name)
{
	const struct record record = {.kind = RECORD_FIBER,
	                              .fiber = {.ref = ref,
	                                        .thread_id = 5,
	                                        .native_id = 9,
	                                        .thread_name = {name, strlen(name)},
	                                        .created_at = SLICE("")}};

	record_encode(records, &record);
}

static void add_whole_call(msgpack_sbuffer *records, uint32_t fiber)
{
	struct batch batch;

	batch_begin(&batch, records, 1000);
	assert_true(
		batch_add(&batch, &(struct batch_event){.kind = EVENT_CALL, .fiber = fiber, .time_ns = 1000, .duration_ns = 1}));
	batch_end(&batch);
}

/* It may be described anew, under the name of another thread or the same, before it is gone. */
static void test_a_lane_knows_no_fiber_that_is_gone(void **state)
{
	static const struct stream_handler nobody;
	static const struct sink_style style;
	const struct record method = {
		.kind = RECORD_METHOD,
		.method = {.class_name = SLICE("A"), .separator = '#', .method_name = SLICE("b"), .engine = ENGINE_TARGET}};
	const struct record gone = {.kind = RECORD_FIBER_GONE, .fiber_gone = {.ref = 3}};
	struct output output = {.fd = -1};
	struct html *html = html_new(10);
	struct sink *sink = html_sink(html, &output, &style);
	struct stream *stream = stream_new(7, sink, NULL, &nobody, NULL);
	msgpack_sbuffer records;
	struct error err;

	(void)state;
	msgpack_sbuffer_init(&records);
	record_encode(&records, &method);
	add_fiber(&records, 3, "");
	add_whole_call(&records, 3);
	add_fiber(&records, 3, "worker");
	add_whole_call(&records, 3);
	add_fiber(&records, 3, "worker");
	record_encode(&records, &gone);
	assert_int_equal(stream_feed(stream, records.data, records.size, &err), 0);
	assert_int_equal(html->lanes.thread_count, 2);
	for (uint32_t i = 0; i < html->lanes.count; i++)
		assert_null(html->lanes.items[i].owner);
	stream_free(stream);
	sink_free(sink);
	html_free(html);
	msgpack_sbuffer_destroy(&records);
}

/* No text ends the script that it is in, nor is it one. */
static void test_texts_in_a_page(void **state)
{
	struct buffer page = {0};
	struct html *html = html_new(10);
	const char *name = "</script><!--\xe2\x80\xae\x1b\xff";
	const char *at;

	(void)state;
	html_note(html, name);
	html_write(html, name, &page);
	buffer_add_char(&page, '\0');
	assert_null(strstr(page.bytes, "</script><!--"));
	assert_non_null(strstr(page.bytes, "\\u003c/script>\\u003c!--\\\\xe2\\\\x80\\\\xae\\\\x1b\\\\xff"));
	/* Its program, whose hash the policy names, and the two texts. */
	at = page.bytes;
	for (int i = 0; i < 3; i++) {
		at = strstr(at, "</script>");
		assert_non_null(at);
		at++;
	}
	assert_null(strstr(at, "</script>"));
	assert_non_null(strstr(page.bytes, "default-src 'none'"));
	assert_null(strstr(page.bytes, "@SCRIPT"));
	buffer_free(&page);
	html_free(html);
}

static void test_long_texts_end_between_characters(void **state)
{
	struct buffer shown = {0}, text = {0};

	(void)state;
	for (uint32_t i = 0; i < HTML_VALUE_MAX; i++)
		buffer_add_text(&text, "\xc3\xbc");
	buffer_add_text(&text, "x");
	html_add_shown(&shown, (struct slice){text.bytes + 1, text.size - 1});
	assert_int_equal(shown.bytes[shown.size - 2], '.');
	assert_null(memmem(shown.bytes + 8, shown.size - 8, "\\x", 2));
	buffer_free(&shown);
	buffer_free(&text);
}

static void test_times_that_cannot_be_can_be_subtracted(void **state)
{
	static const uint64_t times[] = {UINT64_MAX, INT64_MAX, UINT64_C(1) << 63, 1000, 0};
	const struct stream stream = {.wall_offset_ns = INT64_MIN};
	struct html *html = memory_zeroed(sizeof(*html));

	(void)state;
	assert_int_equal(html_time(html, &stream, 5000), 0);
	assert_int_equal(html_time(html, &stream, 5001), 1);
	for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++) {
		int64_t time_ns = html_time(html, &stream, times[i]), end_ns = html_end(time_ns, times[i]);

		assert_in_set(time_ns < 0 ? -time_ns : time_ns, ((const uintmax_t[]){HTML_FAR_NS, 4000, 4999, 5000, 5001}), 5);
		assert_true(end_ns >= time_ns);
		assert_true(end_ns <= 2 * HTML_FAR_NS);
	}
	free(html);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_longest_calls_are_kept),
		cmocka_unit_test(test_calls_of_one_length_are_kept_as_well),
		cmocka_unit_test(test_times_say_what_is_inside),
		cmocka_unit_test(test_a_tree_has_limits),
		cmocka_unit_test(test_columns),
		cmocka_unit_test(test_a_lane_knows_no_fiber_that_is_gone),
		cmocka_unit_test(test_texts_in_a_page),
		cmocka_unit_test(test_times_that_cannot_be_can_be_subtracted),
		cmocka_unit_test(test_long_texts_end_between_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
