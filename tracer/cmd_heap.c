/* rbprobe heap: the table of its verbs. */

#include "exit_status.h"
#include "heap_verbs.h"
#include "message.h"

#include <stdio.h>
#include <string.h>

static const struct subcommand *const verbs[] = {&heap_dump, &heap_report};

static const struct subcommand *verb_find(const char *name)
{
	for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++)
		if (strcmp(verbs[i]->name, name) == 0)
			return verbs[i];
	return NULL;
}

static int overview(void)
{
	printf("Usage: rbprobe heap VERB [OPTION...]\n"
	       "The objects of a Ruby process: snapshots, and what is in them.\n\n");
	for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++)
		printf("  %-8s %-24s %s\n", verbs[i]->name, verbs[i]->arguments, verbs[i]->summary);
	printf("\nrbprobe heap VERB --help tells more.\n");
	return fflush(stdout) == 0 ? STATUS_DONE : STATUS_FAILED;
}

static int heap_run(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : NULL;
	const struct subcommand *verb;
	char name[64];

	if (!word) {
		message("heap needs a verb; `rbprobe heap --help` lists them");
		return STATUS_USAGE;
	}
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "-?") == 0 || strcmp(word, "--usage") == 0)
		return overview();
	verb = verb_find(word);
	if (!verb) {
		message("heap has no verb \"%s\"; `rbprobe heap --help` lists them", word);
		return STATUS_USAGE;
	}
	snprintf(name, sizeof(name), "rbprobe heap %s", verb->name);
	argv[1] = name;
	return verb->run(argc - 1, argv + 1);
}

const struct subcommand cmd_heap = {
	.name = "heap",
	.arguments = "VERB ...",
	.summary = "what a process's memory is full of",
	.run = heap_run,
};
