/* What a target announces takes bounded memory, and nothing that is still shown goes. */

#include "stream_fixture.h"

#include "tracer/stream/decode.h"

#include <errno.h>

static int setup(void **state)
{
	static const struct sink_style style;

	return fixture_open(state, &sink_text, &style);
}

static void announce(struct fixture *f, uint32_t ref, const char *name)
{
	static char class_name[4001];
	struct record record = {.kind = RECORD_METHOD};

	memset(class_name, 'C', sizeof(class_name) - 1);
	record.method = (struct record_method){.ref = ref,
	                                       .class_name = {class_name, sizeof(class_name) - 1},
	                                       .separator = '#',
	                                       .method_name = {name, strlen(name)},
	                                       .engine = ENGINE_TARGET};
	record_encode(&f->records, &record);
}

/* As a method that is defined anew again and again; the fixture's socket takes some ten of them at a time. */
static void announcing_the_same_again_takes_no_more(void **state)
{
	struct fixture *f = *state;
	const struct fiber *open;

	fiber(f, 1, 1, "main");
	announce(f, 1, "first");
	event(f, EVENT_START, ENDING_RETURNED, 1, 1, 1, NULL, NULL);
	for (unsigned i = 0; i < 40000; i++) {
		announce(f, 1, "another");
		if (i % 10 == 9)
			fixture_output(f);
	}
	assert_in_range(f->stream->memory, 4000, 80u << 20);
	/* The open call is still one of the first. */
	open = f->stream->fibers.pages[0][1];
	assert_int_equal(open->depth, 1);
	assert_memory_equal(open->calls[0].method->method_name.bytes, "first", 5);
}

static void announcing_others_for_ever_ends_the_stream(void **state)
{
	struct fixture *f = *state;
	struct error err = {0};
	int status = 0;

	for (uint32_t ref = 1; status >= 0 && ref < 1000000; ref++) {
		announce(f, ref, "m");
		if (ref % 10)
			continue;
		assert_int_equal(write(f->sockets[1], f->records.data, f->records.size), f->records.size);
		msgpack_sbuffer_clear(&f->records);
		while ((status = stream_read(f->stream, f->sockets[0], &err)) > 0)
			;
	}
	assert_int_equal(status, -ENOMEM);
	assert_in_range(f->stream->memory, STREAM_MEMORY_MAX, STREAM_MEMORY_MAX + (1u << 20));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(announcing_the_same_again_takes_no_more, setup, fixture_close),
		cmocka_unit_test_setup_teardown(announcing_others_for_ever_ends_the_stream, setup, fixture_close),
	};

	return cmocka_run_group_tests_name("calls memory", tests, NULL, NULL);
}
