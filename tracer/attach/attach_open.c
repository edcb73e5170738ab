/* The beginning of an attachment: the process is looked at and held, and the commands for it are made. See attach.h. */

#define _GNU_SOURCE
#include "tracer/attach/attach_parts.h"

#include "tracer/base/debug.h"
#include "tracer/process/capabilities.h"
#include "tracer/process/container.h"

#include "proto/bell.h"
#include "proto/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define OTHER_CLIENT_LOOKS 250 /* of 2 ms */

void attachment_init(struct attachment *attachment, uint64_t timeout_ns)
{
	memset(attachment, 0, sizeof(*attachment));
	attachment->fd = -1;
	attachment->process = -1;
	attachment->queue = -1;
	attachment->rendezvous = RENDEZVOUS_CLOSED;
	attachment->timeout_ns = timeout_ns;
	attachment->ring_interval_ns = RING_INTERVAL_MIN_NS;
	attachment->look_interval_ns = LOOK_INTERVAL_MIN_NS;
}

int attachment_has_ended(const struct attachment *attachment, struct error *err)
{
	return error_set(err, -ESRCH, "process %d ended %s", (int)attachment->target.pid,
	                 attachment->launched && attachment->state == ATTACHMENT_EXPECTING && attachment->queue < 0
	                         ? "without having loaded the rbprobe extension (is it Ruby, and does it keep RUBYOPT?)"
	                         : "while rbprobe was attaching to it");
}

/* Holds the process by a descriptor. */
static int attachment_hold(struct attachment *attachment, struct error *err)
{
	attachment->process = (int)syscall(SYS_pidfd_open, attachment->target.pid, 0);
	if (!target_is_same(&attachment->target)) /* after the descriptor exists, so that both mean the same process */
		return attachment_has_ended(attachment, err);
	if (getrandom(attachment->nonce, NONCE_SIZE, 0) != NONCE_SIZE)
		return error_set(err, -EIO, "the system gives no random numbers: %s", strerror(errno));
	return 0;
}

int attachment_address(struct attachment *attachment, struct error *err)
{
	struct command attach = {.kind = COMMAND_ATTACH, .id = 1}, second = attachment->command;
	const struct target own = {.pid = getpid()};
	char command_line[1024];
	int status = rendezvous_open(&attachment->rendezvous, &attachment->target, attachment->descriptors, err);

	/* What has ended has no /tmp any more. */
	if (status < 0)
		return attachment_process_has_ended(attachment) ? attachment_has_ended(attachment, err) : status;

	attach.attach.version = PROTOCOL_VERSION;
	attach.attach.socket_path.bytes = attachment->rendezvous.socket_path;
	attach.attach.socket_path.size = strlen(attachment->rendezvous.socket_path);
	attach.attach.client_pid = attachment->target.same_pid_namespace ? (uint32_t)getpid() : 0;
	attach.attach.debug = debug_wanted;
	target_command_line(&own, command_line, sizeof(command_line));
	attach.attach.command = (struct slice){command_line, strlen(command_line)};
	debug(DEBUG_ATTACH, "process %d: it finds our socket at %s", (int)attachment->target.pid,
	      attachment->rendezvous.socket_path);
	second.id = attachment->command_id = attachment->last_id = 2;
	outbox_add(&attachment->outbox, &attach);
	outbox_add(&attachment->outbox, &second);
	if (attachment->outbox.bytes.size > COMMAND_SIZE_MAX)
		return error_set(err, -EMSGSIZE, "the request takes %zu bytes; at most %u can be sent",
		                 attachment->outbox.bytes.size, COMMAND_SIZE_MAX);
	return 0;
}

/* Another client that is just attaching stops it for a moment; a debugger does so for longer. */
static int await_other_client(struct attachment *attachment, struct error *err)
{
	struct timespec pause = {.tv_nsec = (long)(2 * NS_PER_MS)};
	int status = 0;

	for (unsigned i = 0; i < OTHER_CLIENT_LOOKS && status == 0 && attachment->target.state == 't'; i++) {
		nanosleep(&pause, NULL);
		status = target_describe(&attachment->target, attachment->target.pid, TARGET_BASIC, err);
	}
	return status;
}

/* Loads the extension, or finds out how its bell is rung. What has its thread for that needs no look, and so no stop. */
static int attachment_load(struct attachment *attachment, const struct attach_manner *manner, struct error *err)
{
	struct loader_wish wish = {manner->may_load ? LOADER_ATTACH : LOADER_LOOK, manner->interrupt};

	if (attachment->target.extension_mapped ? bell_thread(attachment->target.pid) != 0 : !manner->may_load)
		return 0;
	return loader_prepare(&attachment->target, &wish, &attachment->loading, err);
}

static void debug_target(const struct target *target)
{
	static const char *const sigurg_names[] = {
		[SIGURG_DEFAULT] = "default", [SIGURG_CAUGHT] = "caught", [SIGURG_IGNORED] = "ignored"};

	debug(DEBUG_ATTACH, "process %d: Ruby ABI %s, user %u, state %c, SIGURG %s, extension %s, bell thread %d%s%s",
	      (int)target->pid, target->abi[0] ? target->abi : "unknown", (unsigned)target->euid, target->state,
	      sigurg_names[target->sigurg], target->extension_mapped ? "mapped" : "not mapped", (int)bell_thread(target->pid),
	      target->same_pid_namespace ? "" : ", other PID namespace",
	      target->same_ipc_namespace ? "" : ", other IPC namespace");
}

int attachment_open(struct attachment *attachment, pid_t pid, const struct command *command, const struct attach_manner *manner,
                    struct error *err)
{
	int status;

	attachment_init(attachment, manner->timeout_ns);
	attachment->interrupt = manner->interrupt;
	attachment->descriptors = manner->descriptors;
	attachment->command = *command;
	status = target_describe(&attachment->target, pid, TARGET_BASIC, err);
	if (status == 0)
		status = target_check(&attachment->target, err);
	if (status == 0)
		status = container_check(&attachment->target, command->kind == COMMAND_TRACE ? CONTAINER_TRACE : CONTAINER_ASK,
		                         err);
	if (status == 0)
		status = capabilities_check(&attachment->target, err);
	if (status == 0)
		status = queue_check_namespace(&attachment->target, err);
	if (status == 0)
		debug_target(&attachment->target);
	if (status == 0)
		status = attachment_load(attachment, manner, err);
	/* Another client may have loaded it between our looks. */
	if (status == 0 && !attachment->loading.loaded && attachment->target.sigurg != SIGURG_CAUGHT)
		status = target_describe(&attachment->target, pid, TARGET_BASIC, err);
	if (status == 0)
		status = await_other_client(attachment, err);
	/* What was just loaded, has its thread, or is rung by calling it, needs no handler. */
	if (status == 0 && !attachment->loading.started && attachment->loading.bell == LOADER_BELL_SIGNAL &&
	    bell_thread(pid) == 0)
		status = target_check_loaded(&attachment->target, err);
	if (status == 0)
		status = attachment_hold(attachment, err);
	if (status == 0)
		status = attachment_address(attachment, err);
	if (status < 0) {
		status = capabilities_explain(&attachment->target, status, err);
		attachment_close(attachment);
		return status;
	}
	attachment->state = ATTACHMENT_ATTACHING;
	attachment->deadline_ns = clock_now_ns() + manner->timeout_ns;
	attachment->start_look_ns = clock_now_ns() + START_LOOK_INTERVAL_NS;
	return 0;
}

int attachment_expect(struct attachment *attachment, pid_t pid, const struct command *command, uint64_t timeout_ns,
                      struct error *err)
{
	int status;

	attachment_init(attachment, timeout_ns);
	attachment->command = *command;
	status = target_describe(&attachment->target, pid, TARGET_BASIC, err);
	attachment->launched = true;
	attachment->state = ATTACHMENT_EXPECTING;
	if (status == 0)
		status = attachment_hold(attachment, err);
	if (status < 0) {
		attachment_close(attachment);
		return status;
	}
	attachment->deadline_ns = UINT64_MAX;
	return 0;
}
