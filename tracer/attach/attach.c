/*
 * Attaching step by step, from the first ring on. See attach.h; attach_open.c comes before, attach_end.c after.
 *
 * The order is: make the socket, ring the bell, find the queue that the target's signal handler creates, write the commands,
 * ring again, be connected to, check who it is. The two waits in it fail for different reasons. No queue: the signal does not
 * reach the extension's handler. A queue but no connection: the VM does not come to a point where it runs jobs.
 */

#define _GNU_SOURCE
#include "tracer/attach/attach_parts.h"

#include "tracer/base/debug.h"
#include "tracer/inject/thread_wait.h"
#include "tracer/process/capabilities.h"
#include "tracer/process/container.h"

#include "proto/bell.h"
#include "proto/clock.h"
#include "proto/names.h"

#include <errno.h>
#include <string.h>

#define LOOK_INTERVAL_MAX_NS (2 * NS_PER_MS)
#define RESTARTS_MAX 4
#define RING_INTERVAL_MAX_NS (500 * NS_PER_MS)

int attachment_descriptor(const struct attachment *attachment)
{
	return attachment->fd >= 0 ? attachment->fd : attachment->rendezvous.listener;
}

static void wake_at(struct attachment *attachment, uint64_t at_ns)
{
	if (at_ns < attachment->wake_ns)
		attachment->wake_ns = at_ns;
}

static int ring(struct attachment *attachment, struct error *err)
{
	const struct loader_wish look = {LOADER_LOOK, attachment->interrupt};

	if (attachment_process_has_ended(attachment) || !target_is_same(&attachment->target))
		return -ESRCH;
	if (bell_thread(attachment->target.pid) != 0) {
		debug(DEBUG_ATTACH, "process %d: ringing: SIGURG to its bell thread", (int)attachment->target.pid);
		return bell_ring(attachment->target.pid, attachment->process, attachment->interrupt);
	}
	if (attachment->loading.bell == LOADER_BELL_CALL) {
		debug(DEBUG_ATTACH, "process %d: ringing: a call of rbprobe_ring, as the application has SIGURG",
		      (int)attachment->target.pid);
		return loader_ring(&attachment->target, err);
	}
	/*
	 * Where the extension was loaded for a session, SIGURG is given back when that ends, maybe since we looked. It
	 * is taken again by the loader.
	 */
	if (loader_bell_is_gone(&attachment->target) &&
	    loader_prepare(&attachment->target, &look, &attachment->loading, NULL) == 0 && attachment->loading.started)
		return 0;
	/*
	 * An extension that we have just started makes its bell thread, which a busy machine may run late. A signal to the
	 * process would meanwhile cut short what a thread of the application waits in. Where the thread cannot be made,
	 * none comes: the longest interval is the last that is waited.
	 */
	if (attachment->loading.started && attachment->ring_interval_ns < RING_INTERVAL_MAX_NS) {
		debug(DEBUG_ATTACH, "process %d: not ringing: its bell thread is not there yet", (int)attachment->target.pid);
		return 0;
	}
	debug(DEBUG_ATTACH, "process %d: ringing: SIGURG to the process, which has no bell thread", (int)attachment->target.pid);
	return bell_ring(attachment->target.pid, attachment->process, attachment->interrupt);
}

/* One ring that is due. Jobs coalesce in the target, so that too many rings do no harm. */
static int ring_if_due(struct attachment *attachment, uint64_t now_ns, struct error *err)
{
	int status;

	if (attachment->launched && attachment->state < ATTACHMENT_ARMED)
		return 0;
	/* An extension that is just starting makes its queue by itself, and its handler is not there before. */
	if (attachment->loading.started && attachment->queue < 0)
		return 0;
	if (now_ns < attachment->ring_ns) {
		wake_at(attachment, attachment->ring_ns);
		return 0;
	}
	status = ring(attachment, err);
	attachment->ring_ns = now_ns + attachment->ring_interval_ns;
	attachment->ring_interval_ns *= 2;
	if (attachment->ring_interval_ns > RING_INTERVAL_MAX_NS)
		attachment->ring_interval_ns = RING_INTERVAL_MAX_NS;
	wake_at(attachment, attachment->ring_ns);
	if (status == -EAGAIN)
		return 0;
	if (status < 0 && status != -ESRCH && attachment->loading.bell == LOADER_BELL_CALL)
		return status;
	if (status == -ESRCH) {
		if (attachment_process_has_ended(attachment) || !target_is_same(&attachment->target))
			return attachment_has_ended(attachment, err);
		/* Its thread went with another client's session, between our look and our signal. It is started again. */
		debug(DEBUG_ATTACH, "process %d: its bell thread left as it was rung", (int)attachment->target.pid);
		return 0;
	}
	if (status < 0) {
		error_set(err, status, "cannot signal process %d: %s", (int)attachment->target.pid, strerror(-status));
		return capabilities_explain(&attachment->target, status, err);
	}
	return 0;
}

static void look_again(struct attachment *attachment, uint64_t now_ns)
{
	wake_at(attachment, now_ns + attachment->look_interval_ns);
	attachment->look_interval_ns *= 2;
	if (attachment->look_interval_ns > LOOK_INTERVAL_MAX_NS)
		attachment->look_interval_ns = LOOK_INTERVAL_MAX_NS;
}

/* Nobody has the GVL, or somebody keeps it; the main thread's system call shows which is likely. */
static int no_safe_point(const struct attachment *attachment, double seconds, struct error *err)
{
	int pid = (int)attachment->target.pid;
	struct thread_wait wait;

	if (thread_wait_read(&wait, attachment->target.pid, attachment->target.pid) == 1 && !thread_wait_is_futex(&wait))
		return error_set(err, -ETIMEDOUT,
		                 "process %d did not come to a safe point within %g s: its main thread waits in %s, and "
		                 "waking it could make that call end early or fail; wait longer with --timeout SEC, or wake it "
		                 "all the same with --interrupt",
		                 pid, seconds, thread_wait_name(&wait));
	return error_set(err, -ETIMEDOUT,
	                 "process %d did not come to a safe point within %g s: C code holds its GVL (a native extension, a long "
	                 "regexp or number), or it is starved of CPU; wait longer with --timeout SEC",
	                 pid, seconds);
}

static int late(const struct attachment *attachment, struct error *err)
{
	int pid = (int)attachment->target.pid;
	double seconds = (double)attachment->timeout_ns / 1e9;
	char state = target_state(&attachment->target);
	struct target now;

	if (attachment->queue < 0)
		queue_debug(&attachment->target);
	if (state == 'T' || state == 't')
		return error_set(err, -ETIMEDOUT,
		                 "process %d is stopped and cannot answer; let it go on first, with: kill -CONT %d", pid, pid);
	if (container_is_frozen(attachment->target.pid))
		return container_refuse_frozen(attachment->target.pid, err);
	if (attachment->queue < 0 && attachment->loading.started) {
		if (loader_has_started(&attachment->target, err) < 0)
			return err->code;
		if (no_safe_point(attachment, seconds, err) < 0 && strstr(err->text, "--interrupt"))
			return err->code;
		return error_set(err, -ETIMEDOUT,
		                 "the extension is in process %d now, but Ruby did not come to a point where it could start "
		                 "within %g s: C "
		                 "code holds its GVL (a native extension, a long regexp or number), or it is starved of CPU; "
		                 "wait longer with "
		                 "--timeout SEC, or try again later",
		                 pid, seconds);
	}
	if (attachment->queue < 0 && attachment->loading.bell == LOADER_BELL_SIGNAL &&
	    target_describe(&now, attachment->target.pid, TARGET_BASIC, NULL) == 0 && now.sigurg != SIGURG_CAUGHT &&
	    bell_thread(attachment->target.pid) == 0)
		return target_check_loaded(&now, err);
	if (attachment->queue < 0 && queue_check_room(&attachment->target, err) < 0)
		return err->code;
	if (attachment->queue < 0)
		return error_set(
			err, -ETIMEDOUT,
			"process %d has loaded rbprobe, but SIGURG does not reach it (%g s): the application has taken the "
			"signal "
			"with a trap(\"URG\") of its own, or blocks it; remove that trap, or require \"rbprobe\" after it",
			pid, seconds);
	if (attachment->fd < 0 || !attachment->greeted || attachment->state == ATTACHMENT_ARMED)
		return no_safe_point(attachment, seconds, err);
	return error_set(err, -ETIMEDOUT,
	                 "process %d is still looking for methods or arming them after %g s, and gives that up now: select fewer "
	                 "methods, or "
	                 "wait longer with --timeout SEC",
	                 pid, seconds);
}

/* Of a launched process: its bell thread gives itself its name, which a busy machine may run late. */
static void note_bell(struct attachment *attachment)
{
	if (attachment->launched && !attachment->bell)
		attachment->bell = bell_thread(attachment->target.pid);
}

/* It has come. */
static bool take_connection(struct attachment *attachment)
{
	int fd = rendezvous_accept(&attachment->rendezvous, &attachment->target);

	if (fd < 0)
		return false;
	attachment->fd = fd;
	debug(DEBUG_ATTACH, "process %d: it has connected", (int)attachment->target.pid);
	attachment->state = ATTACHMENT_CONNECTED;
	note_bell(attachment);
	if (!(attachment->command.options.flags & TRACE_FOLLOW_FORKS))
		rendezvous_close(&attachment->rendezvous);
	return true;
}

/*
 * The queue went away between finding and using it: its last session ended just then, or it was left by a dead process
 * of the same PID.
 */
static int queue_vanished(struct attachment *attachment, uint64_t now_ns, struct error *err)
{
	if (attachment->state >= ATTACHMENT_ARMED || take_connection(attachment))
		return 0;
	if (attachment->restarts == RESTARTS_MAX)
		return error_set(err, -EIDRM,
		                 "the command queue of process %d was removed %d times while attaching; is somebody cleaning "
		                 "up System V queues?",
		                 (int)attachment->target.pid, RESTARTS_MAX + 1);
	attachment->restarts++;
	debug(DEBUG_QUEUE, "process %d: queue %d is gone; beginning again with the first command", (int)attachment->target.pid,
	      attachment->queue);
	attachment->loading.started = false;
	attachment->queue = -1;
	outbox_rewind(&attachment->outbox);
	attachment->ring_ns = 0;
	attachment->look_interval_ns = LOOK_INTERVAL_MIN_NS;
	wake_at(attachment, now_ns);
	if (attachment->launched) {
		/* It was that of the program before, and there is no saying when the new one makes its own. */
		rendezvous_close(&attachment->rendezvous);
		outbox_free(&attachment->outbox);
		attachment->state = ATTACHMENT_EXPECTING;
		attachment->deadline_ns = UINT64_MAX;
	}
	return 0;
}

/* An extension that cannot start makes no queue: then there is nothing to wait for. */
static int check_start(struct attachment *attachment, uint64_t now_ns, struct error *err)
{
	int started;

	if (!attachment->loading.started || now_ns < attachment->start_look_ns)
		return 0;
	attachment->start_look_ns = now_ns + START_LOOK_INTERVAL_NS;
	started = loader_has_started(&attachment->target, err);
	return started < 0 ? started : 0;
}

static int queue_step(struct attachment *attachment, uint64_t now_ns, struct error *err)
{
	size_t command, sent;
	int status;

	if (attachment->queue < 0) {
		int id;

		status = queue_find(&attachment->target, &id, err);
		if (status < 0)
			return status;
		if (status == 0) {
			if (!attachment->queue_is_new)
				debug(DEBUG_QUEUE, "process %d: has no queue yet", (int)attachment->target.pid);
			attachment->queue_is_new = true;
			look_again(attachment, now_ns);
			status = check_start(attachment, now_ns, err);
			return status < 0 ? status : ring_if_due(attachment, now_ns, err);
		}
		attachment->queue = id;
		debug(DEBUG_QUEUE, "process %d: its queue is %d", (int)attachment->target.pid, id);
		if (attachment->state == ATTACHMENT_EXPECTING) {
			/* Only now: until here it may have changed its root directory and its user. */
			status = target_describe(&attachment->target, attachment->target.pid, TARGET_BASIC, err);
			if (status == 0)
				status = attachment_address(attachment, err);
			if (status < 0)
				return status;
			attachment->state = ATTACHMENT_ATTACHING;
			attachment->deadline_ns = now_ns + attachment->timeout_ns;
			wake_at(attachment, attachment->deadline_ns); /* until now there was none */
		}
	}
	if (outbox_is_empty(&attachment->outbox)) {
		/*
		 * The target removes a queue that is a little older than itself, and the commands in it. Whether it is
		 * older cannot be seen from here.
		 */
		if (attachment->state == ATTACHMENT_ATTACHING && now_ns >= attachment->ring_ns &&
		    !queue_is_there(&attachment->target, attachment->queue))
			return queue_vanished(attachment, now_ns, err);
		if (attachment->launched && attachment->state == ATTACHMENT_ATTACHING)
			look_again(attachment, now_ns);
		return ring_if_due(attachment, now_ns, err);
	}

	command = attachment->outbox.command;
	sent = attachment->outbox.sent;
	status = outbox_send(&attachment->outbox, &attachment->target, attachment->queue, attachment->nonce, err);
	if (attachment->outbox.command != command || attachment->outbox.sent != sent) {
		/* A long command takes as long as it takes, while the target goes on reading. */
		attachment->deadline_ns = now_ns + attachment->timeout_ns;
		attachment->look_interval_ns = LOOK_INTERVAL_MIN_NS;
		attachment->ring_ns = 0; /* there is something to take */
		attachment->ring_interval_ns = RING_INTERVAL_MIN_NS;
	}
	if (status == -EIDRM)
		return queue_vanished(attachment, now_ns, err);
	if (status < 0)
		return status;
	if (status == 0) {
		if (attachment->ring_ns > now_ns + LOOK_INTERVAL_MAX_NS)
			attachment->ring_ns = now_ns + LOOK_INTERVAL_MAX_NS; /* the target must make room */
		look_again(attachment, now_ns);
	}
	return ring_if_due(attachment, now_ns, err);
}

int attachment_step(struct attachment *attachment, uint64_t now_ns, struct error *err)
{
	int status;

	attachment->wake_ns = UINT64_MAX;
	if (attachment->state == ATTACHMENT_OVER || (attachment->state == ATTACHMENT_ARMED && !attachment->unanswered_id) ||
	    (attachment->state == ATTACHMENT_CONNECTED && attachment->forked))
		return 0;
	wake_at(attachment, attachment->deadline_ns);
	if (attachment->fd < 0 && attachment->state != ATTACHMENT_DETACHING && !take_connection(attachment) &&
	    attachment_process_has_ended(attachment))
		return attachment_has_ended(attachment, err);
	if (now_ns >= attachment->deadline_ns)
		return attachment->state == ATTACHMENT_DETACHING
		               ? error_set(err, -ETIMEDOUT,
		                           "process %d did not confirm the end of the session; it disarms "
		                           "by itself",
		                           (int)attachment->target.pid)
		               : late(attachment, err);
	/* With everything sent and the target at the other end of the socket, only a slow job is waited for. */
	status = queue_step(attachment, now_ns, err);
	/* The socket of a connected process reports its end, after all that it had to say. */
	return status == -ESRCH && attachment->fd >= 0 ? 0 : status;
}

/* What is to be kept of it. The file of the VM, which may say it too, is not read for an attach. */
static void note_version(struct target *target, struct slice version)
{
	if (!target->ruby_version[0] && version.size)
		snprintf(target->ruby_version, sizeof(target->ruby_version), "%.*s", (int)version.size, version.bytes);
}

int attachment_hello(struct attachment *attachment, const struct record_hello *hello, struct error *err)
{
	int pid = (int)attachment->target.pid;

	if (hello->version != PROTOCOL_VERSION)
		return error_set(err, -EPROTO,
		                 "process %d speaks protocol %u (extension %.*s), this rbprobe (" RBPROBE_VERSION
		                 ") protocol %u; use the "
		                 "rbprobe that its extension came with, or restart it with the new one",
		                 pid, hello->version, (int)hello->extension_version.size, hello->extension_version.bytes,
		                 PROTOCOL_VERSION);
	if (hello->nonce.size != NONCE_SIZE || memcmp(hello->nonce.bytes, attachment->nonce, NONCE_SIZE) != 0)
		return error_set(err, -EPROTO, "process %d answered with the secret of another session; refusing to trust it",
		                 pid);
	if (hello->pid != (uint32_t)attachment->target.own_pid && attachment->target.own_pid)
		return error_set(err, -EPROTO, "process %d says that it is process %u; refusing to trust it", pid, hello->pid);
	attachment->greeted = true;
	note_version(&attachment->target, hello->ruby_version);
	note_bell(attachment);
	debug(DEBUG_ATTACH, "process %d: it greets: Ruby %.*s, extension %.*s, protocol %u", pid, (int)hello->ruby_version.size,
	      hello->ruby_version.bytes, (int)hello->extension_version.size, hello->extension_version.bytes, hello->version);
	return 0;
}

int attachment_reply(struct attachment *attachment, const struct record_reply *reply, struct error *err)
{
	if (attachment->unanswered_id && reply->command_id == attachment->unanswered_id) {
		attachment->unanswered_id = 0;
		if (attachment->state != ATTACHMENT_DETACHING) /* there, a command is on its way already */
			attachment->wake_ns = UINT64_MAX;
		return 0;
	}
	if (reply->command_id != attachment->command_id || attachment->state != ATTACHMENT_CONNECTED)
		return 0;
	if (!attachment->greeted)
		return error_set(err, -EPROTO, "process %d answered without a greeting", (int)attachment->target.pid);
	attachment->state = ATTACHMENT_ARMED;
	note_bell(attachment);
	debug(DEBUG_ATTACH, "process %d: it answers the first command with code %u, count %llu", (int)attachment->target.pid,
	      reply->code, (unsigned long long)reply->count);
	attachment->wake_ns = UINT64_MAX;
	if (reply->code != 0)
		return error_set(err, -ECANCELED, "process %d: %.*s", (int)attachment->target.pid, (int)reply->text.size,
		                 reply->text.bytes);
	return 0;
}
