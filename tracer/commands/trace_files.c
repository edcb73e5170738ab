/* The sinks of a run and their files. See trace_files.h. */

#include "tracer/commands/trace_files.h"

#include "tracer/base/message.h"
#include "tracer/base/output_name.h"
#include "tracer/base/term.h"

#include <stdlib.h>
#include <string.h>

struct sink *sink_make(const struct sink_maker *maker, const struct options *options, struct output *output)
{
	if (maker && maker->make)
		return maker->make(maker->owner, output);
	output->width = options->format == &sink_text ? term_width(output->fd) : 0;
	return sink_new(options->format, output, &options->style);
}

void sink_end(const struct sink_maker *maker, struct sink *sink)
{
	if (sink && maker && maker->end)
		maker->end(maker->owner, sink);
	sink_free(sink);
}

int trace_file_open(struct trace_file *file, pid_t pid, const struct options *options, const struct sink_maker *maker,
                    struct error *err)
{
	char *name = output_name_of(options->output_path, pid);
	int status = output_open(&file->output, name, options->append, err);

	if (status == 0 && maker && maker->fit) {
		status = maker->fit(&file->output, name, options->append, err);
		if (status < 0)
			output_give_up(&file->output);
	}
	file->output.name = options->output_path; /* as it is said in errors: of all of them */
	free(name);
	if (status == 0)
		file->sink = sink_make(maker, options, &file->output);
	return status;
}

int trace_file_close(struct trace_file *file, const struct sink_maker *maker)
{
	int status;

	if (!file->sink)
		return 0;
	sink_end(maker, file->sink);
	file->sink = NULL;
	status = output_close(&file->output);
	if (status < 0)
		message("%s", file->output.error.text);
	return status;
}
