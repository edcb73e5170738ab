/* rbprobe: finds the subcommand and runs it. Called rbtrace, it takes rbtrace's command line. */

#include "tracer/base/debug.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/library.h"
#include "tracer/base/message.h"
#include "tracer/cli/complete.h"
#include "tracer/cli/nearest.h"
#include "tracer/cli/pager.h"
#include "tracer/cli/rbtrace_options.h"
#include "tracer/commands/rbtrace_personality.h"
#include "tracer/commands/subcommands.h"

#include "proto/limits.h"
#include "proto/names.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUBCOMMAND_ADDRESS(name) &cmd_##name,

static const struct subcommand *const subcommands[] = {SUBCOMMANDS(SUBCOMMAND_ADDRESS)};

#define SUMMARY_COLUMN 39 /* of the overview */
#define SUBCOMMAND_COUNT (sizeof(subcommands) / sizeof(*subcommands))

static const struct subcommand *subcommand_find(const char *name)
{
	for (size_t i = 0; i < SUBCOMMAND_COUNT; i++)
		if (strcmp(subcommands[i]->name, name) == 0 ||
		    (subcommands[i]->alias && strcmp(subcommands[i]->alias, name) == 0))
			return subcommands[i];
	return NULL;
}

static int overview(void)
{
	struct buffer text = {0};
	bool shown;

	buffer_add_text(&text, "Usage: rbprobe SUBCOMMAND [OPTION...]\n"
	                       "See what a running Ruby process does.\n\n");
	for (size_t i = 0; i < SUBCOMMAND_COUNT; i++) {
		size_t begin = text.size;

		buffer_add_format(&text, "  %s %s ", subcommands[i]->name, subcommands[i]->arguments);
		if (text.size - begin < SUMMARY_COLUMN)
			buffer_add_spaces(&text, SUMMARY_COLUMN - (text.size - begin));
		buffer_add_format(&text, "%s\n", subcommands[i]->summary);
	}
	buffer_add_text(&text, "\nrbprobe SUBCOMMAND --help says more. rbprobe loads its extension into a process\n"
	                       "that has not required it.\n");
	shown = pager_print(text.bytes, text.size);
	buffer_free(&text);
	return shown ? STATUS_DONE : STATUS_FAILED;
}

static int version(void)
{
	struct buffer text = {0};
	bool shown;

	buffer_add_format(&text, "rbprobe %s (protocol %u)\n", RBPROBE_VERSION, PROTOCOL_VERSION);
	library_list(&text);
	shown = pager_print(text.bytes, text.size);
	buffer_free(&text);
	return shown ? STATUS_DONE : STATUS_FAILED;
}

/* For the shells' scripts in completion/. */
static int completion(const char *const *words, size_t count)
{
	struct buffer answer = {0};

	complete(&answer, subcommands, SUBCOMMAND_COUNT, words, count);
	if (answer.size)
		fwrite(answer.bytes, 1, answer.size, stdout);
	buffer_free(&answer);
	return fflush(stdout) == 0 ? STATUS_DONE : STATUS_FAILED;
}

/*
 * Results and errors must not end up in a file that happens to be opened as descriptor 1 or 2. Standard output that was closed
 * cannot be written to afterwards either: a result that nobody gets is an error.
 */
static void standard_descriptors_check(void)
{
	int fd = 0;

	while (fd >= 0 && fd <= STDERR_FILENO) {
		bool is_output = fcntl(STDIN_FILENO, F_GETFD) >= 0 && fcntl(STDOUT_FILENO, F_GETFD) < 0;

		fd = open("/dev/null", is_output ? O_RDONLY : O_RDWR);
	}
	if (fd >= 0)
		close(fd);
}

/* What RBPROBE_DEBUG wants. *over: that was all, and this is the exit status. */
static int debug_begin(bool *over)
{
	const char *wanted = getenv("RBPROBE_DEBUG");
	struct error err;

	*over = true;
	if (wanted && strcmp(wanted, "help") == 0)
		return debug_help() ? STATUS_DONE : STATUS_FAILED;
	if (debug_parse(wanted, &debug_wanted, &err) < 0) {
		message("%s", err.text);
		return STATUS_USAGE;
	}
	*over = false;
	return STATUS_DONE;
}

static int named_run(const struct subcommand *subcommand, int argc, char **argv)
{
	char name[64];
	int status;

	snprintf(name, sizeof(name), "rbprobe %s", subcommand->name);
	argv[0] = name; /* argp and getopt name it in what they print */
	status = subcommand_run(subcommand, argc, argv);
	message_often_end();
	return status;
}

/* The word is no subcommand; words: all that there are. */
static int refuse(const char *word, const char *const *words, size_t count)
{
	char command[RBTRACE_HINT_SIZE] = "rbprobe trace -p PID SELECTOR...";
	struct nearest nearest;

	nearest_begin(&nearest, word, strlen(word));
	for (size_t i = 0; i < SUBCOMMAND_COUNT; i++)
		nearest_consider(&nearest, subcommands[i]->name);
	if (word[0] == '-') {
		rbtrace_command(words, count, command);
		message("a subcommand comes first, as in `%s`; `rbprobe --help` lists them", command);
	} else if (nearest.found) {
		message("there is no subcommand \"%s\"; did you mean %s?", word, nearest.found);
	} else {
		message("there is no subcommand \"%s\"; `rbprobe --help` lists them", word);
	}
	return STATUS_USAGE;
}

int main(int argc, char **argv)
{
	const struct subcommand *subcommand;
	const char *word;
	bool over;
	int status;

	standard_descriptors_check();
	subcommands_know(subcommands, SUBCOMMAND_COUNT);
	status = debug_begin(&over);
	if (over)
		return status;
	if (rbtrace_is_meant(argv[0]))
		return rbtrace_main(argc, argv);
	if (argc > 1 && strcmp(argv[1], "--no-pager") == 0) {
		pager_forbid();
		argv[1] = argv[0];
		argc--;
		argv++;
	}
	word = argc > 1 ? argv[1] : NULL;
	if (!word)
		return overview();
	if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0)
		return version();
	if (strcmp(word, "--complete") == 0)
		return completion((const char *const *)argv + 2, (size_t)argc - 2);
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || (strcmp(word, "help") == 0 && argc == 2))
		return overview();
	if (strcmp(word, "help") == 0) {
		char help[] = "--help", *arguments[] = {argv[0], help, NULL};

		subcommand = subcommand_find(argv[2]);
		if (subcommand)
			return named_run(subcommand, 2, arguments);
		word = argv[2];
	}
	subcommand = subcommand_find(word);
	if (!subcommand)
		return refuse(word, (const char *const *)argv + 1, (size_t)argc - 1);
	return named_run(subcommand, argc - 1, argv + 1);
}
