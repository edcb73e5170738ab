/* Which processes are meant. See choose_processes.h. */

#define _GNU_SOURCE
#include "tracer/cli/choose_processes.h"

#include "proto/clock.h"
#include "tracer/base/buffer.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/process/children.h"
#include "tracer/process/ruby_processes.h"
#include "tracer/process/target_copy.h"

#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_NS (20 * NS_PER_S) /* for one look at all processes */
#define POLL_MS 50
#define SETTLED_NS (300 * NS_PER_MS)
#define COMMAND_SIZE 4096
#define COMMAND_SHOWN 60 /* bytes, in a list */
#define LISTED_MAX 10

struct found {
	pid_t pid;
	uint64_t start_ticks;
	char *command;
	bool is_worker; /* of another that was found */
};

struct search {
	const char *pattern; /* anything before and after it is right, too */
	struct found *items;
	size_t count;
	pid_t other_ruby; /* one that matches and is no CRuby; 0: none */
};

static void search_free(struct search *search)
{
	for (size_t i = 0; i < search->count; i++)
		free(search->items[i].command);
	free(search->items);
	*search = (struct search){0};
}

static void on_process(void *owner, const struct target *target)
{
	struct search *search = owner;
	char command[COMMAND_SIZE], *copy;

	target_command_line(target, command, sizeof(command));
	if (fnmatch(search->pattern, command, 0) != 0)
		return;
	if (target->other_ruby) {
		search->other_ruby = target->pid;
		return;
	}
	copy = memory_zeroed(strlen(command) + 1);
	memcpy(copy, command, strlen(command));
	search->items = memory_resize(search->items, (search->count + 1) * sizeof(*search->items));
	search->items[search->count++] = (struct found){target->pid, target->start_ticks, copy, false};
}

static int look(struct search *search, const char *pattern)
{
	struct error err;
	struct unseen_processes unseen;

	*search = (struct search){.pattern = pattern};
	if (ruby_processes_each(TARGET_BASIC, clock_now_ns() + LOOK_NS, &unseen, on_process, search, &err) == 0)
		return 0;
	message("%s", err.text);
	search_free(search);
	return STATUS_FAILED;
}

/* --- One of several */

static void list(const struct search *search)
{
	struct buffer text = {0};

	for (size_t i = 0; i < search->count && i < LISTED_MAX; i++) {
		size_t size = strlen(search->items[i].command);

		buffer_add_format(&text, "%4zu) %7d  ", i + 1, (int)search->items[i].pid);
		buffer_add_printable(&text, search->items[i].command, size < COMMAND_SHOWN ? size : COMMAND_SHOWN);
		buffer_add_char(&text, '\n');
	}
	if (search->count > LISTED_MAX)
		buffer_add_format(&text, "      and %zu more\n", search->count - LISTED_MAX);
	fwrite(text.bytes, 1, text.size, stderr);
	buffer_free(&text);
}

/* The rest of a long line is no answer to the next question. False: there is no line, as after Ctrl-D. */
static bool read_line(char *line, size_t size)
{
	size_t used = 0;
	char c;

	while (read(STDIN_FILENO, &c, 1) == 1) {
		if (c == '\n') {
			line[used] = '\0';
			return true;
		}
		if (used + 1 < size)
			line[used++] = c;
	}
	return false;
}

/* Its number, from 1; 0: none was chosen. */
static size_t ask(const struct search *search, const char *pattern)
{
	size_t listed = search->count < LISTED_MAX ? search->count : LISTED_MAX;
	char line[32];

	message("%zu Ruby processes match \"%s\":", search->count, pattern);
	list(search);
	for (;;) {
		unsigned long number;
		char *end;

		fprintf(stderr, "Which one? [1-%zu] ", listed);
		if (!read_line(line, sizeof(line))) {
			fputc('\n', stderr);
			return 0;
		}
		number = strtoul(line, &end, 10);
		if (!*line)
			return 0;
		if (!*end && number >= 1 && number <= listed)
			return number;
	}
}

static int choose_of(struct options *options, const struct search *search, bool one)
{
	const char *pattern = options->ps_pattern;
	size_t number = 1;

	/* Where it is the only one, the command says why it refuses it. */
	if (search->count == 0 && search->other_ruby) {
		pid_list_add(&options->pids, search->other_ruby);
		return 0;
	}
	if (search->count == 0) {
		message("no Ruby process has \"%s\" in its command line; `rbprobe ps` lists them, --wait PATTERN waits for one",
		        pattern);
		return STATUS_NOT_ATTACHED;
	}
	if (options->all_processes) {
		for (size_t i = 0; i < search->count; i++)
			pid_list_add(&options->pids, search->items[i].pid);
		return 0;
	}
	if (search->count > 1 && isatty(STDIN_FILENO) && isatty(STDERR_FILENO)) {
		number = ask(search, pattern);
		if (!number) {
			message("no process was chosen");
			return STATUS_USAGE;
		}
	} else if (search->count > 1) {
		message("%zu Ruby processes match \"%s\", such as %d and %d; say which with a longer pattern or -p PID%s",
		        search->count, pattern, (int)search->items[0].pid, (int)search->items[1].pid, one ? "" : ", or --all");
		return STATUS_USAGE;
	}
	pid_list_add(&options->pids, search->items[number - 1].pid);
	return 0;
}

/* Workers have their master's name in theirs. With --children it is the master that is meant. */
static void leave_out_workers(struct search *search)
{
	size_t kept = 0;

	for (size_t i = 0; i < search->count; i++) {
		pid_t *children;
		size_t count = children_find(search->items[i].pid, &children);

		for (size_t other = 0; other < search->count; other++)
			for (size_t child = 0; child < count; child++)
				if (search->items[other].pid == children[child])
					search->items[other].is_worker = true;
		free(children);
	}
	for (size_t i = 0; i < search->count; i++) {
		if (search->items[i].is_worker)
			free(search->items[i].command);
		else
			search->items[kept++] = search->items[i];
	}
	search->count = kept;
}

static int by_pattern(struct options *options, const char *glob, bool one)
{
	struct search search;
	int status = look(&search, glob);

	if (status)
		return status;
	if (options->children)
		leave_out_workers(&search);
	status = choose_of(options, &search, one);
	search_free(&search);
	return status;
}

/* --- One that starts later */

static bool is_known(const struct search *known, const struct found *found)
{
	for (size_t i = 0; i < known->count; i++)
		if (known->items[i].pid == found->pid && known->items[i].start_ticks == found->start_ticks)
			return true;
	return false;
}

/* Signals have their default action here: the user may end the wait. */
static int wait_for(struct options *options, const char *glob)
{
	struct search known, now;
	bool found = false;
	int status = look(&known, "*");

	if (status)
		return status;
	if (!options->quiet)
		message("waiting for a Ruby process with \"%s\" in its command line", options->wait_pattern);
	while (!found && !status) {
		status = look(&now, glob);
		for (size_t i = 0; !status && !found && i < now.count; i++) {
			found = !is_known(&known, &now.items[i]);
			if (!found)
				continue;
			pid_list_add(&options->pids, now.items[i].pid);
			if (!options->quiet)
				message("process %d: %s", (int)now.items[i].pid, now.items[i].command);
		}
		if (!status)
			search_free(&now);
		if (!found)
			usleep(POLL_MS * 1000);
	}
	search_free(&known);
	return status;
}

/* --- Children */

static size_t add_children(pid_t parent, uint64_t age_min_ns, struct pid_list *pids)
{
	const uint64_t tick_ns = NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK);
	pid_t *children;
	size_t count = children_find(parent, &children);
	uint64_t now_ticks = target_ticks_now(), start_ticks; /* later than all starts */

	for (size_t i = 0; i < count; i++)
		if (!age_min_ns ||
		    (process_is_worker(children[i], &start_ticks) && (now_ticks - start_ticks) * tick_ns >= age_min_ns))
			pid_list_add(pids, children[i]);
	free(children);
	return count;
}

void choose_joining_children(pid_t parent, struct pid_list *pids)
{
	add_children(parent, SETTLED_NS, pids);
}

void choose_say_childless(pid_t parent)
{
	if (kill(parent, 0) < 0 && errno == ESRCH)
		message_often("there is no process %d", (int)parent);
	else
		message_often("process %d has no child processes that are Ruby", (int)parent);
}

void choose_children(pid_t parent, struct pid_list *pids)
{
	if (add_children(parent, 0, pids) == 0)
		choose_say_childless(parent);
}

int choose_children_of(struct options *options, struct pid_list *parents)
{
	*parents = options->pids;
	options->pids = (struct pid_list){0};
	for (size_t i = 0; i < parents->count; i++)
		choose_children(parents->items[i], &options->pids);
	return options->pids.count ? 0 : STATUS_NOT_ATTACHED;
}

static const char *contradiction(const struct options *options)
{
	if (options->ps_pattern && options->wait_pattern)
		return "--ps is for processes that run, --wait for one that starts later; give one of them";
	if (options->all_processes && !options->ps_pattern)
		return "--all means all that match --ps PATTERN";
	if ((options->ps_pattern && !*options->ps_pattern) || (options->wait_pattern && !*options->wait_pattern))
		return "--ps and --wait take a part of a command line, such as puma";
	if (options->wait_pattern && options->wait_pattern[strspn(options->wait_pattern, "0123456789.")] == '\0')
		return "--wait takes a part of a command line, not seconds; rbprobe attaches as soon as the process can answer";
	return NULL;
}

int choose_processes(struct options *options, bool one, bool children_too)
{
	const char *pattern = options->ps_pattern ? options->ps_pattern : options->wait_pattern;
	const char *wrong = contradiction(options);
	struct buffer glob = {0};
	int status = 0;

	if (wrong) {
		message("%s", wrong);
		return STATUS_USAGE;
	}
	if (pattern) {
		buffer_add_format(&glob, "*%s*", pattern);
		buffer_add_char(&glob, '\0');
		status = options->ps_pattern ? by_pattern(options, glob.bytes, one) : wait_for(options, glob.bytes);
		buffer_free(&glob);
	}
	if (!status && options->children && !children_too && options->pids.count) {
		struct pid_list parents;

		status = choose_children_of(options, &parents);
		free(parents.items);
	}
	return status;
}
