/* Fields of /proc/PID/status. */

#include "tracer/base/proc_status.h"
#include "unit.h"

#include <sys/syscall.h>
#include <sys/wait.h>
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

static void how_one_ended(void **state)
{
	int status = 0, pidfd;
	pid_t child = fork();
	siginfo_t info;

	(void)state;
	if (child == 0)
		_exit(7);
	pidfd = (int)syscall(SYS_pidfd_open, child, 0);
	assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
	assert_true(proc_wait_status(child, &status));
	assert_int_equal(WEXITSTATUS(status), 7);
	status = 0;
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_false(proc_wait_status(child, &status));
	assert_false(pidfd_wait_status(-1, &status));
	/* Linux before 6.15 does not tell. */
	if (pidfd_wait_status(pidfd, &status))
		assert_int_equal(WEXITSTATUS(status), 7);
	else
		assert_int_equal(status, 0);
	close(pidfd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_word_is_found),
		cmocka_unit_test(a_part_of_one_or_another_field_s_is_not),
		cmocka_unit_test(of_a_process),
		cmocka_unit_test(how_one_ended),
	};

	return cmocka_run_group_tests_name("proc status", tests, NULL, NULL);
}
