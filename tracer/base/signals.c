/* Signals through a pipe. See signals.h. */

#define _GNU_SOURCE
#include "tracer/base/signals.h"

#include "proto/clock.h"
#include "tracer/base/leave.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#define ONCE_NS (300 * NS_PER_MS)

static const int handled[] = {SIGINT, SIGTERM, SIGHUP};

/* Global because signal handlers have no argument for it. */
static struct {
	int pipe[2];
	volatile sig_atomic_t received;
	volatile uint64_t first_ns; /* when the first of them came; handlers only */
	volatile sig_atomic_t outlives_interrupts;
	struct sigaction before[sizeof(handled) / sizeof(*handled)], pipe_before, limit_before, question_before;
	bool limit_ignored, questions_taken;
} signals = {.pipe = {-1, -1}};

/*
 * Who sends the same to a process and to its group, as timeout(1) does, means it once; so does a bouncing key. A second
 * signal after that is an order to end at once.
 */
static bool is_another(void)
{
	uint64_t now_ns = clock_now_ns();

	if (signals.received && now_ns - signals.first_ns < ONCE_NS)
		return false;
	if (!signals.received++)
		signals.first_ns = now_ns;
	return true;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	int saved = errno;
	unsigned char byte =
		(unsigned char)(number |
	                        (info->si_code == SI_USER || info->si_code == SI_TKILL || info->si_code == SI_QUEUE ? 0x80 : 0));

	(void)context;
	if (!(signals.outlives_interrupts && number == SIGINT) && is_another() && signals.received > 1)
		leave_at_once(128 + number, NULL);
	if (write(signals.pipe[1], &byte, 1) < 0)
		errno = saved;
	errno = saved;
}

int signals_install(void)
{
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};

	if (signals.pipe[0] >= 0)
		return signals.pipe[0];
	if (pipe2(signals.pipe, O_CLOEXEC | O_NONBLOCK) != 0)
		return -errno;
	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < sizeof(handled) / sizeof(*handled); i++) {
		sigaction(handled[i], NULL, &signals.before[i]);
		if (signals.before[i].sa_handler != SIG_IGN || handled[i] != SIGHUP) /* nohup */
			sigaction(handled[i], &action, NULL);
	}
	action = (struct sigaction){.sa_handler = SIG_IGN};
	sigaction(SIGPIPE, &action, &signals.pipe_before);
	return signals.pipe[0];
}

static void on_question(int number)
{
	int saved = errno;
	unsigned char byte = (unsigned char)(number | 0x80);

	if (write(signals.pipe[1], &byte, 1) < 0)
		errno = saved; /* as many are waiting as a pipe holds: one more is the same question */
	errno = saved;
}

void signals_take_questions(void)
{
	const struct sigaction action = {.sa_handler = on_question};

	if (!signals.questions_taken)
		sigaction(SIGUSR1, &action, &signals.question_before);
	signals.questions_taken = true;
}

int signals_take(bool *sent_by_process)
{
	unsigned char byte;

	if (read(signals.pipe[0], &byte, 1) != 1)
		return 0;
	*sent_by_process = (byte & 0x80) != 0;
	return byte & 0x7f;
}

const char *signals_word(int number)
{
	return number == SIGINT ? "interrupted" : number == SIGTERM ? "terminated" : "hung up";
}

void signals_forgive(void)
{
	signals.received = 0;
}

void signals_outlive_interrupts(void)
{
	signals.outlives_interrupts = 1;
}

void signals_ignore_file_limit(void)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN};

	if (!signals.limit_ignored)
		sigaction(SIGXFSZ, &ignore, &signals.limit_before);
	signals.limit_ignored = true;
}

void signals_restore(void)
{
	if (signals.limit_ignored)
		sigaction(SIGXFSZ, &signals.limit_before, NULL);
	if (signals.questions_taken)
		sigaction(SIGUSR1, &signals.question_before, NULL);
	for (size_t i = 0; i < sizeof(handled) / sizeof(*handled); i++)
		sigaction(handled[i], &signals.before[i], NULL);
	sigaction(SIGPIPE, &signals.pipe_before, NULL);
}
