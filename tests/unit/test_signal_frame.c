/*
 * What tracer/process/arch.h makes of the frames that the kernel puts on the stack for signal handlers, found as
 * tracer/inject/stop_check.c does: compared with what the handler itself is told.
 */

#define _GNU_SOURCE
#include "child.h"
#include "tracer/base/proc_file.h"
#include "tracer/inject/remote.h"
#include "tracer/process/arch.h"
#include "unit.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define REACH 8192 /* bytes of the stack */

static struct remote remote;
static uint64_t marks[2]; /* words, either of which is in each frame; 0: none */

static struct {
	unsigned frames;
	struct arch_signal_frame frame;
	uint64_t pc;
	int answer; /* a descriptor to write to; -1: none */
} seen;

static uint64_t pc_of(const ucontext_t *context)
{
#if defined(__x86_64__)
	return (uint64_t)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return context->uc_mcontext.pc;
#else
	(void)context;
	return 0;
#endif
}

static void handler(int signal, siginfo_t *info, void *context)
{
	/* Not on the stack: on aarch64 a function's variables are between its frame's address and its caller's frame. */
	static uint64_t words[REACH / sizeof(uint64_t)];
	uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0);
	size_t count = sizeof(words) / sizeof(*words);

	(void)signal;
	(void)info;
	seen.pc = pc_of(context);
	/* With a small environment the stack ends before. */
	while (count > 0 && !remote_read(&remote, here, words, count * sizeof(*words)))
		count--;
	for (size_t i = arch.signal_frame_word_at / sizeof(*words); i < count; i++) {
		struct arch_signal_frame frame;
		uint64_t at = here + i * sizeof(*words) - arch.signal_frame_word_at;
		uint8_t bytes[ARCH_SIGNAL_FRAME_SIZE], code[2 * ARCH_CODE_AROUND];

		if (!words[i] || (words[i] != marks[0] && words[i] != marks[1]) ||
		    !remote_read(&remote, at, bytes, sizeof(bytes)))
			continue;
		arch.signal_frame_decode(bytes, &frame);
		if (frame.signal != SIGUSR1 || !remote_read(&remote, frame.pc - ARCH_CODE_AROUND, code, sizeof(code)))
			continue;
		arch.signal_frame_judge(&frame, code);
		seen.frame = frame;
		seen.frames++;
	}
	if (seen.answer >= 0 && write(seen.answer, "!", 1) != 1)
		_exit(1);
}

static int setup(void **state)
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
	struct error err = {0};

	(void)state;
	if (arch.refusal)
		return 0;
	memset(&seen, 0, sizeof(seen));
	seen.answer = -1;
	sigaddset(&action.sa_mask, SIGUSR2);
	if (remote_open(&remote, getpid(), &err) < 0)
		return -1;
	marks[0] = arch.signal_frame_word;
	if (arch.find_restorer) {
		marks[0] = remote_text_find(&remote, remote_module_named(&remote, "libc"), arch.find_restorer);
		marks[1] = remote_text_find(&remote, remote_module_named(&remote, "libpthread"), arch.find_restorer);
	}
	return sigaction(SIGUSR1, &action, NULL);
}

static int teardown(void **state)
{
	(void)state;
	if (!arch.refusal)
		remote_close(&remote);
	return 0;
}

static void skip_where_refused(void)
{
	if (arch.refusal) {
		print_message("skipped: %s\n", arch.refusal);
		skip();
	}
}

static void a_frame_says_what_was_interrupted(void **state)
{
	sigset_t before;
	uint64_t mask = 0;

	(void)state;
	skip_where_refused();
	sigprocmask(SIG_BLOCK, NULL, &before);
	memcpy(&mask, &before, sizeof(mask));
	raise(SIGUSR1);
	assert_int_equal(seen.frames, 1);
	assert_int_equal(seen.frame.pc, seen.pc);
	assert_int_equal(seen.frame.mask, mask);
	/* raise() was in the call that sent the signal, and that had ended. */
	assert_true(seen.frame.at_system_call);
	assert_false(seen.frame.restarts);
	assert_int_equal(seen.frame.result, 0);
}

/* Once the parent sleeps, which it does in read(). */
static void interrupt(void *argument)
{
	uint64_t start_ticks;
	char state = '\0';

	(void)argument;
	while (state != 'S')
		if (proc_stat_read(getppid(), &state, &start_ticks) < 0)
			return;
	kill(getppid(), SIGUSR1);
	child_wait_for_ever(NULL);
}

static void a_call_that_begins_again_is_known(void **state)
{
	char byte;
	int ends[2];
	pid_t child;

	(void)state;
	skip_where_refused();
	assert_int_equal(pipe(ends), 0);
	seen.answer = ends[1];
	child = child_run(interrupt, NULL);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	child_end(child);
	assert_int_equal(seen.frames, 1);
	assert_true(seen.frame.restarts);
	assert_int_equal(seen.frame.number, SYS_read);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_frame_says_what_was_interrupted, setup, teardown),
		cmocka_unit_test_setup_teardown(a_call_that_begins_again_is_known, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
