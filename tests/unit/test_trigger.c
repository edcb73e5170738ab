/* What a flight recorder waits for: all words of a condition together, and any of several conditions. */

#include "tracer/base/buffer.h"
#include "tracer/recording/trigger.h"
#include "unit.h"

#include <msgpack.h>

static struct stream stream = {.main_native_id = 7};
static const struct fiber here = {.stream = &stream, .native_id = 7, .thread_name = SLICE("puma 1")};
static struct method sell, line, raised;
static msgpack_sbuffer packed;
static struct values outcome;
static struct buffer why;

static int setup(void **state)
{
	msgpack_packer packer;

	(void)state;
	sell = (struct method){
		.class_name = SLICE("Shop"), .separator = '#', .method_name = SLICE("sell"), .shown = SLICE("Shop#sell")};
	line = (struct method){.is_line = true, .file = SLICE("/srv/order.rb"), .line = 42, .shown = SLICE("order.rb:42")};
	raised = (struct method){.mark_kind = MARK_RAISE};
	msgpack_sbuffer_init(&packed);
	msgpack_packer_init(&packer, &packed, msgpack_sbuffer_write);
	msgpack_pack_str_with_body(&packer, "Shop::SoldOut\x1b", 14);
	outcome = (struct values){(const uint8_t *)packed.data, (const uint8_t *)packed.data + packed.size, 1};
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	buffer_free(&sell.prepared);
	buffer_free(&line.prepared);
	buffer_free(&why);
	msgpack_sbuffer_destroy(&packed);
	return 0;
}

static const struct trigger *call(const struct triggers *triggers, enum ending ending, uint64_t duration_ns)
{
	why.size = 0;
	return triggers_call(triggers, &here, &sell, ending, outcome, duration_ns, &why);
}

static void is_why(const char *text)
{
	assert_slice((struct slice){why.bytes, why.size}, text);
}

static void all_words_must_be_met_by_one_call(void **state)
{
	static const struct selector sells = {.class_pattern = SLICE("Shop"), .separator = '#', .method_pattern = SLICE("sell")};
	static const struct selector buys = {.method_pattern = SLICE("buy")};
	const struct triggers triggers = {
		.count = 4,
		.items = {{.text = "raise", .raise = SLICE("")},
	                  {.text = "buys", .method = &buys},
	                  {.text = "raised", .raised = SLICE("Key*")},
	                  {.text = "slow", .slow_ns = 100, .thread = SLICE("puma*"), .method = &sells}}};

	(void)state;
	assert_null(call(&triggers, ENDING_RETURNED, 99));
	assert_null(call(&triggers, ENDING_RAISED, 99));
	assert_ptr_equal(call(&triggers, ENDING_RETURNED, 100), &triggers.items[3]);
	is_why("Shop#sell took 0.000000 s (--until slow)");
	sell.shown = (struct slice)SLICE("again");
	assert_ptr_equal(call(&triggers, ENDING_RAISED, 2500000), &triggers.items[3]);
	is_why("again took 0.002500 s (--until slow)");
}

static void exceptions_that_leave_a_call_are_not_those_that_are_raised(void **state)
{
	const struct triggers leave = {.count = 1, .items = {{.text = "raised", .raised = SLICE("Shop::*")}}};
	const struct triggers raise = {.count = 1, .items = {{.text = "raise", .raise = SLICE(""), .thread = SLICE("main")}}};

	(void)state;
	assert_null(call(&leave, ENDING_RETURNED, 1));
	assert_null(triggers_mark(&leave, &here, &raised, outcome, &why));
	assert_ptr_equal(call(&leave, ENDING_RAISED, 1), &leave.items[0]);
	is_why("Shop#sell raised Shop::SoldOut\\x1b (--until raised)");
	assert_null(call(&raise, ENDING_RAISED, 1));
	assert_non_null(triggers_mark(&raise, &here, &raised, outcome, &why));
	is_why("Shop::SoldOut\\x1b was raised (--until raise)");
	raised.mark_kind = MARK_ALLOCATION;
	assert_null(triggers_mark(&raise, &here, &raised, outcome, &why));
}

static void lines(void **state)
{
	static const struct selector there = {
		.class_pattern = SLICE("order.rb"), .separator = SELECTOR_LINE, .method_pattern = SLICE("42")};
	const struct triggers triggers = {.count = 2,
	                                  .items = {{.text = "slow", .slow_ns = 1}, {.text = "line", .method = &there}}};

	(void)state;
	assert_null(call(&triggers, ENDING_RETURNED, 0));
	why.size = 0;
	assert_ptr_equal(triggers_line(&triggers, &here, &line, &why), &triggers.items[1]);
	is_why("order.rb:42 was reached (--until line)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(all_words_must_be_met_by_one_call, setup, teardown),
		cmocka_unit_test_setup_teardown(exceptions_that_leave_a_call_are_not_those_that_are_raised, setup, teardown),
		cmocka_unit_test_setup_teardown(lines, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
