/* What lies on the stack of a thread that waits in a read: a malloc library's leftovers there, and where they do not matter. */

#define _GNU_SOURCE
#include "child.h"
#include "proto/clock.h"
#include "tracer/inject/stop_check.h"
#include "unit.h"

#include <dlfcn.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

/* A library that is there in any case stands for one that has malloc. */
#define LIBRARY "libcmocka"
#define FUNCTION "_cmocka_run_group_tests"

static struct injection injection;
static struct remote remote = REMOTE_CLOSED;
static pid_t child;

static void read_for_ever(void *fd)
{
	volatile uint64_t left[4];
	uint64_t bytes; /* as many as an event needs */

	for (size_t i = 0; i < sizeof(left) / sizeof(*left); i++)
		left[i] = (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, FUNCTION);
	for (;;)
		/* libc's read() may be a sanitizer's, which has a malloc. */
		syscall(SYS_read, *(const int *)fd, &bytes, sizeof(bytes));
}

/* A stop is waited for by its SIGCHLD. */
static int setup(void **state)
{
	sigset_t signals;

	(void)state;
	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	return sigprocmask(SIG_BLOCK, &signals, NULL);
}

static int teardown(void **state)
{
	(void)state;
	inject_release(&injection);
	remote_close(&remote);
	child_end(child);
	return 0;
}

/* The objection to a child that reads there. */
static const char *objection_to(int fd)
{
	struct stop_check check;
	struct error err = {0};
	const char *objection;

	if (arch.refusal) {
		print_message("skipped: %s\n", arch.refusal);
		skip();
	}
	memset(&injection, 0, sizeof(injection));
	child = child_run(read_for_ever, &fd);
	assert_true(child > 0);
	if (remote_open(&remote, child, &err) < 0 || inject_seize(&injection, child) != 0)
		SKIP_UNLESS_TRACING();
	injection.remote = &remote;
	assert_true(stop_check_init(&check, &remote));
	check.allocator_count = 1;
	check.allocators[0] = remote_module_named(&remote, LIBRARY);
	assert_non_null(check.allocators[0]);
	do {
		assert_int_equal(inject_stop(&injection, clock_now_ns() + 10 * NS_PER_S), 1);
		objection = stop_check_objection(&check, &injection);
		if (injection.registers.system_call == SYS_read)
			break;
		inject_resume(&injection);
		usleep(1000);
	} while (true);
	inject_resume(&injection);
	return objection;
}

static void a_pipe_is_none_of_mallocs(void **state)
{
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_null(objection_to(ends[0]));
	close(ends[0]);
	close(ends[1]);
}

static void anything_else_may_be(void **state)
{
	int fd = eventfd(0, 0);

	(void)state;
	assert_true(fd >= 0);
	assert_string_equal(objection_to(fd), "it was allocating memory");
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_pipe_is_none_of_mallocs, setup, teardown),
		cmocka_unit_test_setup_teardown(anything_else_may_be, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
