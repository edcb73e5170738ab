/* Figures that a process has counted: buckets that are narrow enough, rows that add up, and tables to the letter. */

#include "answer_fixture.h"
#include "tracer/commands/stat_report.h"
#include "tracer/stream/stat_table.h"

#include "proto/histogram.h"

#include <errno.h>

static uint64_t random_number(void)
{
	static uint64_t seed = 0x9e3779b97f4a7c15;

	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static void every_number_is_in_a_narrow_bucket(void **state)
{
	(void)state;
	for (int i = 0; i < 200000; i++) {
		uint64_t number = random_number() >> (random_number() % 64);
		uint32_t bucket = histogram_bucket(number);
		uint64_t least = histogram_least(bucket), width = histogram_width(bucket);
		double middle = (double)least + (double)width / 2, off = middle - (double)number;

		assert_true(bucket < HISTOGRAM_BUCKETS);
		assert_true(number >= least && number - least < width);
		assert_true(width == 1 || (off < 0 ? -off : off) <= (double)number / 64);
	}
	assert_int_equal(histogram_bucket(UINT64_MAX), HISTOGRAM_BUCKETS - 1);
	for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
		assert_int_equal(histogram_bucket(histogram_least(bucket)), bucket);
		assert_int_equal(histogram_bucket(histogram_least(bucket) + (histogram_width(bucket) - 1)), bucket);
	}
}

/* --- A process's answer */

static void pair(const char *name, uint64_t number)
{
	answer_text(name);
	msgpack_pack_uint64(&packer, number);
}

/* A method's figures, of that many calls, each of which took so many ticks. */
static void figures(uint64_t method, uint64_t calls, uint64_t errors, uint64_t ticks)
{
	msgpack_pack_map(&packer, 8);
	pair("method", method);
	pair("calls", calls);
	pair("errors", errors);
	pair("total", calls * ticks);
	pair("self", calls * ticks / 2);
	pair("min", ticks);
	pair("max", ticks);
	answer_text("histogram");
	msgpack_pack_array(&packer, 2);
	msgpack_pack_uint32(&packer, histogram_bucket(ticks));
	msgpack_pack_uint64(&packer, calls);
}

static void begin_piece(size_t keys, size_t methods)
{
	msgpack_sbuffer_clear(&packed);
	msgpack_pack_map(&packer, keys);
	answer_text("methods");
	msgpack_pack_array(&packer, methods);
}

/* With half a nanosecond a tick. */
static void begin_last(size_t methods)
{
	begin_piece(4, methods);
}

static void end_last(void)
{
	pair("rate", UINT64_C(1) << 31);
	pair("elapsed_ns", 2000000000);
	pair("open", 3);
}

static struct slice name_of(const void *owner, uint32_t method)
{
	static const struct slice names[] = {{"Order#save", 10}, {"Order#total", 11}, {"Order#save", 10}};

	(void)owner;
	return method < 3 ? names[method] : (struct slice){NULL, 0};
}

static int add(struct stat_table *table, struct error *err)
{
	size_t offset = 0;

	assert_int_equal(msgpack_unpack_next(&unpacked, packed.data, packed.size, &offset), MSGPACK_UNPACK_SUCCESS);
	return stat_table_add(table, &unpacked.data, name_of, NULL, err);
}

static struct stat_table table_of(uint64_t saves, uint64_t totals)
{
	struct stat_table table = {0};
	struct error err;

	begin_piece(1, 1);
	figures(0, saves, 1, 2000000);
	assert_int_equal(add(&table, &err), 0);
	assert_false(table.complete);
	begin_last(2);
	figures(2, 10, 0, 4000000);
	figures(1, totals, 0, 200);
	end_last();
	assert_int_equal(add(&table, &err), 0);
	assert_true(table.complete);
	table.pid = 7;
	table.processes = 1;
	return table;
}

static void shows(const char *expected)
{
	buffer_add_char(&shown, '\0');
	assert_string_equal(shown.bytes, expected);
}

static const struct stat_view by_total = {.sort = "total"};

static void definitions_of_one_method_are_one_row(void **state)
{
	struct stat_table table = table_of(30, 100);

	(void)state;
	assert_int_equal(table.count, 2);
	assert_slice(table.rows[0].name, "Order#save");
	assert_int_equal(table.rows[0].calls, 40);
	assert_int_equal(table.rows[0].errors, 1);
	assert_true(table.rows[0].total_ns == 50e6);
	assert_true(table.rows[0].min_ns == 1e6 && table.rows[0].max_ns == 2e6);
	assert_int_equal(table.rows[0].bucket_count, 2);
	assert_int_equal(stat_table_calls(&table), 143);
	assert_true(stat_row_quantile(&table.rows[0], 0.75) < 1.02e6);
	assert_true(stat_row_quantile(&table.rows[0], 0.76) > 1.96e6);
	stat_table_free(&table);
}

static void a_table_for_people(void **state)
{
	struct stat_table table = table_of(30, 100);

	(void)state;
	stat_report_text(&shown, &table, &by_total, 0);
	shows("process 7, 2.0 s: 140 calls of 2 methods; 3 more have not ended\n"
	      "     calls  errors   total    self    mean     min     p50     p90     p99   p99.9     max  method\n"
	      "        40       1  50.0ms  25.0ms  1.25ms  1.00ms  1.01ms  2.00ms  2.00ms  2.00ms  2.00ms  Order#save\n"
	      "       100       0  10.0us  5.00us   100ns   100ns   100ns   100ns   100ns   100ns   100ns  Order#total\n");
	stat_table_free(&table);
}

static void what_does_not_fit_is_left_out(void **state)
{
	static const struct {
		unsigned width;
		const char *sort, *columns;
	} terminals[] = {
		{110, "total",
	         "     calls  errors   total    self    mean     min     p50     p90     p99   p99.9     max  method"},
		{103, "total",
	         "     calls  errors   total    self    mean     min     p50     p90     p99   p99.9     max  method"},
		{102, "total", "     calls  errors   total    self    mean     p50     p90     p99   p99.9     max  method"},
		{80, "total", "     calls  errors   total    self    mean     p50     p99     max  method"},
		{80, "p99.9", "     calls  errors   total    self    mean     p99   p99.9     max  method"},
		{20, "total", "     calls   total    self  method"},
	};
	struct stat_table table = table_of(30, 100);

	(void)state;
	for (size_t i = 0; i < sizeof(terminals) / sizeof(*terminals); i++) {
		const struct stat_view view = {.sort = terminals[i].sort, .width = terminals[i].width};
		const char *line;

		shown.size = 0;
		stat_report_text(&shown, &table, &view, 0);
		buffer_add_char(&shown, '\0');
		line = strchr(shown.bytes, '\n') + 1;
		assert_memory_equal(line, terminals[i].columns, strlen(terminals[i].columns));
		for (size_t size; *line && i < 5; line += size + 1) {
			size = strcspn(line, "\n");
			assert_true(size <= terminals[i].width);
		}
	}
	stat_table_free(&table);
}

static void calls_a_second(void **state)
{
	static const struct stat_view view = {.sort = "rate", .rates = true, .calls_only = true};
	struct stat_table table = table_of(30, 100);

	(void)state;
	stat_table_rate(&table);
	stat_report_text(&shown, &table, &view, 1);
	shows("process 7, last 2.0 s: 140 calls of 2 methods; 3 more have not ended\n"
	      "     calls     rate  method\n"
	      "       100   50.0/s  Order#total\n"
	      "        40   20.0/s  Order#save\n");
	shown.size = 0;
	stat_report_json(&shown, &table, &view, 1, NULL);
	buffer_add_char(&shown, '\0');
	assert_non_null(strstr(shown.bytes, "\"method\":\"Order#save\",\"calls\":40,\"calls_per_s\":20"));
	stat_table_free(&table);
}

static void sorted_and_cut(void **state)
{
	struct stat_table table = table_of(30, 100);

	(void)state;
	stat_report_text(&shown, &table, &(struct stat_view){.sort = "calls", .top = 1, .calls_only = true}, 2);
	shows("process 7, last 2.0 s: 140 calls of 2 methods, 1 shown; 3 more have not ended\n"
	      "     calls  method\n"
	      "       100  Order#total\n");
	stat_table_free(&table);
}

static void what_has_come_since(void **state)
{
	struct stat_table before = table_of(30, 100), now = table_of(35, 100);
	struct stat_table since = stat_table_since(&now, &before);

	(void)state;
	assert_int_equal(since.count, 1);
	assert_slice(since.rows[0].name, "Order#save");
	assert_int_equal(since.rows[0].calls, 5);
	assert_int_equal(since.rows[0].errors, 0);
	assert_true(since.rows[0].total_ns == 5e6);
	assert_true(since.rows[0].max_ns < 1.04e6);
	stat_table_free(&before);
	stat_table_free(&now);
	stat_table_free(&since);
}

static void processes_add_up(void **state)
{
	struct stat_table one = table_of(30, 100), other = table_of(5, 1), sum = {0};

	(void)state;
	stat_table_sum(&sum, &one);
	stat_table_sum(&sum, &other);
	assert_int_equal(sum.processes, 2);
	stat_report_text(&shown, &sum, &(struct stat_view){.sort = "total", .top = 1, .calls_only = true}, 0);
	shows("2 processes, 2.0 s: 156 calls of 2 methods, 1 shown; 6 more have not ended\n"
	      "     calls  method\n"
	      "       101  Order#total\n");
	assert_int_equal(sum.open, 6);
	assert_int_equal(sum.rows[0].calls, 55);
	assert_int_equal(sum.rows[1].calls, 101);
	stat_table_free(&one);
	stat_table_free(&other);
	stat_table_free(&sum);
}

/* Order#save, 20 calls in the 1.5 s after which it was let go, and Order#total. */
static struct stat_table table_with_let_go(uint64_t saves, uint64_t elapsed_ns)
{
	struct stat_table table = table_of(saves, 100);

	table.rows[0].let_go = true;
	table.rows[0].let_go_ns = 1500000000;
	table.elapsed_ns = elapsed_ns;
	return table;
}

static void what_was_let_go_is_marked(void **state)
{
	struct stat_table one = table_with_let_go(20, 2000000000), later = table_with_let_go(20, 4000000000), since;
	struct stat_table whole = table_of(5, 1), sum = {0};
	const struct stat_table *tables[] = {&one};
	const struct stat_view view = {.sort = "total", .calls_only = true, .rates = true};
	const char *remark =
		"1 method was let go, taking more than --max-overhead allows: later calls are in no figure, their time is "
		"in self of their callers\n";

	(void)state;
	stat_table_rate(&one);
	stat_report_text(&shown, &one, &view, 0);
	buffer_add_char(&shown, '\0');
	assert_non_null(strstr(shown.bytes, "20.0/s  Order#save  (let go after 1.5 s)\n"));
	assert_non_null(strstr(shown.bytes, remark));
	shown.size = 0;
	stat_report_json(&shown, &one, &view, 0, NULL);
	buffer_add_char(&shown, '\0');
	assert_non_null(strstr(shown.bytes, "\"let_go\":true,\"let_go_after_ns\":1500000000"));
	assert_non_null(strstr(shown.bytes, "\"let_go\":1,"));
	shown.size = 0;
	stat_report_prometheus(&shown, tables, 1, &view);
	buffer_add_char(&shown, '\0');
	assert_non_null(strstr(shown.bytes, "rbprobe_method_let_go{pid=\"7\",method=\"Order#save\"} 1\n"));
	assert_non_null(strstr(shown.bytes, "rbprobe_method_let_go{pid=\"7\",method=\"Order#total\"} 0\n"));
	shown.size = 0;

	/* Nothing has come since, which does not say that it was not called. */
	since = stat_table_since(&later, &one);
	stat_report_text(&shown, &since, &view, 2);
	buffer_add_char(&shown, '\0');
	assert_non_null(strstr(shown.bytes, " -  Order#save  (let go)\n"));
	assert_non_null(strstr(shown.bytes, remark));
	shown.size = 0;

	/* One of two processes counts on. */
	stat_table_sum(&sum, &one);
	assert_true(sum.rows[0].let_go && sum.rows[0].let_go_ns == 1500000000);
	stat_table_sum(&sum, &whole);
	assert_true(sum.rows[0].let_go && sum.rows[0].let_go_ns == 0);
	stat_table_free(&one);
	stat_table_free(&later);
	stat_table_free(&since);
	stat_table_free(&whole);
	stat_table_free(&sum);
}

static void figures_of_no_method_are_refused(void **state)
{
	struct stat_table table = {0};
	struct error err;

	(void)state;
	begin_piece(1, 1);
	figures(9, 1, 0, 1);
	assert_int_equal(add(&table, &err), -EPROTO);
	assert_error(&err, -EPROTO, "not announced");
	begin_piece(1, 1);
	figures(UINT64_MAX, 1, 0, 1);
	assert_int_equal(add(&table, &err), -EPROTO);
	stat_table_free(&table);
}

/* One method's figures, with that many pairs of this bucket and count. */
static void odd_figures(uint64_t method, uint64_t number, size_t pairs, uint64_t bucket, uint64_t count)
{
	msgpack_pack_map(&packer, 6);
	pair("method", method);
	pair("calls", number);
	pair("total", number);
	pair("min", number);
	pair("max", number);
	answer_text("histogram");
	msgpack_pack_array(&packer, 2 * pairs);
	for (size_t i = 0; i < pairs; i++) {
		msgpack_pack_uint64(&packer, bucket);
		msgpack_pack_uint64(&packer, count);
	}
}

static void figures_that_cannot_be_are_shown_all_the_same(void **state)
{
	static const struct stat_view views[] = {{.sort = "p99.9", .histogram = true}, {.sort = "errors"}};
	static const uint64_t rates[] = {0, 1, UINT64_C(1) << 32, UINT64_MAX};
	static const uint64_t buckets[] = {0, HISTOGRAM_BUCKETS - 1, HISTOGRAM_BUCKETS, UINT64_MAX};
	static const uint64_t counts[] = {0, 1, UINT64_C(1) << 63, UINT64_MAX};

	(void)state;
	for (size_t i = 0; i < 4 * 4 * 4; i++) {
		struct stat_table table = {0}, since;
		const struct stat_table *const tables[] = {&table};
		struct error err;

		begin_piece(4, 2);
		odd_figures(0, counts[i / 16], 1, buckets[i % 4], counts[i / 4 % 4]);
		odd_figures(2, UINT64_MAX, 2, buckets[i % 4], counts[i / 4 % 4]);
		pair("rate", rates[i / 16]);
		pair("elapsed_ns", UINT64_MAX);
		pair("open", UINT64_MAX);
		assert_int_equal(add(&table, &err), 0);
		since = stat_table_since(&table, &table);
		for (size_t view = 0; view < 2; view++) {
			stat_report_text(&shown, &table, &views[view], 0);
			stat_report_text(&shown, &since, &views[view], 1);
			stat_report_json(&shown, &table, &views[view], 0, NULL);
			stat_report_prometheus(&shown, tables, 1, &views[view]);
		}
		stat_table_free(&since);
		stat_table_free(&table);
	}
}

static void a_time_that_no_number_holds_is_the_largest(void **state)
{
	struct stat_table table = {0};
	struct error err;

	(void)state;
	begin_piece(2, 1);
	odd_figures(0, UINT64_MAX, 0, 0, 0);
	pair("rate", UINT64_MAX);
	assert_int_equal(add(&table, &err), 0);
	stat_report_json(&shown, &table, &by_total, 0, NULL);
	buffer_add_char(&shown, '\0');
	assert_non_null(strstr(shown.bytes, "\"max_ns\":18446744073709551615"));
	stat_table_free(&table);
}

static void figures_of_more_than_a_process_has_are_refused(void **state)
{
	struct stat_table table = {0};
	struct error err;
	int status = 0;

	(void)state;
	begin_piece(1, 1);
	odd_figures(0, 1, HISTOGRAM_BUCKETS, 0, 1);
	for (int i = 0; i < 3000 && status == 0; i++)
		status = add(&table, &err);
	assert_error(&err, -EPROTO, "figures of more than 128 MiB");
	assert_int_equal(status, -EPROTO);
	assert_true(table.count > 2000);
	stat_table_free(&table);
}

/* A path below the row with that number. */
static void node(uint64_t method, uint64_t parent, uint64_t calls, uint64_t ticks, uint64_t folded)
{
	msgpack_pack_map(&packer, 8);
	pair("parent", parent);
	pair("folded", folded);
	pair("method", method);
	pair("calls", calls);
	pair("total", calls * ticks);
	pair("self", calls * ticks / 2);
	pair("min", ticks);
	pair("max", ticks);
}

static void paths_are_drawn_below_each_other(void **state)
{
	static const struct stat_view view = {.sort = "total", .tree = true}, first = {.sort = "total", .tree = true, .top = 1};
	struct stat_table table = {0}, since;
	struct error err;

	(void)state;
	begin_piece(1, 3);
	node(0, 0, 2, 4000000, 0);
	node(1, 1, 0, 0, 0);
	node(0, 2, 1, 200, 5);
	assert_int_equal(add(&table, &err), 0);
	begin_piece(3, 3);
	node(1, 0, 1, 9000000, 0);
	node(1, 3, 0, 0, 0); /* nothing was called below it */
	node(2, 1, 3, 400, 0);
	pair("rate", UINT64_C(1) << 31);
	pair("folded", 2);
	assert_int_equal(add(&table, &err), 0);
	table.pid = 7;
	stat_report_text(&shown, &table, &view, 0);
	stat_report_text(&shown, &table, &first, 0);
	shows("process 7, 0.0 s: 14 calls of 2 methods\n"
	      "     calls  errors   total    self  method\n"
	      "         1       0  4.50ms  2.25ms  Order#total\n"
	      "         2       0  4.00ms  2.00ms  Order#save\n"
	      "         3       0   600ns   300ns     Order#save\n"
	      "         0       0     0ns     0ns     Order#total\n"
	      "         1       0   100ns    50ns        Order#save\n"
	      "7 calls have no line, as 64 levels and 8192 lines are kept: their time is in that of the innermost call "
	      "around them that has one\n"
	      "process 7, 0.0 s: 14 calls of 2 methods, 1 rows shown\n"
	      "     calls  errors   total    self  method\n"
	      "         1       0  4.50ms  2.25ms  Order#total\n"
	      "7 calls have no line, as 64 levels and 8192 lines are kept: their time is in that of the innermost call "
	      "around them that has one\n");
	buffer_free(&shown);
	shown = (struct buffer){0};
	stat_report_json(&shown, &table, &first, 0, NULL);
	buffer_add_char(&shown, '\0');
	assert_non_null(strstr(shown.bytes, "\"path\":[\"Order#total\"],\"calls\":1,"));
	since = stat_table_since(&table, &table);
	assert_int_equal(stat_table_calls(&since), 0);
	stat_table_free(&since);
	stat_table_free(&table);
}

static void a_path_below_nothing_is_refused(void **state)
{
	struct stat_table table = {0};
	struct error err;

	(void)state;
	begin_piece(1, 2);
	node(0, 0, 1, 1, 0);
	node(0, 2, 1, 1, 0);
	assert_int_equal(add(&table, &err), -EPROTO);
	assert_error(&err, -EPROTO, "figures below some (2) that were not sent");
	stat_table_free(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_number_is_in_a_narrow_bucket),
		cmocka_unit_test_setup_teardown(definitions_of_one_method_are_one_row, answer_setup, answer_teardown),
		cmocka_unit_test_setup_teardown(a_table_for_people, answer_setup, answer_teardown),
		cmocka_unit_test_setup_teardown(what_does_not_fit_is_left_out, answer_setup, answer_teardown),
		cmocka_unit_test_setup_teardown(calls_a_second, answer_setup, answer_teardown),
		cmocka_unit_test_setup_teardown(sorted_and_cut, answer_setup, answer_teardown),
		cmocka_unit_test_setup_teardown(what_has_come_since, answer_setup, answer_teardown),
		cmocka_unit_test_setup_teardown(processes_add_up, answer_setup, answer_teardown),
		cmocka_unit_test_setup_teardown(what_was_let_go_is_marked, answer_setup, answer_teardown),
		cmocka_unit_test_setup_teardown(paths_are_drawn_below_each_other, answer_setup, answer_teardown),
		cmocka_unit_test_setup_teardown(a_path_below_nothing_is_refused, answer_setup, answer_teardown),
		cmocka_unit_test_setup_teardown(figures_of_no_method_are_refused, answer_setup, answer_teardown),
		cmocka_unit_test_setup_teardown(figures_that_cannot_be_are_shown_all_the_same, answer_setup, answer_teardown),
		cmocka_unit_test_setup_teardown(a_time_that_no_number_holds_is_the_largest, answer_setup, answer_teardown),
		cmocka_unit_test_setup_teardown(figures_of_more_than_a_process_has_are_refused, answer_setup, answer_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
