/*
 * Commands whose work goes over several jobs. See long_command.h. Context: job, GVL held.
 *
 * They are done in the order in which they came. Each keeps its own copy of the command, since the queue's memory is used again
 * for the next.
 */

#include "tracee/long_command.h"

#include "proto/command.h"
#include "tracee/dispatch.h"
#include "tracee/observe/marks.h"
#include "tracee/select/method_added.h"
#include "tracee/select/selection.h"
#include "tracee/selftest/vm_assumptions.h"
#include "tracee/session/queue.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/gvl_slice.h"

#include <errno.h>
#include <ruby.h>
#include <stdlib.h>
#include <string.h>

struct long_command {
	struct session *session;
	struct selection_work *work;
	struct command command; /* its texts are in bytes and zone */
	msgpack_zone zone;
	struct long_command *next; /* that came later */
	uint8_t bytes[];
};

static struct long_command *oldest;

static void free_command(struct long_command *command)
{
	struct long_command **link = &oldest;

	while (*link && *link != command)
		link = &(*link)->next;
	if (*link)
		*link = command->next;
	if (command->work)
		selection_work_free(command->work);
	msgpack_zone_destroy(&command->zone);
	free(command);
}

static struct long_command *copy_command(struct session *session, const struct assembled_command *assembled, struct error *err)
{
	struct long_command *command = calloc(1, sizeof(*command) + assembled->size);

	if (!command)
		return NULL;
	memcpy(command->bytes, assembled->bytes, assembled->size);
	command->session = session;
	if (!msgpack_zone_init(&command->zone, MSGPACK_ZONE_CHUNK_SIZE)) {
		free(command);
		return NULL;
	}
	if (command_decode(&command->command, command->bytes, assembled->size, &command->zone, err) == 0)
		command->work = selection_work_new(session, &command->command);
	if (command->work)
		return command;
	free_command(command);
	return NULL;
}

/* --- A trace */

static void note_facts(struct session *session)
{
	char bytes[256];
	struct text names = {.bytes = bytes, .size = sizeof(bytes)};

	assumptions_failed(&names);
	if (names.used)
		session_note(session, NOTE_INFO, "self-test: %.*s failed; `rbprobe selftest` shows more", (int)names.used,
		             names.bytes);
}

static int begin_trace(struct long_command *command, struct error *err)
{
	int failed = 0, status;
	bool watched = RTEST(rb_protect(method_added_install, Qnil, &failed));

	if (failed)
		exception_drop(Qnil);
	if (command->command.selector_count && (failed || !watched))
		session_note(command->session, NOTE_WARNING,
		             "the application defines method_added on Module or BasicObject: methods defined from now on are not "
		             "traced");
	status = marks_check(&command->command, err);
	return status < 0 ? status : selection_work_arm(command->work, err);
}

static int end_trace(struct long_command *command, struct error *err)
{
	if (marks_start(command->session, &command->command, err) < 0) {
		selection_part.stop(command->session);
		return err->code;
	}
	note_facts(command->session);
	return 0;
}

/* --- All of them */

int long_command_begin(struct session *session, const struct assembled_command *assembled, struct error *err)
{
	struct long_command *command = copy_command(session, assembled, err), **link = &oldest;
	int status = 0;

	if (!command)
		return error_set(err, -ENOMEM, "no memory for a command");
	if (command->command.kind == COMMAND_TRACE)
		status = begin_trace(command, err);
	else
		selection_work_list(command->work);
	if (status < 0) {
		free_command(command);
		return status;
	}
	while (*link)
		link = &(*link)->next;
	*link = command;
	return 0;
}

/* The next that anybody waits for. */
static struct long_command *next_command(void)
{
	struct long_command *command = oldest;

	while (command && command->session->detaching)
		command = command->next;
	return command;
}

void long_commands_go_on(void)
{
	struct long_command *command;
	bool in_parts = queue_rings_itself();

	selection_go_on_disarming();
	while ((command = next_command()) && (!in_parts || gvl_part_is_due())) {
		struct session *session = command->session;
		uint64_t count = 0;
		struct error err;
		int status = selection_work_go_on(command->work, in_parts, &count, &err);

		if (status == -EINPROGRESS)
			return;
		if (status == 0 && command->command.kind == COMMAND_TRACE)
			status = end_trace(command, &err);
		dispatch_reply(session, command->command.id, status, &err, count);
		session_note_answer(session, command->command.id, count);
		free_command(command);
	}
}

bool long_commands_are_left(void)
{
	return next_command() || selection_is_disarming();
}

bool long_command_of(const struct session *session)
{
	const struct long_command *command = oldest;

	while (command && command->session != session)
		command = command->next;
	return command != NULL;
}

static void part_release(struct session *session)
{
	for (struct long_command *command = oldest, *next; command; command = next) {
		next = command->next;
		if (command->session == session)
			free_command(command);
	}
}

/* What is half armed is not gone on with in a forked child. Async-signal-safe. */
static bool part_adopt(struct session *session)
{
	return !long_command_of(session);
}

const struct session_part long_command_part = {.release = part_release, .adopt = part_adopt};
