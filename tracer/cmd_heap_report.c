/* rbprobe heap report: what is in a heap dump. Reads files only; no process is involved. */

#include "exit_status.h"
#include "heap_reader.h"
#include "heap_summary.h"
#include "heap_verbs.h"
#include "message.h"
#include "output.h"

#include <argp.h>
#include <errno.h>

static error_t parse(int key, char *argument, struct argp_state *state)
{
	const char **path = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->err_stream = NULL;
		return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num > 0) {
			message("heap report takes one dump, not also \"%s\"", argument);
			return EINVAL;
		}
		*path = argument;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
	.parser = parse,
	.args_doc = "FILE",
	.doc = "Show what is in a heap dump: JSON lines as ObjectSpace.dump_all writes them, also packed by gzip or zstd. \"-\" "
               "is standard "
	       "input.\vExit status: 0 done; 1 the file cannot be read, or is no heap dump; 2 wrong usage.",
};

static void on_line(void *owner, const struct heap_line *line)
{
	heap_summary_add(owner, line);
}

static int show(const struct heap_summary *summary)
{
	struct output output;

	output_open(&output, NULL, false, NULL);
	buffer_add_format(&output.buffer, "%12s %14s\n", "OBJECTS", "BYTES");
	for (uint32_t i = 0; i < summary->types.by_hash.count; i++) {
		buffer_add_format(&output.buffer, "%12llu %14llu  ", (unsigned long long)summary->by_type[i].objects,
		                  (unsigned long long)summary->by_type[i].bytes);
		buffer_add_printable(&output.buffer, summary->types.texts[i].bytes, summary->types.texts[i].size);
		buffer_add_char(&output.buffer, '\n');
	}
	if (output_close(&output) < 0) {
		message("%s", output.error.text);
		return STATUS_FAILED;
	}
	return STATUS_DONE;
}

static int report_run(int argc, char **argv)
{
	struct heap_summary summary = {0};
	struct heap_reading reading;
	const char *path = NULL;
	struct error err;
	int status = STATUS_DONE;

	argp_err_exit_status = STATUS_USAGE;
	if (argp_parse(&argp, argc, argv, 0, NULL, &path) != 0)
		return STATUS_USAGE;
	if (!path) {
		message("heap report needs a dump: a file, or - for standard input");
		return STATUS_USAGE;
	}
	if (heap_read(path, on_line, &summary, &reading, &err) < 0) {
		message("%s", err.text);
		status = STATUS_FAILED;
	} else {
		status = show(&summary);
	}
	heap_summary_free(&summary);
	return status;
}

const struct subcommand heap_report = {
	.name = "report",
	.arguments = "FILE",
	.summary = "what is in a heap dump",
	.run = report_run,
};
