/* Forked children come by themselves. See meeting.h. */

#include "tracer/attach/meeting.h"

#include "tracer/attach/attach_parts.h"
#include "tracer/base/debug.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

bool meeting_take(struct meeting *meeting, struct attachment *attachment)
{
	if (attachment->fd < 0 || attachment->rendezvous.listener < 0)
		return false;
	*meeting = (struct meeting){
		.rendezvous = attachment->rendezvous, .command_id = attachment->command_id, .user = attachment->target.euid};
	memcpy(meeting->nonce, attachment->nonce, NONCE_SIZE);
	attachment->rendezvous = RENDEZVOUS_CLOSED;
	return true;
}

int meeting_accept(struct meeting *meeting, pid_t *pid)
{
	return rendezvous_accept_other(&meeting->rendezvous, meeting->user, pid);
}

/* One that is over by now has told who it is by its user and its secret. */
void attachment_adopt(struct attachment *attachment, pid_t pid, int descriptor, const struct meeting *meeting,
                      uint64_t timeout_ns)
{
	struct error err;

	attachment_init(attachment, timeout_ns);
	if (target_describe(&attachment->target, pid, TARGET_BASIC, &err) < 0)
		attachment->target = (struct target){.pid = pid, .group_pid = pid, .euid = meeting->user};
	attachment->process = (int)syscall(SYS_pidfd_open, pid, 0);
	attachment->fd = descriptor;
	attachment->forked = true;
	memcpy(attachment->nonce, meeting->nonce, NONCE_SIZE);
	attachment->command_id = attachment->last_id = meeting->command_id;
	attachment->state = ATTACHMENT_CONNECTED;
	attachment->deadline_ns = UINT64_MAX;
	attachment->wake_ns = UINT64_MAX;
	debug(DEBUG_ATTACH, "process %d: forked, and has connected by itself", (int)pid);
}
