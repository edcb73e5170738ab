/* Which methods `rbprobe top` chooses by itself, and who it says calls them. */

#include "stream_fixture.h"
#include "tracer/top/top_callers.h"
#include "tracer/top/top_hot.h"
#include "tracer/top/top_select.h"

#include <stdlib.h>

static struct top_hot hot;

static int teardown(void **state)
{
	(void)state;
	top_hot_free(&hot);
	return 0;
}

static void pack_word(msgpack_packer *packer, const char *text)
{
	msgpack_pack_str_with_body(packer, text, strlen(text));
}

/* A thread's stack, innermost first, up to a NULL. */
static void look(uint64_t thread, uint64_t cpu_ns, uint32_t line, const char *const *labels)
{
	msgpack_sbuffer packed;
	msgpack_packer packer;
	msgpack_unpacked unpacked;
	size_t count = 0;

	while (labels[count])
		count++;
	msgpack_sbuffer_init(&packed);
	msgpack_packer_init(&packer, &packed, msgpack_sbuffer_write);
	msgpack_pack_map(&packer, 4);
	pack_word(&packer, "type");
	pack_word(&packer, "thread");
	pack_word(&packer, "id");
	msgpack_pack_uint64(&packer, thread);
	pack_word(&packer, "cpu_ns");
	msgpack_pack_uint64(&packer, cpu_ns);
	pack_word(&packer, "frames");
	msgpack_pack_array(&packer, count);
	for (size_t i = 0; i < count; i++) {
		msgpack_pack_map(&packer, 2);
		pack_word(&packer, "label");
		pack_word(&packer, labels[i]);
		pack_word(&packer, "line");
		msgpack_pack_uint32(&packer, line);
	}
	msgpack_unpacked_init(&unpacked);
	assert_int_equal(msgpack_unpack_next(&unpacked, packed.data, packed.size, NULL), MSGPACK_UNPACK_SUCCESS);
	top_hot_add(&hot, 7, &unpacked.data);
	msgpack_unpacked_destroy(&unpacked);
	msgpack_sbuffer_destroy(&packed);
}

/* The names that are chosen, with blanks between them. */
static void assert_chosen(const char *expected, size_t max, size_t unnamed_expected)
{
	char *names[50], text[500] = "";
	size_t unnamed, count = top_hot_take(&hot, names, max, &unnamed);

	for (size_t i = 0; i < count; i++) {
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? " " : "", names[i]);
		free(names[i]);
	}
	assert_string_equal(text, expected);
	assert_int_equal(unnamed, unnamed_expected);
}

static void methods_near_the_inner_end_come_first(void **state)
{
	(void)state;
	look(1, 0, 1000, (const char *const[]){"A#first", NULL}); /* nobody knows whether it has moved */
	for (uint32_t line = 0; line < 10; line++) {
		look(1, 0, line, (const char *const[]){"Order#price", "block in Order#total", "Cart#show", "<main>", NULL});
		look(1, 0, line + 100, (const char *const[]){"String#+", "Cart#show", "<main>", NULL});
	}
	assert_chosen("Order#price String#+ Cart#show Order#total", 50, 0);
}

static void only_so_many_are_chosen(void **state)
{
	(void)state;
	for (uint32_t line = 0; line < 3; line++)
		look(1, 0, line, (const char *const[]){"A#a", "A#b", "A#c", NULL});
	assert_chosen("A#a A#b", 2, 0);
}

static void a_thread_that_waits_does_not_count(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 5; i++) {
		look(1, 1000, 3, (const char *const[]){"IO#gets", "Gateway.wait", NULL});
		look(2, i * 20000000, 3, (const char *const[]){"Ranking#distance", NULL});
		look(3, 1000, i, (const char *const[]){"Item#price", NULL});
	}
	assert_chosen("Item#price Ranking#distance", 50, 0);
}

static void a_method_counts_once_for_each_stack(void **state)
{
	(void)state;
	for (uint32_t line = 0; line < 3; line++) {
		look(1, 0, line, (const char *const[]){"A#leaf", "A#down", "A#down", "A#down", "A#down", "A#down", NULL});
		look(1, 0, line + 10, (const char *const[]){"A#leaf", NULL});
	}
	assert_chosen("A#leaf A#down", 50, 0);
}

static void methods_that_no_selector_is_for_are_counted(void **state)
{
	(void)state;
	for (uint32_t line = 0; line < 3; line++)
		look(1, 0, line,
		     (const char *const[]){"(rbprobe):3", "nameless", "block in Order#save", "<class:Order>", "<top (required)>",
		                           NULL});
	assert_chosen("Order#save", 50, 2);
}

static void only_a_name_of_one_method_is_a_selector(void **state)
{
	static const char *const good[] = {"Order#save", "Billing::Order.load!", "Integer#*", "Integer#**",       "Order#[]=",
	                                   "Order#==",   "Order#name=",          "Order#`",   "#<Class:0x1>#save"};
	static const char *const bad[] = {"save",        "Order#",       "Order#sa*", "*#save",    "Order#a b",
	                                  "order.rb:12", "Order#a\\x1b", "",          "Order#a(b)"};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		if (!top_select_one((struct slice){good[i], strlen(good[i])}))
			fail_msg("%s is a selector", good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (top_select_one((struct slice){bad[i], strlen(bad[i])}))
			fail_msg("%s is none", bad[i]);
	assert_slice(top_select_in_label(SLICE("block (2 levels) in Gateway.charge")), "Gateway.charge");
	assert_slice(top_select_in_label(SLICE("rescue in block in Order#save")), "Order#save");
	assert_null(top_select_in_label(SLICE("block in <main>")).bytes);
}

/* --- Callers */

static const struct caller main_frame = {
	.label = {"<main>", sizeof("<main>") - 1}, .file = {"a.rb", sizeof("a.rb") - 1}, .line = 9};
static const struct caller one = {
	.parent = &main_frame, .label = {"Cart#one", sizeof("Cart#one") - 1}, .file = {"a.rb", sizeof("a.rb") - 1}, .line = 1};
static const struct caller two = {
	.parent = &main_frame, .label = {"Cart#two", sizeof("Cart#two") - 1}, .file = {"a.rb", sizeof("a.rb") - 1}, .line = 2};
static const struct caller deep = {
	.parent = &two, .label = {"Cart#deep", sizeof("Cart#deep") - 1}, .file = {"a.rb", sizeof("a.rb") - 1}, .line = 3};

static void assert_callers(struct top_callers *callers, const char *expected)
{
	struct buffer text = {0};

	top_callers_write(callers, &text);
	buffer_add_char(&text, '\0');
	assert_string_equal(text.bytes, expected);
	buffer_free(&text);
	top_callers_free(callers);
}

static void callers_are_added_up_as_a_tree(void **state)
{
	struct top_callers callers = {0};

	(void)state;
	for (int i = 0; i < 6; i++)
		top_callers_add(&callers, &two);
	for (int i = 0; i < 2; i++)
		top_callers_add(&callers, &one);
	top_callers_add(&callers, &deep);
	top_callers_add(&callers, NULL);
	assert_callers(&callers, "  60.0 %   Cart#two  a.rb:2\n"
	                         "  60.0 %   <main>  a.rb:9\n"
	                         "  20.0 %   Cart#one  a.rb:1\n"
	                         "  20.0 %   <main>  a.rb:9\n"
	                         "  10.0 %   Cart#deep  a.rb:3\n"
	                         "  10.0 %   Cart#two  a.rb:2\n"
	                         "  10.0 %   <main>  a.rb:9\n"
	                         "  10.0 %   not known\n");
}

static void callers_of_a_caller_stand_to_its_right(void **state)
{
	static const struct caller by_one = {
		.parent = &one, .label = {"Cart#sum", sizeof("Cart#sum") - 1}, .file = {"a.rb", sizeof("a.rb") - 1}, .line = 5};
	static const struct caller by_two = {
		.parent = &two, .label = {"Cart#sum", sizeof("Cart#sum") - 1}, .file = {"a.rb", sizeof("a.rb") - 1}, .line = 5};
	struct top_callers callers = {0};

	(void)state;
	top_callers_add(&callers, &by_one);
	top_callers_add(&callers, &by_one);
	top_callers_add(&callers, &by_one);
	top_callers_add(&callers, &by_two);
	assert_callers(&callers, " 100.0 %   Cart#sum  a.rb:5\n"
	                         "  75.0 %     Cart#one  a.rb:1\n"
	                         "  75.0 %     <main>  a.rb:9\n"
	                         "  25.0 %     Cart#two  a.rb:2\n"
	                         "  25.0 %     <main>  a.rb:9\n");
}

static void as_many_calls_are_in_any_order_but_once(void **state)
{
	struct top_callers callers = {0};

	(void)state;
	top_callers_add(&callers, &main_frame);
	top_callers_add(&callers, &one);
	top_callers_add(&callers, &two);
	top_callers_add(&callers, &deep);
	assert_callers(&callers, "  25.0 %   Cart#deep  a.rb:3\n"
	                         "  25.0 %   Cart#two  a.rb:2\n"
	                         "  25.0 %   <main>  a.rb:9\n"
	                         "  25.0 %   Cart#two  a.rb:2\n"
	                         "  25.0 %   <main>  a.rb:9\n"
	                         "  25.0 %   Cart#one  a.rb:1\n"
	                         "  25.0 %   <main>  a.rb:9\n"
	                         "  25.0 %   <main>  a.rb:9\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(methods_near_the_inner_end_come_first, teardown),
		cmocka_unit_test_teardown(only_so_many_are_chosen, teardown),
		cmocka_unit_test_teardown(a_thread_that_waits_does_not_count, teardown),
		cmocka_unit_test_teardown(a_method_counts_once_for_each_stack, teardown),
		cmocka_unit_test_teardown(methods_that_no_selector_is_for_are_counted, teardown),
		cmocka_unit_test(only_a_name_of_one_method_is_a_selector),
		cmocka_unit_test(callers_are_added_up_as_a_tree),
		cmocka_unit_test(callers_of_a_caller_stand_to_its_right),
		cmocka_unit_test(as_many_calls_are_in_any_order_but_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
