/* rbprobe tracers: which tracers there are, and which of them fit a process. */

#include "tracer/base/exit_status.h"
#include "tracer/base/json.h"
#include "tracer/base/message.h"
#include "tracer/cli/subcommand.h"
#include "tracer/cli/tracer_find.h"
#include "tracer/cli/tracer_set.h"

#include <stdlib.h>

struct tracers {
	struct invocation invocation;
	uint64_t *methods; /* of the process: how many each of the options' selectors matches */
	bool broken;       /* there is a file that is no tracer */
};

static int take(void *owner, const char *name, const char *path)
{
	struct tracers *tracers = owner;
	struct tracer_file file;
	struct error err;

	(void)name;
	if (tracer_find(&file, path, &err) == 0) {
		if (tracers_add(&tracers->invocation.options, &file, &err) == 0)
			return 0;
		tracer_file_free(&file);
	}
	message("%s", err.text);
	tracers->broken = true;
	return 0;
}

static int on_match(struct request *request, const struct record_match *match, struct error *err)
{
	struct tracers *tracers = request->owner;

	(void)err;
	if (match->selector < tracers->invocation.options.selectors.count)
		tracers->methods[match->selector]++;
	return 0;
}

/* Methods that the tracer's selectors match, from the options' selector `first` on; of one library, or of all. */
static uint64_t methods_of(const struct tracers *tracers, const struct tracer_file *file, uint32_t first, const char *library)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < file->selectors.count; i++) {
		uint32_t number = file->selectors.items[i].tracer;

		if (!library || (number && strcmp(file->libraries[number - 1], library) == 0))
			count += tracers->methods[first + i];
	}
	return count;
}

static bool is_repeated(const struct tracer_file *file, uint32_t library)
{
	for (uint32_t i = 0; i < library; i++)
		if (strcmp(file->libraries[i], file->libraries[library]) == 0)
			return true;
	return false;
}

static void add_methods(struct buffer *to, uint64_t count)
{
	buffer_add_format(to, "%llu method%s", (unsigned long long)count, count == 1 ? "" : "s");
}

/* "ActiveRecord (1 method), sqlite3 (7 methods)" */
static void add_fit(struct buffer *to, const struct tracers *tracers, const struct tracer_file *file, uint32_t first)
{
	uint64_t all = methods_of(tracers, file, first, NULL);
	bool any = false;

	if (file->marks)
		buffer_add_text(to, all ? "events, " : "events");
	if (!all && !file->marks)
		buffer_add_text(to, "-");
	if (all && !file->library_count)
		add_methods(to, all);
	for (uint32_t i = 0; i < file->library_count; i++) {
		uint64_t count = is_repeated(file, i) ? 0 : methods_of(tracers, file, first, file->libraries[i]);

		if (!count)
			continue;
		buffer_add_text(to, any ? ", " : "");
		buffer_add_printable(to, file->libraries[i], strlen(file->libraries[i]));
		buffer_add_text(to, " (");
		add_methods(to, count);
		buffer_add_char(to, ')');
		any = true;
	}
}

static void show_text(struct tracers *tracers, pid_t pid, const struct tracer_file *file, uint32_t first)
{
	const struct options *options = &tracers->invocation.options;
	struct buffer *to = &tracers->invocation.output.buffer;
	size_t name = strlen(file->name);

	if (pid && options->pids.count > 1)
		buffer_add_format(to, "%d: ", (int)pid);
	buffer_add_text(to, file->name);
	buffer_add_spaces(to, name < 12 ? 12 - name : 1);
	if (pid)
		add_fit(to, tracers, file, first);
	else
		buffer_add_printable(to, file->description, strlen(file->description));
	if (options->verbose) {
		buffer_add_text(to, "  ");
		buffer_add_printable(to, file->path, strlen(file->path));
	}
	buffer_add_char(to, '\n');
}

static void show_json(struct tracers *tracers, pid_t pid, const struct tracer_file *file, uint32_t first)
{
	struct buffer *to = &tracers->invocation.output.buffer;

	json_open_object(to);
	json_member_string(to, "type", "tracer");
	if (pid)
		json_member_int(to, "pid", pid);
	json_member_string(to, "name", file->name);
	json_member_string(to, "description", file->description);
	json_member_string(to, "path", file->path);
	json_member_uint(to, "selectors", file->selectors.count);
	if (pid)
		json_member_uint(to, "methods", methods_of(tracers, file, first, NULL));
	json_open_array(json_key(to, "libraries"));
	for (uint32_t i = 0; i < file->library_count; i++) {
		if (is_repeated(file, i))
			continue;
		json_open_object(to);
		json_member_string(to, "name", file->libraries[i]);
		if (pid)
			json_member_uint(to, "methods", methods_of(tracers, file, first, file->libraries[i]));
		json_close_object(to);
	}
	json_close_array(to);
	json_close_line(to);
}

/* pid: 0 if no process was asked. */
static void show_all(struct tracers *tracers, pid_t pid)
{
	const struct options *options = &tracers->invocation.options;
	uint32_t first = 0;

	for (uint32_t i = 0; i < options->tracer_count; i++) {
		(tracers->invocation.json ? show_json : show_text)(tracers, pid, &options->tracers[i], first);
		first += options->tracers[i].selectors.count;
	}
	output_flush(&tracers->invocation.output);
}

static int tracers_run(void *self)
{
	struct tracers *tracers = self;
	struct options *options = &tracers->invocation.options;
	int status = STATUS_DONE;

	tracer_each(take, tracers);
	if (!options->pids.count)
		show_all(tracers, 0);
	for (size_t i = 0; i < options->pids.count && !tracers->invocation.interrupted; i++) {
		int one;

		free(tracers->methods);
		tracers->methods = memory_zeroed((options->selectors.count + 1) * sizeof(*tracers->methods));
		one = invocation_request(&tracers->invocation, &options->pids.items[i], 1);
		if (one == STATUS_DONE)
			show_all(tracers, options->pids.items[i]);
		status = status ? status : one;
	}
	return status == STATUS_DONE && tracers->broken ? STATUS_FAILED : status;
}

static void tracers_free_command(void *self)
{
	free(((struct tracers *)self)->methods);
}

const struct subcommand cmd_tracers = {
	.name = "tracers",
	.arguments = "[-p PID]",
	.summary = "the tracers for -c, and which of them fit",
	.usage = "[-p PID]",
	.description =
		"List the tracers, sets of selectors with a name, which trace, stat, top, methods and exec take with -c: those "
		"in ~/.config/rbprobe/tracers, and those that come with rbprobe. With -p, what each of them matches in "
		"the process.",
	.report = true,
	.pids = PIDS_ANY,
	.format = "A line for each, or one JSON object a line",
	.size = sizeof(struct tracers),
	.kind = COMMAND_METHODS,
	.handler = {.reply_ends = true, .match = on_match},
	.run = tracers_run,
	.free = tracers_free_command,
};
