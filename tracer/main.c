/* rbprobe: the table of subcommands. */

#include "exit_status.h"
#include "message.h"
#include "subcommand.h"

#include "proto/limits.h"
#include "proto/names.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct subcommand *const subcommands[] = {
	&cmd_ps,   &cmd_trace, &cmd_methods, &cmd_eval, &cmd_console,  &cmd_backtrace,     &cmd_memory,
	&cmd_exec, &cmd_load,  &cmd_heap,    &cmd_fork, &cmd_selftest, &cmd_extension_dir,
};

static const struct subcommand *subcommand_find(const char *name)
{
	for (size_t i = 0; i < sizeof(subcommands) / sizeof(*subcommands); i++)
		if (strcmp(subcommands[i]->name, name) == 0 ||
		    (subcommands[i]->alias && strcmp(subcommands[i]->alias, name) == 0))
			return subcommands[i];
	return NULL;
}

static int overview(void)
{
	printf("Usage: rbprobe SUBCOMMAND [OPTION...]\n"
	       "See what a running Ruby process does.\n\n");
	for (size_t i = 0; i < sizeof(subcommands) / sizeof(*subcommands); i++)
		printf("  %-14s %-32s %s\n", subcommands[i]->name, subcommands[i]->arguments, subcommands[i]->summary);
	printf("\nrbprobe SUBCOMMAND --help tells more. A process that has not required the extension gets it loaded.\n");
	return fflush(stdout) == 0 ? STATUS_DONE : STATUS_FAILED;
}

static int version(void)
{
	printf("rbprobe %s (protocol %u)\n", RBPROBE_VERSION, PROTOCOL_VERSION);
	return fflush(stdout) == 0 ? STATUS_DONE : STATUS_FAILED;
}

/* Results and errors must not end up in a file that happens to be opened as descriptor 1 or 2. */
static void standard_descriptors_check(void)
{
	FILE *unused;

	do
		unused = fopen("/dev/null", "r+");
	while (unused && fileno(unused) <= STDERR_FILENO);
	if (unused)
		fclose(unused);
}

static int subcommand_run(const struct subcommand *subcommand, int argc, char **argv)
{
	char name[64];

	snprintf(name, sizeof(name), "rbprobe %s", subcommand->name);
	argv[0] = name; /* argp and getopt name it in what they print */
	return subcommand->run(argc, argv);
}

int main(int argc, char **argv)
{
	const struct subcommand *subcommand;
	const char *word = argc > 1 ? argv[1] : NULL;

	standard_descriptors_check();
	if (!word) {
		message("a subcommand is missing; `rbprobe --help` lists them");
		return STATUS_USAGE;
	}
	if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0)
		return version();
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || (strcmp(word, "help") == 0 && argc == 2))
		return overview();
	if (strcmp(word, "help") == 0) {
		char help[] = "--help", *arguments[] = {argv[0], help, NULL};

		subcommand = subcommand_find(argv[2]);
		if (subcommand)
			return subcommand_run(subcommand, 2, arguments);
		word = argv[2];
	}
	subcommand = subcommand_find(word);
	if (!subcommand) {
		message("there is no subcommand \"%s\"; `rbprobe --help` lists them", word);
		return STATUS_USAGE;
	}
	return subcommand_run(subcommand, argc - 1, argv + 1);
}
