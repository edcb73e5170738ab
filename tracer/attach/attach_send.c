/* Commands that are on their way to a process that has been attached to. See attach.h; attach.c puts them into the queue. */

#include "tracer/attach/attach_parts.h"

#include "tracer/base/debug.h"

#include "proto/clock.h"

/* A process that has become another user can neither read nor remove the queue that it made, and makes another one. */
static void follow_user(struct attachment *attachment)
{
	const struct target before = attachment->target;

	if (attachment->queue < 0 || !target_follow_user(&attachment->target))
		return;
	debug(DEBUG_QUEUE, "process %d: is user %u's now; looking for its new queue", (int)before.pid,
	      (unsigned)attachment->target.euid);
	queue_remove(&before);
	attachment->loading.started = false;
	attachment->queue = -1;
}

/* A command is on its way from now on. */
static void begin_sending(struct attachment *attachment)
{
	uint64_t now_ns = clock_now_ns();

	follow_user(attachment);
	attachment->deadline_ns = now_ns + attachment->timeout_ns;
	attachment->ring_ns = 0;
	attachment->ring_interval_ns = RING_INTERVAL_MIN_NS;
	attachment->look_interval_ns = LOOK_INTERVAL_MIN_NS;
	attachment->wake_ns = now_ns;
}

uint32_t attachment_send(struct attachment *attachment, const struct command *command)
{
	struct command numbered = *command;

	numbered.id = ++attachment->last_id;
	if (outbox_is_empty(&attachment->outbox))
		outbox_free(&attachment->outbox);
	outbox_add(&attachment->outbox, &numbered);
	attachment->unanswered_id = numbered.id;
	begin_sending(attachment);
	return numbered.id;
}

bool attachment_has_answered(const struct attachment *attachment)
{
	return attachment->unanswered_id == 0;
}

bool attachment_ask_statistics(struct attachment *attachment)
{
	const struct command command = {.kind = COMMAND_STATISTICS};

	if (attachment->state != ATTACHMENT_ARMED || !attachment_has_answered(attachment))
		return false;
	attachment_send(attachment, &command);
	return true;
}

void attachment_excuse(struct attachment *attachment, uint64_t busy_ns)
{
	if (attachment->deadline_ns != UINT64_MAX)
		attachment->deadline_ns += busy_ns;
	if (attachment->wake_ns != UINT64_MAX)
		attachment->wake_ns += busy_ns;
}

void attachment_detach(struct attachment *attachment)
{
	struct command detach = {.kind = COMMAND_DETACH, .id = ++attachment->last_id};

	if (attachment->state >= ATTACHMENT_DETACHING)
		return;
	outbox_free(&attachment->outbox);
	outbox_add(&attachment->outbox, &detach);
	debug(DEBUG_ATTACH, "process %d: asking it to end the session", (int)attachment->target.pid);
	attachment->state = ATTACHMENT_DETACHING;
	begin_sending(attachment);
}
