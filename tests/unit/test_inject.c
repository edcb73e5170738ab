/* Stopping another process and calling functions in it: a child that counts goes on as it was, whatever was done to it. */

#define _GNU_SOURCE
#include "child.h"
#include "tracer/inject/inject.h"
#include "unit.h"

#include "proto/clock.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define CALL_NS (5 * NS_PER_S)

static struct shared {
	atomic_ulong count; /* the child's steps */
	atomic_bool wrong;  /* something that it keeps in registers was changed */
	pid_t pid;
} * shared;

static struct injection injection;
static struct remote remote = REMOTE_CLOSED;
static pid_t child;

static void count_for_ever(void *unused)
{
	double sum = 0;
	unsigned long expected = 0;

	(void)unused;
	shared->pid = getpid();
	for (;;) {
		sum += 0.5;
		expected++;
		if (atomic_fetch_add(&shared->count, 1) + 1 != expected || sum != (double)expected / 2)
			atomic_store(&shared->wrong, true);
	}
}

/* Functions for the child, which has them where they are here. */
static long seven_times(long number)
{
	return number * 7 + (shared->pid == getpid() ? 0 : 1000);
}

static volatile long *volatile nothing = (volatile long *)16; /* no null pointer: sanitizers would end the child themselves */

static long crash(void)
{
	return *nothing;
}

static void hang(void)
{
	for (;;)
		pause();
}

static void blocked(void)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	sigprocmask(SIG_BLOCK, &signals, NULL);
}

static int setup(void **state)
{
	struct error err = {0};

	(void)state;
	blocked();
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	memset(&injection, 0, sizeof(injection));
	child = child_run(count_for_ever, NULL);
	if (child <= 0 || shared == MAP_FAILED)
		return -1;
	if (remote_open(&remote, child, &err) < 0)
		remote = REMOTE_CLOSED;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	inject_release(&injection);
	remote_close(&remote);
	child_end(child);
	munmap(shared, sizeof(*shared));
	return 0;
}

static void seized(void)
{
	if (arch.refusal) {
		print_message("skipped: %s\n", arch.refusal);
		skip();
	}
	while (atomic_load(&shared->count) == 0)
		usleep(100);
	if (inject_seize(&injection, child) != 0)
		SKIP_UNLESS_TRACING();
	assert_true(injection.seized);
	injection.remote = &remote;
	injection.trap = remote_text_find(&remote, remote_module_named(&remote, "libc"), arch.find_trap);
	if (!injection.trap)
		injection.trap = remote_text_find(&remote, remote_module_named(&remote, "ld-linux-x86-64"), arch.find_trap);
	assert_true(injection.trap != 0);
}

static void stopped(void)
{
	seized();
	assert_int_equal(inject_stop(&injection, clock_now_ns() + CALL_NS), 1);
}

#define ADDRESS(function) ((uint64_t)(uintptr_t)(function))

static int call(uint64_t function, uint64_t argument, uint64_t timeout_ns, uint64_t *result)
{
	const uint64_t arguments[ARCH_ARGUMENTS_MAX] = {argument};

	return inject_call(&injection, function, arguments, timeout_ns, result);
}

/* It makes steps again, and none was wrong. */
static void goes_on(void)
{
	unsigned long before = atomic_load(&shared->count);
	uint64_t deadline_ns = clock_now_ns() + CALL_NS;

	while (atomic_load(&shared->count) < before + 1000 && clock_now_ns() < deadline_ns)
		usleep(100);
	assert_true(atomic_load(&shared->count) >= before + 1000);
	assert_false(atomic_load(&shared->wrong));
}

static void a_stopped_process_stands_still_and_goes_on(void **state)
{
	unsigned long before;

	(void)state;
	stopped();
	before = atomic_load(&shared->count);
	usleep(2000);
	assert_int_equal(atomic_load(&shared->count), before);
	assert_int_equal(inject_resume(&injection), 0);
	goes_on();
	assert_true(injection.stopped_longest_ns >= 2 * NS_PER_MS);
}

static void a_call_gives_its_result_and_leaves_no_trace(void **state)
{
	uint64_t result = 0;

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		if (i == 0)
			stopped();
		else
			assert_int_equal(inject_stop(&injection, clock_now_ns() + CALL_NS), 1);
		for (uint64_t argument = 1; argument < 4; argument++) {
			assert_int_equal(call(ADDRESS(seven_times), argument, CALL_NS, &result), 0);
			assert_int_equal(result, 7 * argument);
		}
		assert_int_equal(inject_resume(&injection), 0);
	}
	goes_on();
}

static void a_function_that_crashes_does_not_take_the_process_with_it(void **state)
{
	uint64_t result;

	(void)state;
	stopped();
	assert_int_equal(call(ADDRESS(crash), 0, CALL_NS, &result), -EFAULT);
	assert_int_equal(inject_resume(&injection), 0);
	goes_on();
}

static void a_function_that_does_not_return_is_left(void **state)
{
	uint64_t result;

	(void)state;
	stopped();
	assert_int_equal(call(ADDRESS(hang), 0, 20 * NS_PER_MS, &result), -ETIMEDOUT);
	assert_int_equal(inject_resume(&injection), 0);
	goes_on();
}

static void only_a_stopped_process_can_be_called(void **state)
{
	uint64_t result;

	(void)state;
	seized();
	assert_int_equal(call(ADDRESS(hang), 0, CALL_NS, &result), -EINVAL);
	assert_int_equal(inject_resume(&injection), 0);
	goes_on();
}

static void the_scratch_memory_is_below_the_stack_that_is_in_use(void **state)
{
	char bytes[INJECT_SCRATCH_SIZE];

	(void)state;
	stopped();
	memset(bytes, 0xa5, sizeof(bytes));
	assert_true(inject_scratch(&injection) + sizeof(bytes) <= arch.sp(&injection.registers) - ARCH_STACK_UNTOUCHABLE);
	assert_true(remote_write(&remote, inject_scratch(&injection), bytes, sizeof(bytes)));
	assert_int_equal(inject_resume(&injection), 0);
	goes_on();
}

/* A signal reaches it while we wait, when it gets a processor. */
static void wait_until_it_stands_still(void)
{
	char path[64], state = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)child);
	for (int i = 0; i < 1000 && state != 'T' && state != 't'; i++) {
		FILE *file = fopen(path, "r");

		inject_wait(&injection, 5 * NS_PER_MS);
		assert_non_null(file);
		assert_int_equal(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
		fclose(file);
	}
}

static void a_process_that_is_stopped_by_job_control_stays_so(void **state)
{
	(void)state;
	seized();
	kill(child, SIGSTOP);
	wait_until_it_stands_still();
	assert_int_equal(inject_stop(&injection, clock_now_ns() + CALL_NS), -EBUSY);
	kill(child, SIGCONT);
	inject_wait(&injection, 5 * NS_PER_MS);
	goes_on();
}

static void a_process_that_has_ended_is_gone(void **state)
{
	uint64_t result;

	(void)state;
	stopped();
	kill(child, SIGKILL);
	assert_int_equal(call(ADDRESS(hang), 0, CALL_NS, &result), -ESRCH);
	assert_int_equal(inject_resume(&injection), -ESRCH);
	assert_int_equal(inject_wait(&injection, CALL_NS), -ESRCH);
	assert_true(injection.gone && !injection.execed);
}

static void what_is_traced_already_cannot_be_seized(void **state)
{
	struct injection second;

	(void)state;
	seized();
	assert_int_equal(inject_seize(&second, child), -EPERM);
	assert_int_equal(inject_seize(&second, 0x3ffffff), -ESRCH);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_stopped_process_stands_still_and_goes_on),
		TEST(a_call_gives_its_result_and_leaves_no_trace),
		TEST(a_function_that_crashes_does_not_take_the_process_with_it),
		TEST(a_function_that_does_not_return_is_left),
		TEST(only_a_stopped_process_can_be_called),
		TEST(the_scratch_memory_is_below_the_stack_that_is_in_use),
		TEST(a_process_that_is_stopped_by_job_control_stays_so),
		TEST(a_process_that_has_ended_is_gone),
		TEST(what_is_traced_already_cannot_be_seized),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
