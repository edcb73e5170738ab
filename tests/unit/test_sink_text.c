/* The text tree, from records as a target sends them to the exact lines: nesting, endings, threads that interleave, losses. */

#include "tracer/sink.h"
#include "unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define MICROSECOND UINT64_C(1000)

/* A stream whose other end is this test. */
struct fixture {
	int sockets[2];
	struct output output;
	struct sink *sink;
	struct stream *stream;
	struct call_limit limit;
	msgpack_sbuffer records;
};

static const struct sink_style plain = {.durations = true, .indent = 3};

static int with_style(void **state, const struct sink_style *style)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct error err;
	static const struct stream_handler nobody;

	*state = f;
	if (!f || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, f->sockets) != 0)
		return -1;
	msgpack_sbuffer_init(&f->records);
	if (output_open(&f->output, "/dev/null", false, &err) != 0)
		return -1;
	f->sink = sink_new(&sink_text, &f->output, style);
	f->stream = stream_new(77, f->sink, &f->limit, &nobody, NULL);
	return 0;
}

static int setup(void **state)
{
	return with_style(state, &plain);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	stream_free(f->stream);
	sink_free(f->sink);
	output_close(&f->output);
	msgpack_sbuffer_destroy(&f->records);
	close(f->sockets[0]);
	close(f->sockets[1]);
	free(f);
	return 0;
}

static void method(struct fixture *f, uint32_t ref, const char *class_name, const char *name)
{
	static const struct slice labels[] = {SLICE("self"), SLICE("num")};
	struct record record = {.kind = RECORD_METHOD};

	record.method = (struct record_method){.ref = ref,
	                                       .class_name = {class_name, strlen(class_name)},
	                                       .separator = '#',
	                                       .method_name = {name, strlen(name)},
	                                       .engine = ENGINE_TARGET,
	                                       .label_count = 2,
	                                       .labels = labels};
	record_encode(&f->records, &record);
}

static void fiber(struct fixture *f, uint32_t ref, uint32_t native_id, const char *name)
{
	struct record record = {.kind = RECORD_FIBER};

	record.fiber = (struct record_fiber){
		.ref = ref, .thread_id = native_id, .native_id = native_id, .thread_name = {name, strlen(name)}, .root = true};
	record_encode(&f->records, &record);
}

static void event(struct fixture *f, bool end, enum ending ending, uint32_t method_ref, uint32_t fiber_ref, uint64_t us,
                  const char *first, const char *second)
{
	msgpack_sbuffer values;
	msgpack_packer packer;
	struct batch batch;

	msgpack_sbuffer_init(&values);
	msgpack_packer_init(&packer, &values, msgpack_sbuffer_write);
	if (first) {
		msgpack_pack_array(&packer, second ? 2 : 1);
		msgpack_pack_str(&packer, strlen(first));
		msgpack_pack_str_body(&packer, first, strlen(first));
	}
	if (second) {
		msgpack_pack_str(&packer, strlen(second));
		msgpack_pack_str_body(&packer, second, strlen(second));
	}
	batch_begin(&batch, &f->records, us * MICROSECOND);
	assert_true(batch_add(&batch, end, ending, method_ref, fiber_ref, us * MICROSECOND, values.data, values.size));
	batch_end(&batch);
	msgpack_sbuffer_destroy(&values);
}

static void begins(struct fixture *f, uint32_t method_ref, uint32_t fiber_ref, uint64_t us)
{
	event(f, false, ENDING_RETURNED, method_ref, fiber_ref, us, NULL, NULL);
}

static void ends(struct fixture *f, uint32_t method_ref, uint32_t fiber_ref, uint64_t us)
{
	event(f, true, ENDING_RETURNED, method_ref, fiber_ref, us, NULL, NULL);
}

/* Sends what was recorded, and compares what was printed so far. */
static void prints(struct fixture *f, const char *expected)
{
	struct error err = {0};
	int status;

	assert_int_equal(write(f->sockets[1], f->records.data, f->records.size), f->records.size);
	msgpack_sbuffer_clear(&f->records);
	while ((status = stream_read(f->stream, f->sockets[0], &err)) > 0)
		;
	if (status < 0)
		fail_msg("%d: %s", status, err.text);
	buffer_add_char(&f->output.buffer, '\0');
	assert_string_equal(f->output.buffer.bytes, expected);
	f->output.buffer.size--;
}

static void nested_calls_are_indented(void **state)
{
	struct fixture *f = *state;

	method(f, 1, "Shop", "sell");
	method(f, 2, "Shop", "price");
	fiber(f, 1, 100, "");
	begins(f, 1, 1, 0);
	begins(f, 2, 1, 10);
	ends(f, 2, 1, 30);
	begins(f, 2, 1, 40);
	ends(f, 2, 1, 70);
	ends(f, 1, 1, 198);
	prints(f, "Shop#sell\n"
	          "   Shop#price <0.000020>\n"
	          "   Shop#price <0.000030>\n"
	          "Shop#sell <0.000198>\n");
}

static void values_stand_behind_the_name(void **state)
{
	struct fixture *f = *state;

	method(f, 1, "Shop", "sell");
	fiber(f, 1, 100, "");
	event(f, false, 0, 1, 1, 0, "#<Shop>", "3");
	event(f, true, ENDING_RETURNED, 1, 1, 5, "42", NULL);
	prints(f, "Shop#sell(self=#<Shop>, num=3) => 42 <0.000005>\n");
}

static void a_value_cannot_command_the_terminal(void **state)
{
	struct fixture *f = *state;

	method(f, 1, "Shop", "sell");
	fiber(f, 1, 100, "");
	event(f, false, 0, 1, 1, 0, "a\033[2Jb\n\xff", NULL);
	ends(f, 1, 1, 5);
	prints(f, "Shop#sell(self=a\\x1b[2Jb\\x0a\\xff) <0.000005>\n");
}

static void every_ending_has_its_mark(void **state)
{
	static const enum ending endings[] = {ENDING_RAISED, ENDING_RAISED, ENDING_THROWN, ENDING_KILLED, ENDING_UNKNOWN};
	struct fixture *f = *state;

	method(f, 1, "Shop", "sell");
	fiber(f, 1, 100, "");
	for (uint64_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
		begins(f, 1, 1, 10 * i);
		event(f, true, endings[i], 1, 1, 10 * i + 1, i == 0 ? "SoldOut" : NULL, i == 0 ? "none left" : NULL);
	}
	prints(f, "Shop#sell ! SoldOut: none left <0.000001>\n"
	          "Shop#sell ! raised <0.000001>\n"
	          "Shop#sell ~ thrown <0.000001>\n"
	          "Shop#sell ~ killed <0.000001>\n"
	          "Shop#sell ~ ended <0.000001>\n");
}

static void threads_that_interleave_keep_their_own_trees(void **state)
{
	struct fixture *f = *state;

	method(f, 1, "Shop", "sell");
	method(f, 2, "Shop", "price");
	fiber(f, 1, 100, "main");
	fiber(f, 2, 200, "clerk");
	begins(f, 1, 1, 0);
	begins(f, 1, 2, 1);
	begins(f, 2, 1, 2);
	begins(f, 2, 2, 3);
	ends(f, 2, 1, 4);
	ends(f, 2, 2, 5);
	ends(f, 1, 2, 6);
	ends(f, 1, 1, 7);
	prints(f, "[thread 100 \"main\"]\n"
	          "Shop#sell\n"
	          "[thread 200 \"clerk\"]\n"
	          "Shop#sell\n"
	          "[thread 100 \"main\"]\n"
	          "   Shop#price <0.000002>\n"
	          "[thread 200 \"clerk\"]\n"
	          "   Shop#price <0.000002>\n"
	          "Shop#sell <0.000005>\n"
	          "[thread 100 \"main\"]\n"
	          "Shop#sell <0.000007>\n");
}

static void a_loss_stands_where_it_happened(void **state)
{
	struct fixture *f = *state;
	struct record record = {.kind = RECORD_LOST};

	method(f, 1, "Shop", "sell");
	fiber(f, 1, 100, "");
	begins(f, 1, 1, 0);
	ends(f, 1, 1, 5);
	record.lost = (struct record_lost){1234, 5 * MICROSECOND, 12005 * MICROSECOND};
	record_encode(&f->records, &record);
	begins(f, 1, 1, 20000);
	ends(f, 1, 1, 20001);
	prints(f, "Shop#sell <0.000005>\n"
	          "... 1234 calls lost (0.012000 s) ...\n"
	          "Shop#sell <0.000001>\n");
	assert_int_equal(f->stream->lost, 1234);
}

static void calls_that_do_not_end_are_shown_as_begun(void **state)
{
	struct fixture *f = *state;

	method(f, 1, "Shop", "sell");
	fiber(f, 1, 100, "");
	begins(f, 1, 1, 0);
	begins(f, 1, 1, 1);
	prints(f, "Shop#sell\n");
	stream_finish(f->stream);
	prints(f, "Shop#sell\n"
	          "   Shop#sell\n");
}

static void a_quiet_moment_shows_what_was_held_back(void **state)
{
	struct fixture *f = *state;

	method(f, 1, "Shop", "sell");
	fiber(f, 1, 100, "");
	begins(f, 1, 1, 0);
	prints(f, "");
	f->sink->ops->quiet(f->sink);
	prints(f, "Shop#sell\n");
	ends(f, 1, 1, 9);
	prints(f, "Shop#sell\n"
	          "Shop#sell <0.000009>\n");
}

static int setup_bare(void **state)
{
	return with_style(state, &(struct sink_style){.many_pids = true, .indent = 1});
}

static void several_processes_name_themselves(void **state)
{
	struct fixture *f = *state;

	method(f, 1, "Shop", "sell");
	method(f, 2, "Shop", "price");
	fiber(f, 1, 100, "");
	begins(f, 1, 1, 0);
	begins(f, 2, 1, 10);
	ends(f, 2, 1, 30);
	ends(f, 1, 1, 198);
	prints(f, "77: Shop#sell\n"
	          "77:  Shop#price\n"
	          "77: Shop#sell\n");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(nested_calls_are_indented),
		TEST(values_stand_behind_the_name),
		TEST(a_value_cannot_command_the_terminal),
		TEST(every_ending_has_its_mark),
		TEST(threads_that_interleave_keep_their_own_trees),
		TEST(a_loss_stands_where_it_happened),
		TEST(calls_that_do_not_end_are_shown_as_begun),
		TEST(a_quiet_moment_shows_what_was_held_back),
		cmocka_unit_test_setup_teardown(several_processes_name_themselves, setup_bare, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
