/* What lies on the stack of a thread that waits in a read: leftovers of malloc and the loader, and where they do not matter. */

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
#define OF_MALLOC "_cmocka_run_group_tests"
#define OF_LOADER "_dl_mcount" /* none that a sanitizer puts its own in front of */

struct reading {
	const char *function; /* an address in there is left on the stack */
	int fd;
};

static struct injection injection;
static struct remote remote = REMOTE_CLOSED;
static pid_t child;

static void read_for_ever(void *argument)
{
	const struct reading *reading = (const struct reading *)argument;
	volatile uint64_t left[4];
	uint64_t bytes; /* as many as an event needs */

	for (size_t i = 0; i < sizeof(left) / sizeof(*left); i++)
		left[i] = (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, reading->function);
	for (;;)
		/* libc's read() may be a sanitizer's, which has a malloc. */
		syscall(SYS_read, reading->fd, &bytes, sizeof(bytes));
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

/* What was read from another child's stack lies on ours, and a child has that as its own. */
static __attribute__((noinline)) void wipe_stack(void)
{
	volatile uint64_t words[4096];

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		words[i] = 0;
}

static __attribute__((noinline)) const char *find_objection(int fd, const char *function)
{
	struct reading reading = {function, fd};
	struct stop_check check;
	struct error err = {0};
	const char *objection;

	if (arch.refusal) {
		print_message("skipped: %s\n", arch.refusal);
		skip();
	}
	memset(&injection, 0, sizeof(injection));
	child = child_run(read_for_ever, &reading);
	assert_true(child > 0);
	if (remote_open(&remote, child, &err) < 0 || inject_seize(&injection, child) != 0)
		SKIP_UNLESS_TRACING();
	injection.remote = &remote;
	assert_true(stop_check_init(&check, &remote));
	check.allocators[0] = remote_module_named(&remote, LIBRARY);
	assert_non_null(check.allocators[0]);
	/* The library runs these tests: its own return addresses are further up. */
	check.allocator_count = strcmp(function, OF_MALLOC) == 0;
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

/* The objection to a child that reads there, with such an address on its stack. */
static const char *objection_to(int fd, const char *function)
{
	wipe_stack();
	return find_objection(fd, function);
}

static void expect_none(const char *objection)
{
	if (objection)
		fail_msg("%s", objection);
}

static void from_a_pipe_neither_reads(void **state)
{
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	expect_none(objection_to(ends[0], OF_MALLOC));
	teardown(state);
	expect_none(objection_to(ends[0], OF_LOADER));
	close(ends[0]);
	close(ends[1]);
}

static void from_anything_else_both_may(void **state)
{
	int fd = eventfd(0, 0);

	assert_true(fd >= 0);
	assert_string_equal(objection_to(fd, OF_MALLOC), "it was allocating memory");
	teardown(state);
	assert_string_equal(objection_to(fd, OF_LOADER), "it was in the dynamic loader");
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(from_a_pipe_neither_reads, setup, teardown),
		cmocka_unit_test_setup_teardown(from_anything_else_both_may, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
