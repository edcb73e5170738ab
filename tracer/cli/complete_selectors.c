/*
 * Asking a process for selectors while a shell waits. See complete_selectors.h.
 *
 * What a process does to whoever attaches cannot be foreseen: it may be stopped, or hang where even looking at it hangs. So a
 * child asks, and writes what it finds to a pipe; the shell's own descriptors are not open there. At a signal, as at the end of
 * its time, it ends the session as any command does; its parent does not wait for that.
 */

#define _GNU_SOURCE
#include "tracer/cli/complete_selectors.h"

#include "proto/clock.h"
#include "tracer/base/close_from.h"
#include "tracer/base/poll_until.h"
#include "tracer/base/signals.h"
#include "tracer/cli/complete_request.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHELL_WAITS_NS (2500 * NS_PER_MS)
#define ASKING_NS (2200 * NS_PER_MS) /* of it; the rest is for ending the session */
#define LINE_EXTRA 2                 /* bytes that go with each selector: a tab, a newline */
#define STAND_IN "Object#x"          /* for the selector that is not complete, when the line is read */
#define END '\0'                     /* the last byte in the pipe: helpers of the child may still hold its end */

/* --- The child */

struct asking {
	struct selector_search search;
	int pipe, signals;
	uint64_t deadline_ns;
	bool enough; /* no more is wanted, or nobody is there to take it */
};

/* What was found since the last time. */
static void deliver(struct asking *asking)
{
	struct buffer *answer = &asking->search.answer;
	size_t sent = 0;

	while (sent < answer->size && !asking->enough) {
		ssize_t size = write(asking->pipe, answer->bytes + sent, answer->size - sent);

		if (size < 0 && errno != EINTR)
			asking->enough = true;
		sent += size > 0 ? (size_t)size : 0;
	}
	answer->size = 0;
}

static int on_match(struct request *request, const struct record_match *match, struct error *err)
{
	struct asking *asking = request->owner;

	(void)err;
	if (!selector_search_take(&asking->search, match))
		asking->enough = true;
	return 0;
}

/* Whatever becomes of it, nothing is said. */
static void on_done(struct request *request, uint32_t code, struct slice text)
{
	(void)request;
	(void)code;
	(void)text;
}

static void ask(struct asking *asking, pid_t pid, const struct options *options)
{
	static const struct request_handler handler = {.reply_ends = true, .match = on_match, .done = on_done};
	struct command command = selector_search_command(&asking->search);
	struct request request;
	bool from_process;

	command.options.work_limit_ms = (uint32_t)(ASKING_NS / NS_PER_MS);
	request_open(&request, pid, &command, options, &handler, asking);
	while (!request.over && !asking->enough && clock_now_ns() < asking->deadline_ns && !signals_take(&from_process)) {
		struct pollfd polled[] = {{.fd = asking->signals, .events = POLLIN},
		                          {.fd = request_descriptor(&request), .events = POLLIN}};
		uint64_t wake_ns = request_wake_ns(&request);

		poll_until(polled, 2, wake_ns < asking->deadline_ns ? wake_ns : asking->deadline_ns);
		request_step(&request, polled[1].revents != 0, clock_now_ns());
		deliver(asking);
	}
	request_close(&request);
}

/* The words as they would be run, if the selector were complete. Belongs to the caller; NULL after the last. */
static char **whole_line(const struct selector_question *question)
{
	char **words = memory_zeroed((question->count + 2) * sizeof(*words));
	struct buffer last = {0}, name = {0};

	buffer_add_format(&name, "rbprobe %s", question->subcommand->name);
	buffer_add_char(&name, '\0');
	words[0] = name.bytes;
	for (size_t i = 0; i + 1 < question->count; i++) {
		size_t size = strlen(question->words[i]) + 1;

		words[i + 1] = memcpy(memory_resize(NULL, size), question->words[i], size);
	}
	buffer_add(&last, question->words[question->count - 1], question->before);
	buffer_add(&last, STAND_IN, sizeof(STAND_IN));
	words[question->count] = last.bytes;
	return words;
}

/*
 * The one place that decides whether a TAB attaches to a process, and so may load the extension: where the line, as far as it
 * is written, is one that the command takes, and names its process by PID. 0: it does not. Of several processes the first is
 * asked, where the command takes several. What stops for good until somebody lets it go on is not waited for.
 */
static pid_t process_to_ask(const struct selector_question *question, struct invocation *invocation)
{
	const struct options *options = &invocation->options;
	struct target target = {0};
	char state;

	if (invocation_parse(invocation, (int)question->count + 1, whole_line(question)) != 0)
		return 0;
	if (options->ps_pattern || options->wait_pattern || options->all_processes || options->children || invocation->words)
		return 0;
	if (!options->pids.count || (question->subcommand->pids == PIDS_ONE && options->pids.count > 1))
		return 0;
	if (target_describe(&target, options->pids.items[0], TARGET_BASIC, NULL) < 0)
		return 0;
	state = target_state(&target);
	return state && state != 'T' && state != 'Z' && state != 'X' ? options->pids.items[0] : 0;
}

/* No key of the terminal is for it, and nothing that the shell waits for stays open. Without its parent it ends. */
static void settle(struct asking *asking, pid_t parent)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	setsid();
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (null < 0 || getppid() != parent)
		_exit(1);
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	if (asking->pipe != STDERR_FILENO + 1 && dup3(asking->pipe, STDERR_FILENO + 1, O_CLOEXEC) < 0)
		_exit(1);
	asking->pipe = STDERR_FILENO + 1;
	close_from((unsigned)asking->pipe + 1);
	asking->signals = signals_install();
	if (asking->signals < 0)
		_exit(1);
}

/* The invocation is not freed: the process ends. */
_Noreturn static void child_main(struct asking *asking, const struct selector_question *question, pid_t parent)
{
	struct invocation *invocation;
	const char end = END;
	pid_t pid;

	settle(asking, parent);
	invocation = invocation_new(question->subcommand);
	pid = process_to_ask(question, invocation);
	if (pid) {
		invocation->options.timeout_ns = ASKING_NS;
		invocation->options.interrupt = false;
		ask(asking, pid, &invocation->options);
	}
	deliver(asking);
	if (write(asking->pipe, &end, 1) < 0)
		_exit(1);
	_exit(0);
}

/* --- The parent */

/* Until the child is done, or its time is over. */
static void receive(int pipe, uint64_t deadline_ns, struct buffer *answer)
{
	struct pollfd polled = {.fd = pipe, .events = POLLIN};
	char bytes[4096];

	while (answer->size < SELECTORS_ANSWER_MAX && clock_now_ns() < deadline_ns) {
		ssize_t size = poll_until(&polled, 1, deadline_ns) ? read(pipe, bytes, sizeof(bytes)) : -1;

		if (size < 0)
			continue;
		buffer_add(answer, bytes, (size_t)size);
		if (size == 0 || bytes[size - 1] == END)
			return;
	}
}

static int compare(const void *one, const void *other)
{
	return strcmp(*(const char *const *)one, *(const char *const *)other);
}

/* A line that has not come to its end is none. */
static void tell(struct buffer *answer, void (*found)(void *owner, struct slice selector), void *owner)
{
	char **lines = memory_zeroed((answer->size + 1) * sizeof(*lines));
	size_t count = 0;
	char *end;

	for (char *line = answer->bytes; (end = memchr(line, '\n', (size_t)(answer->bytes + answer->size - line)));
	     line = end + 1) {
		*end = '\0';
		lines[count++] = line;
	}
	qsort(lines, count, sizeof(*lines), compare);
	for (size_t i = 0; i < count; i++)
		found(owner, (struct slice){lines[i], strlen(lines[i])});
	free(lines);
}

void complete_selectors(const struct selector_question *question, void (*found)(void *owner, struct slice selector), void *owner)
{
	const char *typed = question->words[question->count - 1] + question->before;
	uint64_t began_ns = clock_now_ns();
	struct asking asking = {.deadline_ns = began_ns + ASKING_NS};
	struct buffer answer = {0};
	pid_t parent = getpid(), child;
	int ends[2];

	if (!selector_search_begin(&asking.search, typed, question->before + LINE_EXTRA, SELECTORS_ANSWER_MAX) ||
	    pipe2(ends, O_CLOEXEC) != 0) {
		selector_search_free(&asking.search);
		return;
	}
	asking.pipe = ends[1];
	child = fork();
	if (child == 0)
		child_main(&asking, question, parent);
	close(ends[1]);
	if (child > 0) {
		receive(ends[0], began_ns + SHELL_WAITS_NS, &answer);
		kill(child, SIGTERM);
		waitpid(child, NULL, WNOHANG);
	}
	close(ends[0]);
	if (answer.size)
		tell(&answer, found, owner);
	buffer_free(&answer);
	selector_search_free(&asking.search);
}
