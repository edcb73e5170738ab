/* Ringing a process by its descriptor: never another one that has its number meanwhile. */

#define _GNU_SOURCE
#include "proto/bell.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRIES 200

/* A child that ends with 1 when it gets SIGURG, and with 0 when it gets SIGTERM. */
static pid_t child_start(void)
{
	sigset_t both;
	pid_t pid;

	sigemptyset(&both);
	sigaddset(&both, SIGURG);
	sigaddset(&both, SIGTERM);
	sigprocmask(SIG_BLOCK, &both, NULL);
	pid = fork();
	if (pid == 0) {
		int number = 0;

		while (number != SIGURG && number != SIGTERM)
			number = sigwaitinfo(&both, NULL);
		_exit(number == SIGURG);
	}
	sigprocmask(SIG_UNBLOCK, &both, NULL);
	return pid;
}

static int child_end(pid_t pid)
{
	int status = 0;

	kill(pid, SIGTERM);
	waitpid(pid, &status, 0);
	return WEXITSTATUS(status);
}

/* The next PID is the one behind this. */
static int choose_next_pid(pid_t pid)
{
	FILE *file = fopen("/proc/sys/kernel/ns_last_pid", "we");
	int written = file ? fprintf(file, "%d", (int)pid - 1) : -1;

	return file && fclose(file) == 0 && written > 0 ? 0 : -1;
}

static void who_is_meant_is_rung(void **state)
{
	pid_t pid = child_start();
	int process = (int)syscall(SYS_pidfd_open, pid, 0), status;

	(void)state;
	assert_int_equal(bell_ring(pid, process, false), 0);
	waitpid(pid, &status, 0);
	assert_int_equal(WEXITSTATUS(status), 1);
	assert_int_equal(bell_ring(pid, process, false), -ESRCH);
	assert_int_equal(bell_ring_thread(pid, process, pid), -ESRCH);
	close(process);
	pid = child_start();
	assert_int_equal(bell_ring(pid, -1, false), 0);
	waitpid(pid, &status, 0);
	assert_int_equal(WEXITSTATUS(status), 1);
}

static void another_process_with_its_number_is_not(void **state)
{
	pid_t first, second = 0;
	int process = -1;

	(void)state;
	for (int i = 0; i < TRIES && second == 0; i++) {
		first = child_start();
		process = (int)syscall(SYS_pidfd_open, first, 0);
		child_end(first);
		if (process < 0 || choose_next_pid(first) != 0)
			skip();
		second = child_start();
		if (second != first) {
			child_end(second);
			close(process);
			second = 0;
		}
	}
	if (second == 0)
		skip();
	assert_int_equal(bell_ring(second, process, false), -ESRCH);
	assert_int_equal(bell_ring_thread(second, process, second), -ESRCH);
	assert_int_equal(child_end(second), 0);
	close(process);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_is_meant_is_rung),
		cmocka_unit_test(another_process_with_its_number_is_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
