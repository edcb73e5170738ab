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

static struct values values_of(const msgpack_sbuffer *bytes, uint32_t count)
{
	return (struct values){(const uint8_t *)bytes->data, (const uint8_t *)bytes->data + bytes->size, count};
}

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
	outcome = values_of(&packed, 1);
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
	const struct trigger_call one = {.method = &sell, .ending = ending, .outcome = outcome, .duration_ns = duration_ns};

	why.size = 0;
	return triggers_call(triggers, &here, &one, &why);
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

static void the_calls_around_it_are_looked_at(void **state)
{
	static const struct selector order = {.method_pattern = SLICE("order")};
	static struct method ordering, other;
	struct call calls[] = {{.method = &other}, {.method = &ordering}};
	struct fiber inside = {.stream = &stream, .calls = calls, .depth = 2};
	const struct triggers within = {.count = 1, .items = {{.text = "within", .within = &order}}};
	const struct triggers outside = {.count = 1, .items = {{.text = "outside", .outside = &order}}};
	const struct triggers shallow = {.count = 1, .items = {{.text = "depth", .depth = 2}}};
	const struct trigger_call sells = {.method = &sell, .outcome = outcome, .duration_ns = 1};
	const struct trigger_call orders = {.method = &ordering, .outcome = outcome, .duration_ns = 1};
	const struct triggers *all[] = {&within, &outside, &shallow};
	/* By trigger: inside of both calls, of the outer one, and the call of the selected method itself. */
	static const bool met[3][3] = {{true, false, false}, {false, true, false}, {false, true, true}};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		ordering = (struct method){.class_name = SLICE("Shop"), .separator = '#', .method_name = SLICE("order")};
		other = (struct method){.class_name = SLICE("Shop"), .separator = '#', .method_name = SLICE("other")};
		buffer_free(&sell.prepared);
		inside.depth = 2;
		assert_int_equal(!!triggers_call(all[i], &inside, &sells, &why), met[i][0]);
		inside.depth = 1;
		assert_int_equal(!!triggers_call(all[i], &inside, &sells, &why), met[i][1]);
		assert_int_equal(!!triggers_call(all[i], &inside, &orders, &why), met[i][2]);
		buffer_free(&ordering.prepared);
		buffer_free(&other.prepared);
	}
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

static void an_expression_is_true_where_its_value_says_so(void **state)
{
	static struct slice names[] = {SLICE("item"), SLICE("until1"), SLICE("until3")};
	const struct triggers triggers = {.count = 3,
	                                  .with_truths = true,
	                                  .items = {{.text = "one", .truth = "until1"},
	                                            {.text = "slow", .slow_ns = 5},
	                                            {.text = "three", .truth = "until3"}}};
	struct trigger_call one = {.method = &sell, .outcome = outcome, .duration_ns = 1};
	msgpack_sbuffer texts;
	msgpack_packer packer;

	(void)state;
	sell.labels = (struct labels){.count = 3, .names = names};
	msgpack_sbuffer_init(&texts);
	msgpack_packer_init(&packer, &texts, msgpack_sbuffer_write);
	msgpack_pack_str_with_body(&packer, "true", 4);
	msgpack_pack_str_with_body(&packer, "false", 5);
	msgpack_pack_str_with_body(&packer, "true", 4);
	one.truths = triggers_truths(&triggers, &sell, values_of(&texts, 3));
	assert_int_equal(one.truths, 4);
	assert_ptr_equal(triggers_call(&triggers, &here, &one, &why), &triggers.items[2]);
	/* Fewer values than names: an event has what it has. */
	assert_int_equal(triggers_truths(&triggers, &sell, values_of(&texts, 2)), 0);
	one.truths = 0;
	assert_null(triggers_call(&triggers, &here, &one, &why));
	msgpack_sbuffer_destroy(&texts);
}

static void what_a_call_computed_is_the_number_after_its_texts(void **state)
{
	struct triggers triggers = {.count = 1, .items = {{.text = "cpu", .slow_cpu_ns = 100}}};
	struct trigger_call one = {.method = &sell, .duration_ns = 1000};
	msgpack_sbuffer texts;
	msgpack_packer packer;

	(void)state;
	for (uint64_t cpu_ns = 99; cpu_ns <= 100; cpu_ns++) {
		msgpack_sbuffer_init(&texts);
		msgpack_packer_init(&packer, &texts, msgpack_sbuffer_write);
		msgpack_pack_str_with_body(&packer, "4", 1);
		msgpack_pack_uint64(&packer, cpu_ns);
		one.outcome = values_of(&texts, 2);
		/* Nobody asked for it. */
		triggers.measured = 0;
		assert_null(triggers_call(&triggers, &here, &one, &why));
		triggers.measured = TRACE_CPU;
		assert_int_equal(triggers_call(&triggers, &here, &one, &why) != NULL, cpu_ns == 100);
		msgpack_sbuffer_destroy(&texts);
	}
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
	assert_ptr_equal(triggers_line(&triggers, &here, &line, outcome, &why), &triggers.items[1]);
	is_why("order.rb:42 was reached (--until line)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(all_words_must_be_met_by_one_call, setup, teardown),
		cmocka_unit_test_setup_teardown(the_calls_around_it_are_looked_at, setup, teardown),
		cmocka_unit_test_setup_teardown(exceptions_that_leave_a_call_are_not_those_that_are_raised, setup, teardown),
		cmocka_unit_test_setup_teardown(an_expression_is_true_where_its_value_says_so, setup, teardown),
		cmocka_unit_test_setup_teardown(what_a_call_computed_is_the_number_after_its_texts, setup, teardown),
		cmocka_unit_test_setup_teardown(lines, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
