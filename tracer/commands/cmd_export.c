/* rbprobe export: a profile in a format of other programs. Reads files only. */

#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/cli/subcommand.h"
#include "tracer/commands/profile_show.h"
#include "tracer/profile/export.h"

#include <errno.h>
#include <string.h>

enum long_option {
	OPTION_TO = 0x200,
	OPTION_CPU,
	OPTION_THREADS,
};

struct exporting {
	struct invocation invocation;
	const char *path;
	const struct export_format *format;
	enum profile_weight weight;
	bool threads;
};

static int parse_format(const char *word, struct exporting *exporting)
{
	for (size_t i = 0; export_formats[i]; i++)
		if (strcmp(export_formats[i]->name, word) == 0) {
			exporting->format = export_formats[i];
			return 0;
		}
	message("--to takes " EXPORT_FORMATS_SAID ", not \"%s\"", word);
	return EINVAL;
}

static error_t parse_export(int key, char *argument, struct argp_state *state)
{
	struct exporting *exporting = state->input;

	switch (key) {
	case OPTION_TO:
		return parse_format(argument, exporting);
	case OPTION_CPU:
		exporting->weight = PROFILE_CPU;
		return 0;
	case OPTION_THREADS:
		exporting->threads = true;
		return 0;
	case ARGP_KEY_ARG:
		if (exporting->path) {
			message("export takes one profile, not also \"%s\"", argument);
			return EINVAL;
		}
		exporting->path = argument;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_option export_list[] = {
	{"to", OPTION_TO, EXPORT_FORMATS, 0, "The format", 2},
	{"cpu", OPTION_CPU, NULL, 0, "By the CPU time that threads used, and not by all time", 3},
	{"threads", OPTION_THREADS, NULL, 0, "Stacks begin with their thread", 3},
	{0},
};

static const struct argp options_export = {.options = export_list, .parser = parse_export};

static int export_check(void *self)
{
	const struct exporting *exporting = self;

	if (!exporting->path)
		message("which profile? Give the file of `rbprobe profile -o FILE`");
	else if (!exporting->format)
		message("which format? --to takes " EXPORT_FORMATS_SAID);
	return exporting->path && exporting->format ? 0 : STATUS_USAGE;
}

static int export_run(void *self)
{
	struct exporting *exporting = self;
	int signals = invocation_signals(&exporting->invocation);
	struct profile *profile = NULL;
	struct profile_view view;
	int status;

	if (signals < 0)
		return STATUS_FAILED;
	status = profile_open(&profile, exporting->path, signals);
	if (status)
		return status;
	view = profile_view_make(profile, exporting->weight, exporting->threads);
	exporting->format->write(&view, &exporting->invocation.output.buffer);
	if (!view.total_ns)
		message("%s has no %s", exporting->path, exporting->weight == PROFILE_CPU ? "CPU time" : "samples");
	profile_view_free(&view);
	profile_free(profile);
	return STATUS_DONE;
}

const struct subcommand cmd_export = {
	.name = "export",
	.arguments = "FILE --to FORMAT",
	.summary = "a profile for other programs",
	.usage = "FILE --to FORMAT",
	.description =
		"Write the profile that `rbprobe profile -o FILE` has kept in a format of other programs.\vFormats: collapsed "
		"(flamegraph.pl; its numbers are microseconds), speedscope (its JSON), callgrind (kcachegrind and "
		"callgrind_annotate), svg (a flame graph by itself). FILE may be - for standard input.",
	.pids = PIDS_NONE,
	.options = (const struct argp *const[]){&options_export, &options_file, NULL},
	.positional = &options_export,
	.words = WORDS_FILES,
	.needs = {[LIBRARY_ZSTD] = true},
	.size = sizeof(struct exporting),
	.check = export_check,
	.run = export_run,
};
