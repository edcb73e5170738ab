/*
 * Attaching step by step. See attach.h.
 *
 * The order is: make the socket, ring the bell, find the queue that the target's signal handler creates, write the commands,
 * ring again, be connected to, check who it is. The two waits in it fail for different reasons: no queue means that
 * the signal does not reach the extension's handler; a queue but no connection means that the VM does not come to a point
 * where it runs jobs.
 */

#define _GNU_SOURCE
#include "attach.h"

#include "thread_wait.h"

#include "proto/clock.h"

#include "proto/bell.h"
#include "proto/names.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOOK_INTERVAL_MIN_NS (50 * NS_PER_US)
#define LOOK_INTERVAL_MAX_NS (2 * NS_PER_MS)
#define RESTARTS_MAX 4
#define OTHER_CLIENT_LOOKS 250 /* of 2 ms */
#define RING_INTERVAL_MIN_NS (2 * NS_PER_MS)
#define RING_INTERVAL_MAX_NS (500 * NS_PER_MS)

static bool process_has_ended(const struct session *session)
{
	struct pollfd process = {.fd = session->process, .events = POLLIN};

	if (session->process >= 0)
		return poll(&process, 1, 0) > 0;
	return !target_is_same(&session->target);
}

static void session_init(struct session *session, uint64_t timeout_ns)
{
	memset(session, 0, sizeof(*session));
	session->fd = -1;
	session->process = -1;
	session->queue = -1;
	session->rendezvous = RENDEZVOUS_CLOSED;
	session->timeout_ns = timeout_ns;
	session->ring_interval_ns = RING_INTERVAL_MIN_NS;
	session->look_interval_ns = LOOK_INTERVAL_MIN_NS;
}

/* Holds the process by a descriptor. */
static int session_hold(struct session *session, struct error *err)
{
	session->process = (int)syscall(SYS_pidfd_open, session->target.pid, 0);
	if (!target_is_same(&session->target)) /* after the descriptor exists, so that both mean the same process */
		return error_set(err, -ESRCH, "process %d ended while rbprobe was attaching to it", (int)session->target.pid);
	if (getrandom(session->nonce, NONCE_SIZE, 0) != NONCE_SIZE)
		return error_set(err, -EIO, "the system gives no random numbers: %s", strerror(errno));
	return 0;
}

/* Makes a socket where the process can reach it, and the commands that name it. */
static int session_address(struct session *session, struct error *err)
{
	struct command attach = {.kind = COMMAND_ATTACH, .id = 1}, second = session->request;
	int status = rendezvous_open(&session->rendezvous, &session->target, session->descriptors, err);

	if (status < 0)
		return status;

	attach.attach.version = PROTOCOL_VERSION;
	attach.attach.socket_path.bytes = session->rendezvous.socket_path;
	attach.attach.socket_path.size = strlen(session->rendezvous.socket_path);
	attach.attach.client_pid = session->target.same_pid_namespace ? (uint32_t)getpid() : 0;
	second.id = session->request_id = session->last_id = 2;
	outbox_add(&session->outbox, &attach);
	outbox_add(&session->outbox, &second);
	if (session->outbox.bytes.size > COMMAND_SIZE_MAX)
		return error_set(err, -EMSGSIZE, "the request takes %zu bytes; at most %u can be sent",
		                 session->outbox.bytes.size, COMMAND_SIZE_MAX);
	return 0;
}

/* Another client that is just attaching stops it for a moment; a debugger does so for longer. */
static int await_other_client(struct session *session, struct error *err)
{
	struct timespec pause = {.tv_nsec = (long)(2 * NS_PER_MS)};
	int status = 0;

	for (unsigned i = 0; i < OTHER_CLIENT_LOOKS && status == 0 && session->target.state == 't'; i++) {
		nanosleep(&pause, NULL);
		status = target_describe(&session->target, session->target.pid, TARGET_BASIC, err);
	}
	return status;
}

/* Loads the extension, or finds out how its bell is rung. What has its thread for that needs no look, and so no stop. */
static int session_load(struct session *session, const struct session_manner *manner, struct error *err)
{
	struct loader_wish wish = {manner->may_load ? LOADER_ATTACH : LOADER_LOOK, manner->interrupt};

	if (session->target.extension_mapped ? bell_thread(session->target.pid) != 0 : !manner->may_load)
		return 0;
	return loader_prepare(&session->target, &wish, &session->loading, err);
}

int session_open(struct session *session, pid_t pid, const struct command *request, const struct session_manner *manner,
                 struct error *err)
{
	int status;

	session_init(session, manner->timeout_ns);
	session->interrupt = manner->interrupt;
	session->descriptors = manner->descriptors;
	session->request = *request;
	status = target_describe(&session->target, pid, TARGET_BASIC, err);
	if (status == 0)
		status = target_check(&session->target, err);
	if (status == 0)
		status = session_load(session, manner, err);
	/* Another client may have loaded it between our looks. */
	if (status == 0 && !session->loading.loaded && session->target.sigurg != SIGURG_CAUGHT)
		status = target_describe(&session->target, pid, TARGET_BASIC, err);
	if (status == 0)
		status = await_other_client(session, err);
	/* What was just loaded, has its thread, or is rung by calling it, needs no handler. */
	if (status == 0 && !session->loading.started && session->loading.bell == LOADER_BELL_SIGNAL && bell_thread(pid) == 0)
		status = target_check_loaded(&session->target, err);
	if (status == 0)
		status = session_hold(session, err);
	if (status == 0)
		status = session_address(session, err);
	if (status < 0) {
		session_close(session);
		return status;
	}
	session->state = SESSION_ATTACHING;
	session->deadline_ns = clock_now_ns() + manner->timeout_ns;
	return 0;
}

int session_expect(struct session *session, pid_t pid, const struct command *request, uint64_t timeout_ns, struct error *err)
{
	int status;

	session_init(session, timeout_ns);
	session->request = *request;
	status = target_describe(&session->target, pid, TARGET_BASIC, err);
	if (status == 0)
		status = session_hold(session, err);
	if (status < 0) {
		session_close(session);
		return status;
	}
	session->launched = true;
	session->state = SESSION_EXPECTING;
	session->deadline_ns = UINT64_MAX;
	return 0;
}

int session_descriptor(const struct session *session)
{
	return session->fd >= 0 ? session->fd : session->rendezvous.listener;
}

static void wake_at(struct session *session, uint64_t at_ns)
{
	if (at_ns < session->wake_ns)
		session->wake_ns = at_ns;
}

static int ring(struct session *session, struct error *err)
{
	const struct loader_wish look = {LOADER_LOOK, session->interrupt};

	if (process_has_ended(session) || !target_is_same(&session->target))
		return -ESRCH;
	if (bell_thread(session->target.pid) != 0)
		return bell_ring(session->target.pid, session->process, session->interrupt);
	if (session->loading.bell == LOADER_BELL_CALL)
		return loader_ring(&session->target, err);
	/* Where the extension was loaded for a session, SIGURG is given back when that ends, maybe since we looked. It is taken again by the loader. */
	if (loader_bell_is_gone(&session->target) && loader_prepare(&session->target, &look, &session->loading, NULL) == 0 &&
	    session->loading.started)
		return 0;
	return bell_ring(session->target.pid, session->process, session->interrupt);
}

/* One ring that is due. Jobs coalesce in the target, so that too many rings do no harm. */
static int ring_if_due(struct session *session, uint64_t now_ns, struct error *err)
{
	int status;

	if (session->launched && session->state < SESSION_ARMED)
		return 0;
	/* An extension that is just starting makes its queue by itself, and its handler is not there before. */
	if (session->loading.started && session->queue < 0)
		return 0;
	if (now_ns < session->ring_ns) {
		wake_at(session, session->ring_ns);
		return 0;
	}
	status = ring(session, err);
	session->ring_ns = now_ns + session->ring_interval_ns;
	session->ring_interval_ns *= 2;
	if (session->ring_interval_ns > RING_INTERVAL_MAX_NS)
		session->ring_interval_ns = RING_INTERVAL_MAX_NS;
	wake_at(session, session->ring_ns);
	if (status == -EAGAIN)
		return 0;
	if (status < 0 && status != -ESRCH && session->loading.bell == LOADER_BELL_CALL)
		return status;
	if (status == -ESRCH)
		return error_set(err, status, "process %d ended while rbprobe was attaching to it", (int)session->target.pid);
	if (status < 0)
		return error_set(err, status, "cannot signal process %d: %s", (int)session->target.pid, strerror(-status));
	return 0;
}

static void look_again(struct session *session, uint64_t now_ns)
{
	wake_at(session, now_ns + session->look_interval_ns);
	session->look_interval_ns *= 2;
	if (session->look_interval_ns > LOOK_INTERVAL_MAX_NS)
		session->look_interval_ns = LOOK_INTERVAL_MAX_NS;
}

/* Nobody has the GVL, or somebody keeps it; the main thread's system call tells which is likely. */
static int no_safe_point(const struct session *session, double seconds, struct error *err)
{
	int pid = (int)session->target.pid;
	struct thread_wait wait;

	if (thread_wait_read(&wait, session->target.pid, session->target.pid) == 1 && !thread_wait_is_futex(&wait))
		return error_set(err, -ETIMEDOUT,
		                 "process %d did not come to a safe point within %g s: its main thread waits in %s, called by C "
		                 "code or in a way that Ruby would not begin again, and rbprobe does not cut that short; wait "
		                 "longer with --timeout SEC, or cut it short with --interrupt",
		                 pid, seconds, thread_wait_name(&wait));
	return error_set(err, -ETIMEDOUT,
	                 "process %d did not come to a safe point within %g s: C code holds its GVL (a native extension, a long "
	                 "regexp or number), or it is starved of CPU; wait longer with --timeout SEC",
	                 pid, seconds);
}

static int late(const struct session *session, struct error *err)
{
	int pid = (int)session->target.pid;
	double seconds = (double)session->timeout_ns / 1e9;
	char state = target_state(&session->target);
	struct target now;

	if (state == 'T' || state == 't')
		return error_set(err, -ETIMEDOUT,
		                 "process %d is stopped and cannot answer; let it go on first, with: kill -CONT %d", pid, pid);
	if (session->queue < 0 && session->loading.started) {
		if (loader_has_started(&session->target, err) < 0)
			return err->code;
		if (no_safe_point(session, seconds, err) < 0 && strstr(err->text, "--interrupt"))
			return err->code;
		return error_set(err, -ETIMEDOUT,
		                 "the extension is in process %d now, but Ruby did not come to a point where it could start "
		                 "within %g s: C "
		                 "code holds its GVL (a native extension, a long regexp or number), or it is starved of CPU; "
		                 "wait longer with "
		                 "--timeout SEC, or try again later",
		                 pid, seconds);
	}
	if (session->queue < 0 && session->loading.bell == LOADER_BELL_SIGNAL &&
	    target_describe(&now, session->target.pid, TARGET_BASIC, NULL) == 0 && now.sigurg != SIGURG_CAUGHT &&
	    bell_thread(session->target.pid) == 0)
		return target_check_loaded(&now, err);
	if (session->queue < 0 && queue_check_room(&session->target, err) < 0)
		return err->code;
	if (session->queue < 0)
		return error_set(
			err, -ETIMEDOUT,
			"process %d has loaded rbprobe, but SIGURG does not reach it (%g s): the application has taken the "
			"signal "
			"with a trap(\"URG\") of its own, or blocks it; remove that trap, or require \"rbprobe\" after it",
			pid, seconds);
	if (session->fd < 0 || !session->greeted || session->state == SESSION_ARMED)
		return no_safe_point(session, seconds, err);
	return error_set(err, -ETIMEDOUT,
	                 "process %d is still looking for methods or arming them after %g s, and gives that up now: select fewer "
	                 "methods, or "
	                 "wait longer with --timeout SEC",
	                 pid, seconds);
}

/* The queue went away between finding and using it: its last session ended just then, or it was left by a dead process of the same PID. */
static int queue_vanished(struct session *session, uint64_t now_ns, struct error *err)
{
	if (session->state >= SESSION_ARMED)
		return 0;
	if (session->restarts == RESTARTS_MAX)
		return error_set(err, -EIDRM,
		                 "the command queue of process %d was removed %d times while attaching; is somebody cleaning "
		                 "up System V queues?",
		                 (int)session->target.pid, RESTARTS_MAX + 1);
	session->restarts++;
	session->loading.started = false;
	session->queue = -1;
	outbox_rewind(&session->outbox);
	session->ring_ns = 0;
	session->look_interval_ns = LOOK_INTERVAL_MIN_NS;
	wake_at(session, now_ns);
	return 0;
}

static int queue_step(struct session *session, uint64_t now_ns, struct error *err)
{
	size_t command, sent;
	int status;

	if (session->queue < 0) {
		int id;

		status = queue_find(&session->target, &id, err);
		if (status < 0)
			return status;
		if (status == 0) {
			session->queue_is_new = true;
			look_again(session, now_ns);
			return ring_if_due(session, now_ns, err);
		}
		session->queue = id;
		if (session->state == SESSION_EXPECTING) {
			/* Only now: until here it may have changed its root directory and its user. */
			status = target_describe(&session->target, session->target.pid, TARGET_BASIC, err);
			if (status == 0)
				status = session_address(session, err);
			if (status < 0)
				return status;
			session->state = SESSION_ATTACHING;
			session->deadline_ns = now_ns + session->timeout_ns;
		}
	}
	if (outbox_is_empty(&session->outbox)) {
		/* The target removes a queue that is a little older than itself, which cannot be told from here, with what is in it. */
		if (session->state == SESSION_ATTACHING && now_ns >= session->ring_ns &&
		    !queue_is_there(&session->target, session->queue))
			return queue_vanished(session, now_ns, err);
		return ring_if_due(session, now_ns, err);
	}

	command = session->outbox.command;
	sent = session->outbox.sent;
	status = outbox_send(&session->outbox, &session->target, session->queue, session->nonce, err);
	if (session->outbox.command != command || session->outbox.sent != sent) {
		/* A long command takes as long as it takes, while the target goes on reading. */
		session->deadline_ns = now_ns + session->timeout_ns;
		session->look_interval_ns = LOOK_INTERVAL_MIN_NS;
		session->ring_ns = 0; /* there is something to take */
		session->ring_interval_ns = RING_INTERVAL_MIN_NS;
	}
	if (status == -EIDRM)
		return queue_vanished(session, now_ns, err);
	if (status < 0)
		return status;
	if (status == 0) {
		if (session->ring_ns > now_ns + LOOK_INTERVAL_MAX_NS)
			session->ring_ns = now_ns + LOOK_INTERVAL_MAX_NS; /* the target must make room */
		look_again(session, now_ns);
	}
	return ring_if_due(session, now_ns, err);
}

int session_step(struct session *session, uint64_t now_ns, struct error *err)
{
	int status;

	session->wake_ns = UINT64_MAX;
	if (session->state == SESSION_OVER || (session->state == SESSION_ARMED && !session->asked_id))
		return 0;
	wake_at(session, session->deadline_ns);
	if (session->fd < 0 && session->state != SESSION_DETACHING) {
		int fd = rendezvous_accept(&session->rendezvous, &session->target);

		if (fd >= 0) {
			session->fd = fd;
			session->state = SESSION_ASKED;
			rendezvous_close(&session->rendezvous);
		} else if (process_has_ended(session)) {
			return error_set(err, -ESRCH, "process %d ended %s", (int)session->target.pid,
			                 session->state == SESSION_EXPECTING ? "without having loaded the rbprobe extension"
			                                                     : "while rbprobe was attaching to it");
		}
	}
	if (now_ns >= session->deadline_ns)
		return session->state == SESSION_DETACHING
		               ? error_set(err, -ETIMEDOUT,
		                           "process %d did not confirm the end of the session; it disarms "
		                           "by itself",
		                           (int)session->target.pid)
		               : late(session, err);
	/* With everything sent and the target at the other end of the socket, only a slow job is waited for. */
	status = queue_step(session, now_ns, err);
	/* The end of a connected process is told by its socket, behind everything it had to say. */
	return status == -ESRCH && session->fd >= 0 ? 0 : status;
}

int session_hello(struct session *session, const struct record_hello *hello, struct error *err)
{
	int pid = (int)session->target.pid;

	if (hello->version != PROTOCOL_VERSION)
		return error_set(err, -EPROTO,
		                 "process %d speaks protocol %u (extension %.*s), this rbprobe (" RBPROBE_VERSION
		                 ") protocol %u; use the "
		                 "rbprobe that its extension came with, or restart it with the new one",
		                 pid, hello->version, (int)hello->extension_version.size, hello->extension_version.bytes,
		                 PROTOCOL_VERSION);
	if (hello->nonce.size != NONCE_SIZE || memcmp(hello->nonce.bytes, session->nonce, NONCE_SIZE) != 0)
		return error_set(err, -EPROTO, "process %d answered with the secret of another session; refusing to trust it",
		                 pid);
	if (hello->pid != (uint32_t)session->target.own_pid)
		return error_set(err, -EPROTO, "process %d says that it is process %u; refusing to trust it", pid, hello->pid);
	session->greeted = true;
	return 0;
}

int session_reply(struct session *session, const struct record_reply *reply, struct error *err)
{
	if (session->asked_id && reply->command_id == session->asked_id) {
		session->asked_id = 0;
		if (session->state != SESSION_DETACHING) /* there, a command is on its way already */
			session->wake_ns = UINT64_MAX;
		return 0;
	}
	if (reply->command_id != session->request_id || session->state != SESSION_ASKED)
		return 0;
	if (!session->greeted)
		return error_set(err, -EPROTO, "process %d answered without a greeting", (int)session->target.pid);
	session->state = SESSION_ARMED;
	session->wake_ns = UINT64_MAX;
	if (reply->code != 0)
		return error_set(err, -ECANCELED, "process %d: %.*s", (int)session->target.pid, (int)reply->text.size,
		                 reply->text.bytes);
	return 0;
}

/* A command is on its way from now on. */
static void begin_sending(struct session *session)
{
	uint64_t now_ns = clock_now_ns();

	session->deadline_ns = now_ns + session->timeout_ns;
	session->ring_ns = 0;
	session->ring_interval_ns = RING_INTERVAL_MIN_NS;
	session->look_interval_ns = LOOK_INTERVAL_MIN_NS;
	session->wake_ns = now_ns;
}

uint32_t session_ask(struct session *session, const struct command *command)
{
	struct command numbered = *command;

	numbered.id = ++session->last_id;
	if (outbox_is_empty(&session->outbox))
		outbox_free(&session->outbox);
	outbox_add(&session->outbox, &numbered);
	session->asked_id = numbered.id;
	begin_sending(session);
	return numbered.id;
}

bool session_has_answered(const struct session *session)
{
	return session->asked_id == 0;
}

void session_excuse(struct session *session, uint64_t busy_ns)
{
	session->deadline_ns += busy_ns;
	if (session->wake_ns != UINT64_MAX)
		session->wake_ns += busy_ns;
}

void session_detach(struct session *session)
{
	struct command detach = {.kind = COMMAND_DETACH, .id = ++session->last_id};

	if (session->state >= SESSION_DETACHING)
		return;
	outbox_free(&session->outbox);
	outbox_add(&session->outbox, &detach);
	session->state = SESSION_DETACHING;
	begin_sending(session);
}

bool session_has_execed(const struct session *session)
{
	return !process_has_ended(session) && target_is_same(&session->target);
}

void session_close(struct session *session)
{
	struct target now;

	/* It died before we saw the queue that our bell made it create. */
	if (session->queue < 0 && session->state != SESSION_OVER && process_has_ended(session))
		queue_remove(&session->target);
	/* Nobody has answered: what our bell made, and we put into it, is not left lying there until somebody does. */
	if (session->queue >= 0 && session->queue_is_new && session->fd < 0 && !session->launched &&
	    session->state != SESSION_OVER)
		queue_remove(&session->target);
	/* A launched process may have called exec and be about to use its queue again. */
	if (session->queue >= 0 && !session->ended &&
	    (!target_is_same(&session->target) ||
	     (!session->launched && target_describe(&now, session->target.pid, TARGET_BASIC, NULL) == 0 && now.readable &&
	      !now.extension_mapped)))
		queue_remove(&session->target);
	session->queue = -1;
	rendezvous_close(&session->rendezvous);
	if (session->fd >= 0)
		close(session->fd);
	if (session->process >= 0)
		close(session->process);
	outbox_free(&session->outbox);
	session->fd = session->process = -1;
	session->state = SESSION_OVER;
	session->wake_ns = UINT64_MAX;
}
