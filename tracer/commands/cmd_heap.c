/* rbprobe heap: the table of its verbs. */

#include "tracer/commands/heap_verbs.h"

const struct subcommand cmd_heap = {
	.name = "heap",
	.arguments = "VERB ...",
	.summary = "what a process's memory is full of",
	.description = "The objects of a Ruby process: snapshots, and what is in them.",
	.verbs = (const struct subcommand *const[]){&heap_dump, &heap_report, &heap_leak, NULL},
};
