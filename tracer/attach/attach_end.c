/* The end of an attachment: why a process has left, and what is not to be left behind. See attach.h. */

#define _GNU_SOURCE
#include "tracer/attach/attach_parts.h"

#include "tracer/base/proc_status.h"

#include "proto/bell.h"
#include "proto/names.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

/* Between a socket's end and the end of its killed process. */
#define DEATH_LOOKS 20
#define DEATH_LOOK_MS 10

bool attachment_process_has_ended(const struct attachment *attachment)
{
	struct pollfd process = {.fd = attachment->process, .events = POLLIN};

	if (attachment->process >= 0)
		return poll(&process, 1, 0) > 0;
	return !target_is_same(&attachment->target);
}

bool attachment_has_execed(const struct attachment *attachment)
{
	return !attachment_process_has_ended(attachment) && target_is_same(&attachment->target);
}

bool attachment_is_same_program(const struct attachment *attachment)
{
	return attachment->bell != 0 && bell_thread(attachment->target.pid) == attachment->bell;
}

bool attachment_runs_on(const struct attachment *attachment)
{
	struct target now;

	return target_describe(&now, attachment->target.pid, TARGET_BASIC, NULL) == 0 && now.extension_mapped &&
	       (!attachment->launched || attachment_is_same_program(attachment));
}

static bool lacks_extension(const struct attachment *attachment, struct target *now)
{
	return target_describe(now, attachment->target.pid, TARGET_BASIC, NULL) == 0 && now->readable && !now->extension_mapped;
}

/* Whether it certainly runs another program than the one that had the extension. What is just ending runs none. */
static bool is_another_program(const struct attachment *attachment)
{
	struct target now;

	return target_is_same(&attachment->target) && lacks_extension(attachment, &now) && now.program[0];
}

enum attachment_leaving attachment_left(const struct attachment *attachment, int *signal)
{
	struct pollfd process = {.fd = attachment->process, .events = POLLIN};
	int wait_status = 0;

	for (unsigned look = 0; process.fd >= 0 && look < DEATH_LOOKS && !is_another_program(attachment); look++)
		if (poll(&process, 1, DEATH_LOOK_MS) > 0)
			break;
	if (attachment_has_execed(attachment))
		return attachment_runs_on(attachment) ? LEFT_ALONE : LEFT_BY_EXEC;
	if (!proc_wait_status(attachment->target.pid, &wait_status) && !pidfd_wait_status(process.fd, &wait_status))
		return LEFT_UNKNOWN;
	if (WIFEXITED(wait_status))
		return LEFT_BY_EXIT;
	*signal = WTERMSIG(wait_status);
	return LEFT_BY_SIGNAL;
}

void attachment_close(struct attachment *attachment)
{
	struct target now;

	/* It died before we saw the queue that our bell made it create. */
	if (attachment->queue < 0 && attachment->state != ATTACHMENT_OVER && attachment_process_has_ended(attachment))
		queue_remove(&attachment->target);
	/* Nobody has answered: what our bell made, and we put into it, is not left lying there until somebody does. */
	if (attachment->queue >= 0 && attachment->queue_is_new && attachment->fd < 0 && !attachment->launched &&
	    attachment->state != ATTACHMENT_OVER)
		queue_remove(&attachment->target);
	if (attachment->queue >= 0 && !attachment->ended) {
		if (!target_is_same(&attachment->target))
			queue_remove(&attachment->target);
		else if (lacks_extension(attachment, &now))
			queue_remove_old(&attachment->target, attachment->queue);
	}
	attachment->queue = -1;
	rendezvous_close(&attachment->rendezvous);
	if (attachment->fd >= 0)
		close(attachment->fd);
	if (attachment->process >= 0)
		close(attachment->process);
	outbox_free(&attachment->outbox);
	attachment->fd = attachment->process = -1;
	attachment->state = ATTACHMENT_OVER;
	attachment->wake_ns = UINT64_MAX;
}
