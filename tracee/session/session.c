/*
 * Attached clients, from handshake to clean-up. See session.h. Context: job, except where a function says otherwise.
 *
 * Who frees what: a job makes a session and takes it off the list; from then on its writer thread alone has it, delivers what
 * is left, and frees it. So a job never waits for a client, and a client that does not read delays nobody.
 */

#define _GNU_SOURCE
#include "tracee/session/session_parts.h"

#include "tracee/session/bell.h"
#include "tracee/session/debug.h"
#include "tracee/session/permissions.h"
#include "tracee/session/request.h"
#include "tracee/session/stream.h"
#include "tracee/vm/evaluation.h"
#include "tracee/vm/fiber.h"
#include "tracee/vm/own_objects.h"

#include <errno.h>
#include <fcntl.h>
#include <ruby.h>
#include <ruby/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct sessions sessions;

/* Holds of this native thread, besides its fibers': the only ones that are left in a forked child. */
static __thread unsigned own_holds[SESSIONS_MAX];

unsigned session_own_holds(const struct session *session)
{
	return own_holds[session->slot];
}

struct session *session_first(void)
{
	return sessions.first;
}

struct session *session_finished(void)
{
	return sessions.finished;
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

static void let_go(struct session *session)
{
	if (--session->held == 0 && session->detaching)
		bell_trigger();
}

void session_release(struct session *session)
{
	own_holds[session->slot]--;
	let_go(session);
}

void session_hold_for(struct session *session, struct fiber_state *fiber)
{
	session->held++;
	fiber->stacks[session->slot].held++;
	own_objects_begin(fiber);
}

void session_release_for(struct session *session, struct fiber_state *fiber)
{
	own_objects_end(fiber);
	fiber->stacks[session->slot].held--;
	let_go(session);
}

static void end_holds(struct session *list, struct fiber_state *fiber)
{
	for (struct session *session = list; session; session = session->next) {
		struct call_stack *stack = &fiber->stacks[session->slot];

		if (stack->values == session->scratch)
			session->scratch_used = false;
		else
			free(stack->values);
		stack->values = NULL;
		while (stack->held)
			session_release_for(session, fiber);
	}
}

void session_fiber_died(struct fiber_state *fiber)
{
	end_holds(sessions.first, fiber);
	end_holds(sessions.parents, fiber);
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
	if (!session->oldest || !session->scratch || ring_open(&session->ring, SESSION_RING_SIZE) != 0) {
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

static void (*on_attached)(const struct session_client *client);

void session_on_attached(void (*attached)(const struct session_client *client))
{
	on_attached = attached;
}

int session_attach(const uint8_t nonce[NONCE_SIZE], const struct command *command, struct error *err)
{
	struct session_client client = {.pid = command->attach.client_pid, .command = command->attach.command};
	struct session *session;
	int slot = free_slot();
	int fd = session_connect_as(command, &client.uid, err);
	int status;

	if (fd < 0)
		return fd;
	session = session_new(fd, nonce);
	if (!session) {
		close(fd);
		return error_set(err, -ENOMEM, "no memory for a session");
	}
	session_send_hello(session);
	session->slot = slot < 0 ? 0 : (unsigned)slot;
	session->debug = command->attach.debug;
	memcpy(session->client_path, command->attach.socket_path.bytes, command->attach.socket_path.size);
	session->client_pid = command->attach.client_pid;
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
	debug(session, DEBUG_SESSION, "attached in slot %u, by a client with PID %u; ring of %u MiB", session->slot,
	      command->attach.client_pid, SESSION_RING_SIZE >> 20);
	memcpy(client.nonce, nonce, NONCE_SIZE);
	if (on_attached)
		on_attached(&client);
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

#define PARTS_MAX 8

static const struct session_part *parts[PARTS_MAX];

void session_part_register(const struct session_part *part)
{
	size_t i = 0;

	while (i < PARTS_MAX && parts[i] && parts[i] != part)
		i++;
	if (i < PARTS_MAX)
		parts[i] = part;
}

static void say_last_words(struct session *session)
{
	for (size_t i = 0; i < PARTS_MAX && parts[i]; i++)
		if (parts[i]->last_words && !atomic_load_explicit(&session->gone, memory_order_relaxed))
			parts[i]->last_words(session);
}

static void stop_parts(struct session *session)
{
	for (size_t i = 0; i < PARTS_MAX && parts[i]; i++)
		if (parts[i]->stop)
			parts[i]->stop(session);
}

static bool have_stopped(const struct session *session)
{
	for (size_t i = 0; i < PARTS_MAX && parts[i]; i++)
		if (parts[i]->stopped && !parts[i]->stopped(session))
			return false;
	return true;
}

static void exit_parts(struct session *session)
{
	for (size_t i = 0; i < PARTS_MAX && parts[i]; i++)
		if (parts[i]->exit)
			parts[i]->exit(session);
}

void session_release_parts(struct session *session)
{
	for (size_t i = 0; i < PARTS_MAX && parts[i]; i++)
		parts[i]->release(session);
	session_forget_lasting(session);
}

bool session_adopt_parts(struct session *session)
{
	for (size_t i = 0; i < PARTS_MAX && parts[i]; i++)
		if (parts[i]->adopt && !parts[i]->adopt(session))
			return false;
	return true;
}

void session_detach(struct session *session, enum end_reason reason, const char *text)
{
	session->end_reason = reason;
	snprintf(session->end_text, sizeof(session->end_text), "%s", text);
	if (!session->detaching)
		say_last_words(session);
	session->detaching = true;
	request_abandon_all(session, CANCEL_DETACHED);
	stop_parts(session);
	evaluation_end(&session->options);
	if (!have_stopped(session))
		return;
	if (session->held) {
		debug(session, DEBUG_SESSION, "detached, and held by %u events or threads: freed when they let go of it",
		      session->held);
		return;
	}
	unlink_session(session);
	session_release_parts(session);
	debug(session, DEBUG_SESSION, "detached (reason %d): disarmed, and what it observed is freed; %llu calls, %llu lost",
	      (int)reason, (unsigned long long)session->calls, (unsigned long long)session->ring.lost);
	session->next = sessions.finished;
	sessions.finished = session;
}

void session_finish(void)
{
	while (sessions.finished) {
		struct session *session = sessions.finished;

		sessions.finished = session->next;
		debug(session, DEBUG_SESSION, "over: the writer sends what is left, and frees the session");
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

static uint32_t needed_now(const struct session *session)
{
	uint32_t needs = session->selection ? session->needs : 0;

	for (const struct request *request = session->requests; request; request = request->next)
		needs |= request->needs;
	return needs;
}

void session_withdraw(void)
{
	struct session *session = sessions.first;
	struct error err;

	while (session) {
		struct session *next = session->next;

		if (permissions_check(needed_now(session), &err) < 0)
			session_detach(session, END_REFUSED, err.text);
		session = next;
	}
}

void session_exit(unsigned timeout_ms)
{
	struct session *session = sessions.first;

	session_fork_introduce();
	/* The VM is going down: no Ruby function may be called, and finalizers may still run traced methods. */
	while (session) {
		struct session *next = session->next;

		if (!session->detaching)
			say_last_words(session);
		session->detaching = true;
		session->leaked = true;
		request_abandon_all(session, CANCEL_EXIT);
		exit_parts(session);
		session->end_reason = END_EXIT;
		atomic_store_explicit(&session->closing, true, memory_order_release);
		session = next;
	}
	sessions.first = NULL;
	stream_await_all(timeout_ms);
}
