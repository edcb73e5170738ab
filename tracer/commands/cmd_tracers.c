/* rbprobe tracers: which tracers there are, and which of them fit a process, with which versions of their libraries. */

#include "tracer/base/exit_status.h"
#include "tracer/base/json.h"
#include "tracer/base/message.h"
#include "tracer/base/value.h"
#include "tracer/cli/subcommand.h"
#include "tracer/cli/tracer_find.h"
#include "tracer/cli/tracer_set.h"

#include "proto/fnv.h"
#include "proto/limits.h"

#include <stdlib.h>
#include <string.h>

typedef char *library_versions[TRACER_LIBRARIES_MAX];

/* Selectors of a tracer that are for different versions may match the same method, which counts once. */
struct match {
	uint64_t name; /* a hash of the method's */
	uint32_t tracer, selector;
};

#define MATCHES_MAX (1u << 20) /* more are not counted */

struct tracers {
	struct invocation invocation;
	uint64_t *methods; /* of the process: how many each of the options' selectors matches first */
	struct match *matches;
	size_t match_count, match_room;
	library_versions *versions; /* of the process: of each tracer's libraries; NULL: not known */
	uint32_t versions_count;
	struct buffer constants; /* which the process is asked for */
	struct command ask_versions;
	bool broken; /* there is a file that is no tracer */
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
	const struct selector_list *selectors = &tracers->invocation.options.selectors;
	const char separator[] = {match->separator};
	uint64_t name = fnv64_add(FNV64_BEGIN, match->class_name);

	(void)err;
	if (match->selector >= selectors->count || tracers->match_count == MATCHES_MAX)
		return 0;
	if (tracers->match_count == tracers->match_room) {
		tracers->match_room = tracers->match_room ? 2 * tracers->match_room : 64;
		tracers->matches = memory_resize(tracers->matches, tracers->match_room * sizeof(*tracers->matches));
	}
	name = fnv64_add(fnv64_add(name, (struct slice){separator, 1}), match->method_name);
	tracers->matches[tracers->match_count++] =
		(struct match){name, selectors->items[match->selector].tracer, match->selector};
	return 0;
}

static int compare_matches(const void *first, const void *second)
{
	const struct match *a = first, *b = second;

	if (a->tracer != b->tracer)
		return a->tracer < b->tracer ? -1 : 1;
	if (a->name != b->name)
		return a->name < b->name ? -1 : 1;
	return a->selector < b->selector ? -1 : a->selector > b->selector;
}

/* Each method for the first selector of a tracer that matches it. */
static void count_methods(struct tracers *tracers)
{
	if (tracers->match_count)
		qsort(tracers->matches, tracers->match_count, sizeof(*tracers->matches), compare_matches);
	for (size_t i = 0; i < tracers->match_count; i++) {
		const struct match *match = &tracers->matches[i];

		if (i == 0 || match[-1].tracer != match->tracer || match[-1].name != match->name)
			tracers->methods[match->selector]++;
	}
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

/* --- Versions */

/* The next library that has a version; false: there is none. Begin with library -1 of tracer 0. */
static bool next_with_version(const struct options *options, uint32_t *tracer, int64_t *library)
{
	for (; *tracer < options->tracer_count; (*tracer)++, *library = -1) {
		const struct tracer_file *file = &options->tracers[*tracer];

		while (++*library < (int64_t)file->library_count)
			if (file->versions[*library])
				return true;
	}
	return false;
}

static void versions_free(struct tracers *tracers)
{
	for (uint32_t i = 0; i < tracers->versions_count; i++)
		for (uint32_t k = 0; k < TRACER_LIBRARIES_MAX; k++)
			free(tracers->versions[i][k]);
	free(tracers->versions);
	tracers->versions = NULL;
	tracers->versions_count = 0;
}

static int on_versions(struct request *request, const msgpack_object *data, struct error *err)
{
	struct tracers *tracers = request->owner;
	const msgpack_object *versions = value_get(data, "versions");
	uint32_t tracer = 0, i = 0;
	int64_t library = -1;

	(void)err;
	while (i < value_count(versions) && next_with_version(&tracers->invocation.options, &tracer, &library)) {
		struct slice text = value_text(value_at(versions, i++));

		if (text.size && !tracers->versions[tracer][library])
			tracers->versions[tracer][library] = strndup(text.bytes, text.size);
	}
	return 0;
}

static void on_versions_done(struct request *request, uint32_t code, struct slice text)
{
	request->keep = false;
	request_report(request, code, text);
}

static const struct request_handler versions_handler = {.data = on_versions, .done = on_versions_done};

static void on_attached(struct request *request)
{
	request->keep = true;
}

/* The methods have come. */
static void on_done(struct request *request, uint32_t code, struct slice text)
{
	struct tracers *tracers = request->owner;

	request->keep = !code && tracers->constants.size;
	request_report(request, code, text);
	if (!request->keep)
		return;
	request->handler = &versions_handler;
	request_again(request, &tracers->ask_versions);
}

static void prepare_versions(struct tracers *tracers)
{
	const struct options *options = &tracers->invocation.options;
	uint32_t tracer = 0;
	int64_t library = -1;

	versions_free(tracers);
	tracers->versions = memory_zeroed((options->tracer_count + 1) * sizeof(*tracers->versions));
	tracers->versions_count = options->tracer_count;
	tracers->constants.size = 0;
	while (next_with_version(options, &tracer, &library)) {
		const char *constant = options->tracers[tracer].versions[library];

		if (tracers->constants.size + strlen(constant) + 1 > VERSIONS_TEXT_MAX)
			break;
		buffer_add_text(&tracers->constants, constant);
		buffer_add_char(&tracers->constants, '\n');
	}
	tracers->ask_versions = (struct command){.kind = COMMAND_VERSIONS};
	tracers->ask_versions.arguments.text = (struct slice){tracers->constants.bytes, tracers->constants.size};
}

/* --- What is shown */

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

/* A version that is known takes the place of those that the file says it is for. */
static void add_library(struct buffer *to, const char *library, const char *version)
{
	buffer_add_printable(to, library, version ? strcspn(library, ",") : strlen(library));
	if (!version)
		return;
	buffer_add_char(to, ' ');
	buffer_add_printable(to, version, strlen(version));
}

/* "ActiveRecord 6.1.7 (1 method), sqlite3 (7 methods)" */
static void add_fit(struct buffer *to, const struct tracers *tracers, const struct tracer_file *file, uint32_t first)
{
	char *const *versions = tracers->versions[file - tracers->invocation.options.tracers];
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
		add_library(to, file->libraries[i], versions[i]);
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
		if (pid && tracers->versions[file - tracers->invocation.options.tracers][i])
			json_member_string(to, "version", tracers->versions[file - tracers->invocation.options.tracers][i]);
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
		tracers->match_count = 0;
		tracers->methods = memory_zeroed((options->selectors.count + 1) * sizeof(*tracers->methods));
		prepare_versions(tracers);
		one = invocation_request(&tracers->invocation, &options->pids.items[i], 1);
		count_methods(tracers);
		if (one == STATUS_DONE)
			show_all(tracers, options->pids.items[i]);
		status = status ? status : one;
	}
	return status == STATUS_DONE && tracers->broken ? STATUS_FAILED : status;
}

static void tracers_free_command(void *self)
{
	struct tracers *tracers = self;

	versions_free(tracers);
	buffer_free(&tracers->constants);
	free(tracers->methods);
	free(tracers->matches);
}

const struct subcommand cmd_tracers = {
	.name = "tracers",
	.arguments = "[-p PID]",
	.summary = "the tracers for -c, and which of them fit",
	.usage = "[-p PID]",
	.description =
		"List the tracers, sets of selectors with a name, which trace, stat, top, methods and exec take with -c: those "
		"in ~/.config/rbprobe/tracers, and those that come with rbprobe. With -p, what each of them matches in "
		"the process, and which versions of libraries are loaded.",
	.report = true,
	.pids = PIDS_ANY,
	.format = "A line for each, or one JSON object a line",
	.size = sizeof(struct tracers),
	.kind = COMMAND_METHODS,
	.handler = {.attached = on_attached, .reply_ends = true, .match = on_match, .done = on_done},
	.run = tracers_run,
	.free = tracers_free_command,
};
