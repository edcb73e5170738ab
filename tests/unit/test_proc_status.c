/* Fields of /proc/PID/status. */

#include "tracer/proc_status.h"
#include "unit.h"

#include <unistd.h>

static const char text[] =
	"Name:\truby\nState:\tS (sleeping)\nx86_Thread_features:\tshstk wrss \nx86_Thread_features_locked:\t\nThreads:\t3\n";

static void a_word_is_found(void **state)
{
	(void)state;
	assert_true(status_text_has(text, "x86_Thread_features", "shstk"));
	assert_true(status_text_has(text, "x86_Thread_features", "wrss"));
	assert_true(status_text_has(text, "State", "S"));
}

static void a_part_of_one_or_another_field_s_is_not(void **state)
{
	(void)state;
	assert_false(status_text_has(text, "x86_Thread_features", "sh"));
	assert_false(status_text_has(text, "x86_Thread_features_locked", "shstk"));
	assert_false(status_text_has(text, "Threads", "shstk"));
	assert_false(status_text_has(text, "CapEff", "shstk"));
	assert_false(status_text_has("", "State", "S"));
}

static void of_a_process(void **state)
{
	(void)state;
	assert_true(proc_status_has(getpid(), "State", "(running)"));
	assert_int_equal(proc_status_number(getpid(), "Pid", 10, 0), getpid());
	assert_int_equal(proc_status_number(0, "Pid", 10, 7), 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_word_is_found),
		cmocka_unit_test(a_part_of_one_or_another_field_s_is_not),
		cmocka_unit_test(of_a_process),
	};

	return cmocka_run_group_tests_name("proc status", tests, NULL, NULL);
}
