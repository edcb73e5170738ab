/* rbprobe ps: the Ruby processes of this machine, and which of them can be attached to. */

#define _GNU_SOURCE
#include "proto/clock.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/fold.h"
#include "tracer/base/json.h"
#include "tracer/base/message.h"
#include "tracer/base/term.h"
#include "tracer/cli/subcommand.h"
#include "tracer/inject/loader.h"
#include "tracer/process/container.h"
#include "tracer/process/ruby_processes.h"
#include "tracer/process/target.h"
#include "tracer/process/target_copy.h"
#include "tracer/process/target_files.h"
#include "tracer/process/target_maps.h"
#include "tracer/process/trace_permission.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NARROW 110u             /* columns; below, there is no room for all of them beside the command */
#define LIST_NS (20 * NS_PER_S) /* for all of it */

/* The user's name, remembered: most processes have the user of the one before. */
static const char *user_name(uid_t uid)
{
	static char name[33];
	static uid_t last;

	if (!name[0] || last != uid) {
		struct passwd *user = getpwuid(uid);

		if (user)
			snprintf(name, sizeof(name), "%s", user->pw_name);
		else
			snprintf(name, sizeof(name), "%u", (unsigned)uid);
		last = uid;
	}
	return name;
}

static void attachable(const struct target *target, char *text, size_t size)
{
	bool stopped = target->state == 'T', bare = target->readable && !target->extension_mapped;
	const char *obstacle;

	if (target->other_ruby) {
		snprintf(text, size, "no: %s", target->other_ruby);
		return;
	}
	if (copy_role_of(target->pid) == COPY_FROZEN) {
		snprintf(text, size, "frozen copy");
		return;
	}
	if (!stopped && container_is_frozen(target->pid)) {
		snprintf(text, size, "paused");
		return;
	}
	if (!stopped && (bare || (target->readable && target->sigurg != SIGURG_CAUGHT))) {
		obstacle = bare ? loader_obstacle(target) : trace_permission_obstacle(target);
		if (bare || !obstacle) {
			snprintf(text, size, "%s%s", obstacle ? "no: " : bare ? "loadable" : "yes", obstacle ? obstacle : "");
			return;
		}
	}
	snprintf(text, size, "%s", stopped ? "stopped" : target_attachable(target));
}

static void process_json(struct output *output, const struct target *target, const char *state, const char *command)
{
	struct buffer *to = &output->buffer;

	json_open_object(to);
	json_member_string(to, "type", "process");
	json_member_int(to, "pid", target->pid);
	json_member_string(to, "user", user_name(target->euid));
	json_member_uint(to, "uid", target->euid);
	if (target->ruby_version[0])
		json_member_string(to, "ruby", target->ruby_version);
	if (target->abi[0])
		json_member_string(to, "abi", target->abi);
	json_member_string(to, "attachable", state);
	json_member_int(to, "start_ns", target_start_time(target) * (int64_t)NS_PER_S);
	json_member_string(to, "command", command);
	json_close_line(to);
	output_commit(output);
}

static bool is_narrow(size_t width)
{
	return width > 0 && width < NARROW;
}

/* A line of the list. They are printed when all are known: the widest state makes the width of its column. */
struct row {
	pid_t pid;
	char user[33], version[32], abi[32], since[32], state[32];
	char *command;
};

struct rows {
	struct row *items;
	size_t count;
	int state_width;
};

static void rows_add(struct rows *rows, const struct target *target, const char *state, const char *command)
{
	time_t start = (time_t)target_start_time(target);
	struct row *row;
	struct tm local;

	rows->items = memory_resize(rows->items, (rows->count + 1) * sizeof(*rows->items));
	row = &rows->items[rows->count++];
	*row = (struct row){.pid = target->pid, .command = memory_resize(NULL, strlen(command) + 1)};
	memcpy(row->command, command, strlen(command) + 1);
	snprintf(row->user, sizeof(row->user), "%s", user_name(target->euid));
	snprintf(row->version, sizeof(row->version), "%s", target->ruby_version[0] ? target->ruby_version : "?");
	snprintf(row->abi, sizeof(row->abi), "%s", target->abi[0] ? target->abi : "?");
	snprintf(row->state, sizeof(row->state), "%s", state);
	localtime_r(&start, &local);
	strftime(row->since, sizeof(row->since), "%Y-%m-%d %H:%M:%S", &local);
	if (rows->state_width < (int)strlen(row->state))
		rows->state_width = (int)strlen(row->state);
}

static void end_line(struct output *output, size_t line, size_t width)
{
	struct buffer *to = &output->buffer;

	if (width)
		to->size = line + fold_bytes(to->bytes + line, to->size - line, (unsigned)width);
	buffer_add_char(to, '\n');
	output_commit(output);
}

static void print_row(struct output *output, const struct rows *rows, const struct row *row, size_t width)
{
	struct buffer *to = &output->buffer;
	size_t line = to->size;

	if (is_narrow(width))
		buffer_add_format(to, "%7d %-8s %-6s %-*s ", (int)row->pid, row->user, row->version, rows->state_width,
		                  row->state);
	else
		buffer_add_format(to, "%7d %-12s %-8s %-8s %-*s %s ", (int)row->pid, row->user, row->version, row->abi,
		                  rows->state_width, row->state, row->since);
	buffer_add_printable(to, row->command, strlen(row->command));
	end_line(output, line, width);
}

static void print_rows(struct output *output, const struct rows *rows, size_t width)
{
	struct buffer *to = &output->buffer;
	size_t line = to->size;

	if (is_narrow(width))
		buffer_add_format(to, "%7s %-8s %-6s %-*s %s", "PID", "USER", "RUBY", rows->state_width, "ATTACHABLE", "COMMAND");
	else
		buffer_add_format(to, "%7s %-12s %-8s %-8s %-*s %-19s %s", "PID", "USER", "RUBY", "ABI", rows->state_width,
		                  "ATTACHABLE", "SINCE", "COMMAND");
	end_line(output, line, width);
	for (size_t i = 0; i < rows->count; i++)
		print_row(output, rows, &rows->items[i], width);
}

static void rows_free(struct rows *rows)
{
	for (size_t i = 0; i < rows->count; i++)
		free(rows->items[i].command);
	free(rows->items);
}

/* What is missing in the list. */
static void report_unread(const struct unseen_processes *unseen)
{
	uid_t user;
	unsigned maps = target_maps_unread(&user);

	if (target_files_unread())
		message("%u looks at files of processes had no answer in time (a file system that hangs, or a busy machine?): "
		        "those processes have no version above, or are not in the list",
		        target_files_unread());
	if (maps)
		message("%u processes were not looked at, as reading memory maps took too long: those that are Ruby are missing "
		        "in the list; the first belongs to user %s",
		        maps, user_name(user));
	if (unseen->late)
		message("the last %zu processes were not looked at, as those before them took %d s: those that are Ruby are "
		        "missing in the list",
		        unseen->late, (int)(LIST_NS / NS_PER_S));
	if (unseen->of_others)
		message("%zu process%s of other users %s not looked at, which takes root", unseen->of_others,
		        unseen->of_others == 1 ? "" : "es", unseen->of_others == 1 ? "was" : "were");
}

struct list {
	struct output *output;
	struct rows rows;
	bool json;
};

static void on_found(void *owner, const struct target *target)
{
	struct list *list = owner;
	char command[4096], state[32];

	target_command_line(target, command, sizeof(command));
	attachable(target, state, sizeof(state));
	if (list->json)
		process_json(list->output, target, state, command);
	else
		rows_add(&list->rows, target, state, command);
}

static int list_all(struct output *output, bool json)
{
	struct list list = {.output = output, .rows.state_width = (int)strlen("ATTACHABLE"), .json = json};
	uint64_t deadline_ns = clock_now_ns() + LIST_NS;
	struct unseen_processes unseen;
	struct error err;
	int status = ruby_processes_each(TARGET_VERSION, deadline_ns, &unseen, on_found, &list, &err);

	if (status < 0)
		message("%s", err.text);
	else if (!json)
		print_rows(output, &list.rows, term_width(STDOUT_FILENO));
	rows_free(&list.rows);
	if (status < 0)
		return STATUS_FAILED;
	report_unread(&unseen);
	return STATUS_DONE;
}

static int ps_run(void *self)
{
	struct invocation *invocation = self;

	return list_all(&invocation->output, invocation->json);
}

const struct subcommand cmd_ps = {
	.name = "ps",
	.arguments = "",
	.summary = "Ruby processes; which can be attached to",
	.description =
		"List the Ruby processes that may be looked at: yours, or all where root asks. ATTACHABLE says \"yes\" (the "
		"extension is loaded), \"loadable\" (it is not, and the commands will load it), or why not: \"stopped\" (by "
		"a signal), \"paused\" (with its container), \"SIGURG taken\" (loaded, but the application has the signal, and "
		"rbprobe may not call into the process), or after \"no:\" what stands in the way of loading.",
	.pids = PIDS_NONE,
	.format = "For people, or one JSON object a line",
	.run = ps_run,
};
