/* Lines that are alike are written twenty times, and then counted. */

#define _GNU_SOURCE
#include "stderr_fixture.h"
#include "tracer/base/flood.h"
#include "tracer/base/message.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>

static struct flood flood;

static void lines_are_alike_but_for_names_and_numbers(void **state)
{
	(void)state;
	assert_int_equal(flood_count(&flood, "process 12: Order#save cannot be traced by engine target: it is a fake"), 1);
	assert_int_equal(flood_count(&flood, "process 4711: Billing::Cart.add cannot be traced by engine target: it is a fake"),
	                 2);
	assert_int_equal(flood_count(&flood, "process 4711: Billing::Cart.add cannot be traced by engine patch: it is a fake"),
	                 1);
	assert_int_equal(flood_count(&flood, "worker 12 joined"), 1);
	assert_int_equal(flood_count(&flood, "worker 12 left"), 1);
	assert_int_equal(flood_count(&flood, "worker 13 left"), 2);
	assert_int_equal(flood_count(&flood, ""), 1);
}

static void more_kinds_than_are_told_apart(void **state)
{
	char text[] = "aaa";

	(void)state;
	memset(&flood, 0, sizeof(flood));
	for (unsigned i = 0; i < FLOOD_KINDS; i++) {
		text[0] = (char)('a' + i % 26);
		text[1] = (char)('a' + i / 26);
		assert_int_equal(flood_count(&flood, text), 1);
	}
	assert_int_equal(flood_count(&flood, "others"), 0);
	assert_int_equal(flood_count(&flood, "aaa"), 2);
}

static void the_first_twenty_and_how_many_more(void **state)
{
	char expected[1000] = "";

	(void)state;
	for (int i = 1; i <= 50; i++) {
		message_often("worker %d joined", i);
		if (i <= 20)
			sprintf(expected + strlen(expected), "rbprobe: worker %d joined\n", i);
	}
	message_often("worker %d left", 1);
	message("worker %d joined", 51);
	strcat(expected, "rbprobe: more lines like the last one are left out; -v shows them\nrbprobe: worker 1 left\n"
	                 "rbprobe: worker 51 joined\n");
	assert_string_equal(stderr_take(), expected);
	message_often_end();
	assert_string_equal(stderr_take(), "rbprobe: 30 lines like \"worker 1 joined\" were left out; -v shows them\n");
	message_often_end();
	assert_string_equal(stderr_take(), "");
	message_show_all();
	for (int i = 1; i <= 21; i++)
		message_often("a%d", i);
	message_often_end();
	assert_non_null(strstr(stderr_take(), "a20\nrbprobe: a21\n"));
	assert_string_equal(stderr_take(), "");
}

static int begin(void **state)
{
	(void)state;
	return stderr_begin();
}

static int end(void **state)
{
	(void)state;
	stderr_end();
	return 0;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_alike_but_for_names_and_numbers),
		cmocka_unit_test(more_kinds_than_are_told_apart),
		cmocka_unit_test_setup_teardown(the_first_twenty_and_how_many_more, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
