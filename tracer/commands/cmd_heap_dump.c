/* rbprobe heap dump: all objects of a process, in a file, while it goes on. */

#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/base/output_name.h"
#include "tracer/commands/heap_verbs.h"
#include "tracer/heap/dump_file.h"
#include "tracer/heap/heap_dump.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum long_option {
	OPTION_GZIP = 0x200,
	OPTION_ZSTD,
	OPTION_GC,
	OPTION_NO_FORK,
	OPTION_ALLOCATIONS,
};

struct arguments {
	struct invocation invocation;
	const char *path; /* NULL: a name is made */
	enum dump_packing packing;
	uint32_t flags;
	uint64_t allocations_ns;
	bool agreed;
};

static error_t parse_dump(int key, char *argument, struct argp_state *state)
{
	struct arguments *arguments = state->input;

	switch (key) {
	case 'o':
		arguments->path = argument;
		return options_output_name(argument);
	case OPTION_GZIP:
		arguments->packing = DUMP_GZIP;
		return 0;
	case OPTION_ZSTD:
		arguments->packing = DUMP_ZSTD;
		return 0;
	case OPTION_GC:
		arguments->flags |= HEAP_DUMP_GC;
		return 0;
	case OPTION_NO_FORK:
		arguments->flags |= HEAP_DUMP_IN_PROCESS;
		return 0;
	case OPTION_ALLOCATIONS:
		return options_seconds("--allocations", argument, &arguments->allocations_ns);
	case 'y':
		arguments->agreed = true;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_option dump_list[] = {
	{"output", 'o', "FILE", 0, "Where to, %p standing for the PID; - is standard output (default: heap-PID-DATE-TIME.json)",
         2},
	{"gzip", OPTION_GZIP, NULL, 0, "Packed by gzip", 2},
	{"zstd", OPTION_ZSTD, NULL, 0, "Packed by zstd", 2},
	{"gc", OPTION_GC, NULL, 0, "Have the process collect its garbage first", 3},
	{"allocations", OPTION_ALLOCATIONS, "SEC", 0,
         "Record for so long where the process allocates objects; the dump has their file and line", 3},
	{"no-fork", OPTION_NO_FORK, NULL, 0,
         "If there is no memory for a fork: dump in the process itself, which stands still meanwhile", 4},
	{"yes", 'y', NULL, 0, "With --no-fork: do not ask", 4},
	{0},
};

static const struct argp options_dump = {.options = dump_list, .parser = parse_dump};

/* For free(). */
static char *default_name(const struct arguments *arguments)
{
	struct buffer name = {0};
	time_t now = time(NULL);
	char stamp[32];
	struct tm local;

	localtime_r(&now, &local);
	strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &local);
	buffer_add_format(&name, "heap-%d-%s.json%s", (int)arguments->invocation.options.pids.items[0], stamp,
	                  dump_packing_suffix(arguments->packing));
	buffer_add_char(&name, '\0');
	return name.bytes;
}

static int dump_check(void *self)
{
	const struct arguments *arguments = self;
	const struct options *options = &arguments->invocation.options;

	if (!arguments->path || output_name_has_pid(arguments->path) || (!options->children && options->pids.count == 1))
		return 0;
	message("dumps of several processes need a file each: -o 'heap-%%p.json', where %%p stands for the PID");
	return STATUS_USAGE;
}

/* The file is opened before the process is disturbed. */
static int dump_run(void *self)
{
	const struct arguments *arguments = self;
	struct heap_dump_order order = {.options = &arguments->invocation.options,
	                                .flags = arguments->flags,
	                                .allocations_ns = arguments->allocations_ns,
	                                .agreed = arguments->agreed};
	char *path = NULL;
	struct error err;
	int status;

	if (arguments->path)
		path = output_name_of(arguments->path, arguments->invocation.options.pids.items[0]);
	else
		path = default_name(arguments);
	order.name = strcmp(path, "-") == 0 ? NULL : path;
	if (dump_file_open(&order.file, path, !arguments->path, arguments->packing, &err) < 0) {
		message("%s", err.text);
		status = STATUS_FAILED;
	} else {
		status = heap_dump_take(&order);
	}
	free(path);
	return status;
}

const struct subcommand heap_dump = {
	.name = "dump",
	.arguments = "-p PID [-o FILE]",
	.summary = "write all objects of a process to a file",
	.usage = "-p PID [-o FILE]",
	.description =
		"Write all objects of a running Ruby process as JSON lines, as ObjectSpace.dump_all does. A forked copy of the "
		"process writes them, so that the process itself stands still for the fork alone.",
	.pids = PIDS_EACH,
	.options = (const struct argp *const[]){&options_dump, NULL},
	.size = sizeof(struct arguments),
	.check = dump_check,
	.run = dump_run,
};
