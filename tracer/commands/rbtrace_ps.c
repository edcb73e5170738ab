/* rbtrace's --ps. See rbtrace_ps.h. */

#include "tracer/commands/rbtrace_ps.h"

#include "proto/clock.h"
#include "tracer/base/buffer.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/process/ruby_processes.h"

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_NS (20 * NS_PER_S)
#define COMMAND_SIZE 4096
#define PID_SIZE 16
#define NUMBER_FORMAT "   [%zu]   "
#define FIRST_NUMBER "   [1]   "

struct found {
	char (*pids)[PID_SIZE]; /* as the line's words */
	size_t count;
	struct buffer list;
	regex_t pattern;
};

static void on_process(void *owner, const struct target *target)
{
	struct found *found = owner;
	char command[COMMAND_SIZE];

	if (target->other_ruby || target->pid == getppid())
		return;
	target_command_line(target, command, sizeof(command));
	if (regexec(&found->pattern, command, 0, NULL, 0) != 0)
		return;
	found->pids = memory_resize(found->pids, (found->count + 1) * sizeof(*found->pids));
	snprintf(found->pids[found->count++], PID_SIZE, "%d", (int)target->pid);
	buffer_add_format(&found->list, NUMBER_FORMAT "%7d ", found->count, (int)target->pid);
	buffer_add_printable(&found->list, command, strlen(command));
	buffer_add_char(&found->list, '\n');
}

static int look(struct found *found, const char *pattern)
{
	struct unseen_processes unseen;
	struct error err;
	int wrong = regcomp(&found->pattern, pattern, REG_EXTENDED | REG_NOSUB);
	int status = 0;

	if (wrong) {
		char why[200];

		regerror(wrong, &found->pattern, why, sizeof(why));
		message("rbtrace: --ps: %s: %s", pattern, why);
		return STATUS_USAGE;
	}
	if (ruby_processes_each(TARGET_BASIC, clock_now_ns() + LOOK_NS, &unseen, on_process, found, &err) < 0) {
		message("%s", err.text);
		status = STATUS_FAILED;
	}
	regfree(&found->pattern);
	return status;
}

static void add_all(struct word_list *pids, const struct found *found)
{
	for (size_t i = 0; i < found->count; i++)
		word_list_add(pids, found->pids[i]);
}

/* "0": all; "1,3": these. Whether the answer is one of that kind. */
static bool take(struct word_list *pids, const struct found *found, const char *answer)
{
	char *end = NULL;

	pids->count = 0;
	if (strcmp(answer, "0") == 0) {
		add_all(pids, found);
		return true;
	}
	for (const char *at = answer; *at; at = *end == ',' ? end + 1 : end) {
		unsigned long number = strtoul(at, &end, 10);

		if (end == at || (*end && *end != ',') || number < 1 || number > found->count)
			return false;
		word_list_add(pids, found->pids[number - 1]);
	}
	return pids->count > 0;
}

static int ask(struct word_list *pids, const struct found *found)
{
	char *answer = NULL;
	size_t size = 0;
	bool chosen = false;

	fprintf(stderr, "   [0]   all %zu processes\n", found->count);
	while (!chosen) {
		fputs("*** trace which processes? (0/1,4): ", stderr);
		if (getline(&answer, &size, stdin) < 0)
			break;
		answer[strcspn(answer, "\n")] = '\0';
		chosen = take(pids, found, answer);
	}
	free(answer);
	if (chosen)
		return 0;
	fputc('\n', stderr);
	message("no process was chosen");
	return STATUS_USAGE;
}

static int choose(struct word_list *pids, const char *pattern, const struct found *found)
{
	if (found->count == 0) {
		message("no Ruby process has \"%s\" in its command line; `rbprobe ps` lists them", pattern);
		return STATUS_NOT_ATTACHED;
	}
	message_bare("*** found %zu process%s matching \"%s\"", found->count, found->count == 1 ? "" : "es", pattern);
	pids->count = 0;
	if (found->count > 1) {
		fwrite(found->list.bytes, 1, found->list.size, stderr);
		return ask(pids, found);
	}
	fwrite(found->list.bytes + strlen(FIRST_NUMBER), 1, found->list.size - strlen(FIRST_NUMBER), stderr);
	add_all(pids, found);
	return 0;
}

int rbtrace_ps(struct rbtrace_line *line)
{
	/* Its words are the line's until the program ends. */
	static struct found found;
	const char *pattern = rbtrace_line_value(line, RBTRACE_PS, "");
	int status = look(&found, pattern);

	if (!status)
		status = choose(&line->options[RBTRACE_PID].values, pattern, &found);
	buffer_free(&found.list);
	return status;
}
