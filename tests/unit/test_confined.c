/* What a confined child can do, and what becomes of one that misbehaves. */

#define _GNU_SOURCE
#include "proto/clock.h"
#include "tracer/process/confined.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int run(void (*work)(const struct confined *, const void *), struct buffer *answer, uint64_t budget_ns)
{
	struct target target;
	struct confined_job job = {
		.target = &target, .work = work, .budget_ns = budget_ns, .memory_max = 64u << 20, .answer_max = 100000};

	assert_int_equal(target_describe(&target, getpid(), TARGET_BASIC, NULL), 0);
	return confined_run(&job, answer);
}

static void try_everything(const struct confined *confined, const void *nothing)
{
	char result[8];

	(void)nothing;
	result[0] = fork() < 0 ? 'n' : 'y';
	result[1] = socket(AF_UNIX, SOCK_STREAM, 0) < 0 ? 'n' : 'y';
	result[2] = kill(getppid(), 0) < 0 ? 'n' : 'y';
	result[3] = open("/dev/null", O_WRONLY) < 0 ? 'n' : 'y';
	result[4] = fcntl(confined->answer, F_SETOWN, 1) < 0 ? 'n' : 'y';
	result[5] = setuid(0) < 0 ? 'n' : 'y';
	result[6] = confined_open(confined, "/dev/null") < 0 && confined_open(confined, "/") < 0 ? 'n' : 'y';
	result[7] = confined_open_program(confined) < 0 ? 'n' : 'y';
	confined_answer(confined, result, sizeof(result));
}

static void it_can_do_nothing_but_read(void **state)
{
	struct buffer answer = {0};

	(void)state;
	assert_int_equal(run(try_everything, &answer, 10 * NS_PER_S), 0);
	assert_int_equal(answer.size, 8);
	assert_memory_equal(answer.bytes, "nnnnnnny", 8);
	buffer_free(&answer);
}

static void hang(const struct confined *confined, const void *nothing)
{
	(void)nothing;
	confined_answer(confined, "half", 4);
	for (;;)
		getpid();
}

static void one_that_hangs_is_ended(void **state)
{
	struct buffer answer = {0};

	(void)state;
	assert_int_equal(run(hang, &answer, NS_PER_S / 5), -ETIMEDOUT);
	assert_int_equal(answer.size, 4);
	buffer_free(&answer);
}

static void crash(const struct confined *confined, const void *nothing)
{
	(void)nothing;
	confined_answer(confined, "half", 4);
	raise(SIGSEGV); /* the filter refuses it */
	__builtin_trap();
}

static void one_that_crashes_has_said_what_it_said(void **state)
{
	struct buffer answer = {0};

	(void)state;
	assert_int_equal(run(crash, &answer, 10 * NS_PER_S), -EIO);
	assert_int_equal(answer.size, 4);
	buffer_free(&answer);
}

static void talk(const struct confined *confined, const void *nothing)
{
	static const char text[4096];

	(void)nothing;
	for (;;)
		confined_answer(confined, text, sizeof(text));
}

static void one_that_says_too_much_is_ended(void **state)
{
	struct buffer answer = {0};

	(void)state;
	assert_int_equal(run(talk, &answer, 10 * NS_PER_S), -EMSGSIZE);
	assert_int_equal(answer.size, 100000);
	buffer_free(&answer);
}

static void eat(const struct confined *confined, const void *nothing)
{
	size_t size = 0;

	(void)nothing;
	while (mmap(NULL, 1u << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED &&
	       size < (1u << 30))
		size += 1u << 20;
	confined_answer(confined, &size, sizeof(size));
}

static void memory_is_bounded(void **state)
{
	struct buffer answer = {0};
	size_t size;

	(void)state;
	assert_int_equal(run(eat, &answer, 10 * NS_PER_S), 0);
	assert_int_equal(answer.size, sizeof(size));
	memcpy(&size, answer.bytes, sizeof(size));
	assert_in_range(size, 16u << 20, 64u << 20);
	buffer_free(&answer);
}

static void ids(const struct confined *confined, const void *nothing)
{
	struct stat status;
	uint32_t said[3] = {geteuid(), getegid(), fstat(confined->answer, &status) == 0};

	(void)nothing;
	confined_answer(confined, said, sizeof(said));
}

static void it_has_the_process_s_user(void **state)
{
	struct target target;
	struct confined_job job = {
		.target = &target, .work = ids, .budget_ns = 10 * NS_PER_S, .memory_max = 64u << 20, .answer_max = 100};
	struct buffer answer = {0};
	uint32_t said[3];
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip();
	pid = fork();
	if (pid == 0) {
		/* A failed assertion leaves us. */
		alarm(60);
		if (setgid(61999) != 0 || setuid(61998) != 0)
			_exit(1);
		for (;;)
			pause();
	}
	do
		assert_int_equal(target_describe(&target, pid, TARGET_BASIC, NULL), 0);
	while (target.euid != 61998);
	assert_int_equal(confined_run(&job, &answer), 0);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(answer.size, sizeof(said));
	memcpy(said, answer.bytes, sizeof(said));
	assert_int_equal(said[0], 61998);
	assert_int_equal(said[1], 61999);
	buffer_free(&answer);
	/* One that has ended is nobody to become. */
	assert_int_equal(confined_run(&job, &answer), -EPERM);
	buffer_free(&answer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_can_do_nothing_but_read),
		cmocka_unit_test(one_that_hangs_is_ended),
		cmocka_unit_test(one_that_crashes_has_said_what_it_said),
		cmocka_unit_test(one_that_says_too_much_is_ended),
		cmocka_unit_test(memory_is_bounded),
		cmocka_unit_test(it_has_the_process_s_user),
	};

	return cmocka_run_group_tests_name("confined", tests, NULL, NULL);
}
