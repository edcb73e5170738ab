/*
 * Attached clients, from handshake to clean-up. See session.h. Context: job, except where a function says otherwise.
 *
 * Who frees what: a job makes a session and takes it off the list; from then on its writer thread alone has it, delivers what
 * is left, and frees it. So a job never waits for a client, and a client that does not read delays nobody.
 */

#define _GNU_SOURCE
#include "session.h"

#include "bell.h"
#include "console.h"
#include "core.h"
#include "evaluation.h"
#include "fiber.h"
#include "proto/clock.h"
#include "proto/names.h"
#include "request.h"
#include "selection.h"
#include "stream.h"

#include <errno.h>
#include <ruby.h>
#include <ruby/version.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define RING_SIZE (8u << 20)

static struct {
	struct session *first;    /* live sessions */
	struct session *finished; /* disarmed; session_finish() hands them to their writers */
	struct session *parents;  /* in a forked child: its parent's, to be freed by a job */
} sessions;

/* Holds of this native thread: the only ones that are left in a forked child. */
static __thread unsigned own_holds[SESSIONS_MAX];

struct session *session_first(void)
{
	return sessions.first;
}

struct session *session_find(const uint8_t nonce[NONCE_SIZE])
{
	for (struct session *session = sessions.first; session; session = session->next)
		if (memcmp(session->nonce, nonce, NONCE_SIZE) == 0)
			return session;
	return NULL;
}

void session_hold(struct session *session)
{
	session->held++;
	own_holds[session->slot]++;
}

void session_release(struct session *session)
{
	own_holds[session->slot]--;
	if (--session->held == 0 && session->detaching)
		bell_trigger();
}

struct session *session_hold_next(struct session *held)
{
	struct session *next = held ? held->next : sessions.first;

	if (next)
		session_hold(next);
	if (held)
		session_release(held);
	return next;
}

static struct message *encode(const struct record *record)
{
	msgpack_sbuffer buffer;
	struct message *message;

	msgpack_sbuffer_init(&buffer);
	record_encode(&buffer, record);
	message = buffer.size <= FRAME_SIZE_MAX ? malloc(sizeof(*message) + buffer.size) : NULL;
	if (message) {
		message->size = buffer.size;
		message->has_descriptor = false;
		memcpy(message->bytes, buffer.data, buffer.size);
	}
	msgpack_sbuffer_destroy(&buffer);
	return message;
}

/* At exit the writer frees what it has sent, and nobody waits for it. */
static struct message *message_for(const struct session *session, const struct record *record)
{
	return session->leaked ? NULL : encode(record);
}

void session_send(struct session *session, const struct record *record)
{
	struct message *message = message_for(session, record);

	if (message)
		stream_post(session, message);
}

void session_send_descriptor(struct session *session, const struct record *record, int descriptor)
{
	struct message *message = message_for(session, record);

	if (!message) {
		close(descriptor);
		return;
	}
	message->has_descriptor = true;
	message->descriptor = descriptor;
	stream_post(session, message);
}

void session_note(struct session *session, enum note_level level, const char *format, ...)
{
	char text[TEXT_SIZE_MAX];
	struct record record = {.kind = RECORD_NOTE, .note = {.level = level}};
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	record.note.text = (struct slice){text, strlen(text)};
	session_send(session, &record);
}

void session_tell_missing(struct session *session)
{
	const char *why = core_missed();

	if (!why || session->told_missing)
		return;
	session->told_missing = true;
	session_note(session, NOTE_WARNING, "%s", why);
}

static void send_hello(struct session *session)
{
	struct record record = {
		.kind = RECORD_HELLO,
		.hello = {.version = PROTOCOL_VERSION,
	                  .nonce = {(const char *)session->nonce, NONCE_SIZE},
	                  .pid = (uint32_t)getpid(),
	                  .ruby_version = {ruby_version, strlen(ruby_version)},
	                  .extension_version = {RBPROBE_VERSION, strlen(RBPROBE_VERSION)},
	                  .monotonic_ns = clock_now_ns(),
	                  .realtime_ns = clock_ns(CLOCK_REALTIME)},
	};

	session_send(session, &record);
}

/* Connects, and makes sure that who listens is this process's own user, or root, and the process that wrote the command. */
static int connect_client(const struct command *command, struct error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct ucred peer;
	socklen_t peer_size = sizeof(peer);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int status;

	if (fd < 0)
		return error_set(err, -errno, "no socket: %s", strerror(errno));
	memcpy(address.sun_path, command->attach.socket_path.bytes, command->attach.socket_path.size);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
		status = error_set(err, -errno, "the client's socket cannot be reached: %s", strerror(errno));
		goto refuse;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_size) != 0 || (peer.uid != geteuid() && peer.uid != 0)) {
		status = error_set(err, -EPERM, "the client's socket belongs to another user");
		goto refuse;
	}
	/* 0: outside of our PID namespace. A command that names no PID cannot come from within. */
	if (peer.pid != 0 && (uint32_t)peer.pid != command->attach.client_pid) {
		status = error_set(err, -EPERM, "the client's socket belongs to another process");
		goto refuse;
	}
	return fd;
refuse:
	close(fd);
	return status;
}

static int free_slot(void)
{
	bool used[SESSIONS_MAX] = {false};

	for (struct session *session = sessions.first; session; session = session->next)
		used[session->slot] = true;
	for (int slot = 0; slot < (int)SESSIONS_MAX; slot++)
		if (!used[slot])
			return slot;
	return -1;
}

static struct session *session_new(int fd, const uint8_t nonce[NONCE_SIZE])
{
	/* The ring in it wants cache lines of its own. */
	struct session *session = aligned_alloc(_Alignof(struct session), sizeof(*session));

	if (!session)
		return NULL;
	memset(session, 0, sizeof(*session));
	session->oldest = calloc(1, sizeof(*session->oldest));
	session->scratch = malloc(VALUES_SIZE_MAX);
	if (!session->oldest || !session->scratch || ring_open(&session->ring, RING_SIZE) != 0) {
		free(session->oldest);
		free(session->scratch);
		free(session);
		return NULL;
	}
	session->newest = session->oldest;
	session->socket = fd;
	session->pid = getpid();
	memcpy(session->nonce, nonce, NONCE_SIZE);
	return session;
}

static void session_discard(struct session *session)
{
	ring_close(&session->ring);
	free(session->oldest);
	free(session->scratch);
	free(session);
}

int session_attach(const uint8_t nonce[NONCE_SIZE], const struct command *command, struct error *err)
{
	struct session *session;
	int slot = free_slot();
	int fd = connect_client(command, err);
	int status;

	if (fd < 0)
		return fd;
	session = session_new(fd, nonce);
	if (!session) {
		close(fd);
		return error_set(err, -ENOMEM, "no memory for a session");
	}
	send_hello(session);
	session->slot = slot < 0 ? 0 : (unsigned)slot;
	status = stream_start(session);
	if (status < 0) {
		session_discard(session);
		close(fd);
		return error_set(err, status, "no thread for a session");
	}
	if (command->attach.version != PROTOCOL_VERSION) {
		char text[128];

		snprintf(text, sizeof(text), "the client speaks protocol version %u, the loaded extension version %u",
		         command->attach.version, PROTOCOL_VERSION);
		session_detach(session, END_REFUSED, text);
		return 0;
	}
	if (slot < 0) {
		session_detach(session, END_REFUSED, "as many clients as can be are attached to this process already");
		return 0;
	}
	session->next = sessions.first;
	sessions.first = session;
	return 0;
}

static void unlink_session(struct session *session)
{
	struct session **link = &sessions.first;

	while (*link && *link != session)
		link = &(*link)->next;
	if (*link)
		*link = session->next;
}

static void disarm(struct session *session)
{
	session->other_ractors = selection_foreign_calls(session->selection);
	selection_free(session->selection);
	session->selection = NULL;
	fiber_forget_session(session->slot);
}

void session_detach(struct session *session, enum end_reason reason, const char *text)
{
	session->end_reason = reason;
	snprintf(session->end_text, sizeof(session->end_text), "%s", text);
	session->detaching = true;
	request_abandon_all(session, CANCEL_DETACHED);
	if (session->selection)
		selection_disable(session->selection);
	evaluation_end(&session->options);
	if (session->held)
		return;
	unlink_session(session);
	if (session->selection)
		disarm(session);
	console_free(session);
	session->next = sessions.finished;
	sessions.finished = session;
}

void session_finish(void)
{
	while (sessions.finished) {
		struct session *session = sessions.finished;

		sessions.finished = session->next;
		/* Behind this the writer may free the session at any moment. */
		atomic_store_explicit(&session->closing, true, memory_order_release);
	}
}

unsigned session_reap(void)
{
	struct session *session = sessions.first;
	unsigned alive = 0;

	while (session) {
		struct session *next = session->next;

		if (session->detaching)
			session_detach(session, session->end_reason, session->end_text);
		else if (atomic_load_explicit(&session->gone, memory_order_acquire))
			session_detach(session, END_DETACHED, "");
		session = next;
	}
	for (session = sessions.first; session; session = session->next)
		alive++;
	return alive;
}

void session_exit(unsigned timeout_ms)
{
	struct session *session = sessions.first;

	/* The VM is going down: no Ruby function may be called, and finalizers may still run traced methods. */
	while (session) {
		struct session *next = session->next;

		session->leaked = true;
		request_abandon_all(session, CANCEL_EXIT);
		session->detaching = true;
		session->end_reason = END_EXIT;
		atomic_store_explicit(&session->closing, true, memory_order_release);
		session = next;
	}
	sessions.first = NULL;
	stream_await_all(timeout_ms);
}

/* What this process has copies of: its parent's sessions, live ones and such as were about to be handed to their writers. */
static void forget(struct session *list)
{
	while (list) {
		struct session *session = list;

		list = session->next;
		atomic_store(&session->gone, true);
		session->detaching = true;
		session->held = own_holds[session->slot];
		request_fork_child(session);
		close(session->socket);
		session->next = sessions.parents;
		sessions.parents = session;
	}
}

void session_fork_child(void)
{
	forget(sessions.first);
	forget(sessions.finished);
	sessions.first = sessions.finished = NULL;
	stream_forget_all();
}

bool session_fork_left(void)
{
	return sessions.parents != NULL;
}

/* The rings are not mapped here, and the lists of messages may have been caught in the middle of a change: both are left alone. */
void session_fork_clean(void)
{
	struct session **link = &sessions.parents;

	while (*link) {
		struct session *session = *link;

		/* The thread that forked holds it: an expression of the user's called fork. */
		if (session->held) {
			link = &session->next;
			continue;
		}
		*link = session->next;
		if (session->selection)
			disarm(session);
		console_free(session);
		free(session->scratch);
		free(session);
	}
}
