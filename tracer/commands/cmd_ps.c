/* rbprobe ps: the Ruby processes of this machine, and which of them can be attached to. */

#define _GNU_SOURCE
#include "proto/clock.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/json.h"
#include "tracer/base/message.h"
#include "tracer/base/term.h"
#include "tracer/cli/subcommand.h"
#include "tracer/inject/loader.h"
#include "tracer/process/ruby_processes.h"
#include "tracer/process/target.h"
#include "tracer/process/target_copy.h"
#include "tracer/process/target_files.h"
#include "tracer/process/target_maps.h"
#include "tracer/process/trace_permission.h"

#include <pwd.h>
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

static void process_list(struct output *output, const struct target *target, size_t width, const char *state, const char *command)
{
	struct buffer *to = &output->buffer;
	const char *version = target->ruby_version[0] ? target->ruby_version : "?";
	time_t start = (time_t)target_start_time(target);
	size_t line = to->size;
	struct tm local;
	char since[32];

	localtime_r(&start, &local);
	strftime(since, sizeof(since), "%Y-%m-%d %H:%M:%S", &local);
	if (is_narrow(width))
		buffer_add_format(to, "%7d %-8s %-6s %-10s ", (int)target->pid, user_name(target->euid), version, state);
	else
		buffer_add_format(to, "%7d %-12s %-8s %-8s %-16s %s ", (int)target->pid, user_name(target->euid), version,
		                  target->abi[0] ? target->abi : "?", state, since);
	buffer_add_printable(to, command, strlen(command));
	if (width && to->size - line > width)
		to->size = line + width;
	while (to->size > line && ((unsigned char)to->bytes[to->size - 1] & 0xc0) == 0x80 && width && to->size - line >= width)
		to->size--; /* not half a character */
	buffer_add_char(to, '\n');
	output_commit(output);
}

/* What is missing in the list. */
static void report_unread(const struct unseen_processes *unseen)
{
	uid_t user;
	unsigned maps = target_maps_unread(&user);

	if (target_files_unread())
		message("%u looks at files of processes had no answer in time (a file system that hangs?): those processes have "
		        "no version above, or are not in the list",
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
	size_t width;
	bool json;
};

static void on_found(void *owner, const struct target *target)
{
	const struct list *list = owner;

	char command[4096], state[32];

	target_command_line(target, command, sizeof(command));
	attachable(target, state, sizeof(state));
	if (list->json)
		process_json(list->output, target, state, command);
	else
		process_list(list->output, target, list->width, state, command);
}

static int list_all(struct output *output, bool json)
{
	struct list list = {.output = output, .width = term_width(STDOUT_FILENO), .json = json};
	uint64_t deadline_ns = clock_now_ns() + LIST_NS;
	struct unseen_processes unseen;
	struct error err;

	if (!json && is_narrow(list.width))
		buffer_add_format(&output->buffer, "%7s %-8s %-6s %-10s %s\n", "PID", "USER", "RUBY", "ATTACHABLE", "COMMAND");
	else if (!json)
		buffer_add_format(&output->buffer, "%7s %-12s %-8s %-8s %-16s %-19s %s\n", "PID", "USER", "RUBY", "ABI",
		                  "ATTACHABLE", "SINCE", "COMMAND");
	if (ruby_processes_each(TARGET_VERSION, deadline_ns, &unseen, on_found, &list, &err) < 0) {
		message("%s", err.text);
		return STATUS_FAILED;
	}
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
		"a signal), \"SIGURG taken\" (loaded, but the application has the signal, and rbprobe may not call into "
		"the process), or after \"no:\" what stands in the way of loading.",
	.pids = PIDS_NONE,
	.format = "For people, or one JSON object a line",
	.run = ps_run,
};
