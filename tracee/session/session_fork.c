/*
 * What becomes of sessions in a forked child. See session.h.
 *
 * A child has copies of all that a session is made of, but for its ring and its writer thread, and its methods are armed as the
 * parent's are. Most sessions are forgotten: their events return at once, and a job disarms. One that follows forks goes on. It
 * gets a ring and a connection of its own before fork() returns, by system calls alone: no call is missed, and nobody waits. The
 * client is greeted, and the writer made, by the child's first job, or at its exit. Until then the ring holds what happens, and
 * the connection tells the client of a child that did not come so far.
 */

#define _GNU_SOURCE
#include "tracee/session/session_parts.h"

#include "tracee/session/bell.h"
#include "tracee/session/request.h"
#include "tracee/session/stream.h"
#include "tracee/vm/fiber.h"

#include <stdlib.h>
#include <unistd.h>

static void forget_one(struct session *session)
{
	atomic_store(&session->gone, true);
	session->detaching = true;
	session->held = session_own_holds(session) + fiber_holds(session->slot);
	request_fork_child(session);
	close(session->socket);
	session->next = sessions.parents;
	sessions.parents = session;
}

/* What this process has copies of: its parent's sessions that were about to be handed to their writers. */
static void forget(struct session *list)
{
	while (list) {
		struct session *session = list;

		list = session->next;
		forget_one(session);
	}
}

static bool follows_forks(const struct session *session)
{
	return session->selection && session->options.flags & TRACE_FOLLOW_FORKS && !session->detaching && !session->console &&
	       !atomic_load(&session->gone);
}

/* The parent's writer may be anywhere in the list of messages, but it never frees the newest: the child's own begins there. */
static void begin_messages_anew(struct session *session)
{
	session->oldest = session->newest;
	session->newest->has_descriptor = false;
	atomic_store(&session->newest->next, NULL);
	atomic_store(&session->waiting, 0);
}

/* False: it is to be forgotten. */
static bool adopt(struct session *session)
{
	int fd;

	if (!follows_forks(session) || ring_open(&session->ring, SESSION_RING_SIZE) != 0)
		return false;
	fd = session_connect_again(session);
	if (fd < 0 || !session_adopt_parts(session)) {
		ring_close(&session->ring);
		if (fd >= 0)
			close(fd);
		return false;
	}
	close(session->socket);
	session->socket = fd;
	session->pid = getpid();
	session->held = session_own_holds(session) + fiber_holds(session->slot);
	request_fork_child(session);
	begin_messages_anew(session);
	session->calls = session->counted = session->left_out = session->other_ractors = session->pushed = 0;
	session->mark_count = session->marks_lost = session->marks_left_out = 0;
	session->unannounced = true;
	return true;
}

void session_fork_child(void)
{
	struct session *list = sessions.first, **last = &sessions.first;

	forget(sessions.finished);
	sessions.finished = NULL;
	stream_forget_all();
	while (list) {
		struct session *session = list;

		list = session->next;
		if (adopt(session)) {
			*last = session;
			last = &session->next;
		} else {
			forget_one(session);
		}
	}
	*last = NULL;
}

/* Whatever the client has to know comes first, before what happened since the fork. */
static void greet(struct session *session)
{
	struct message *before = atomic_load(&session->oldest->next), *newest = session->newest, *oldest_first = NULL;
	struct record reply = {.kind = RECORD_REPLY,
	                       .reply = {.command_id = session->command_id, .count = session->command_count, .text = {"", 0}}};

	atomic_store(&session->oldest->next, NULL);
	session->newest = session->oldest;
	session_send_hello(session);
	for (struct message *lasting = session->lasting, *next; lasting; lasting = next) {
		next = atomic_load(&lasting->next);
		atomic_store(&lasting->next, oldest_first);
		oldest_first = lasting;
	}
	session->lasting = NULL;
	while (oldest_first) {
		struct message *next = atomic_load(&oldest_first->next);

		session_send_copy(session, oldest_first);
		atomic_store(&oldest_first->next, session->lasting);
		session->lasting = oldest_first;
		oldest_first = next;
	}
	session_send(session, &reply);
	for (struct message *message = atomic_load(&session->oldest->next); message; message = atomic_load(&message->next))
		message->position = 0;
	if (!before)
		return;
	atomic_store(&session->newest->next, before);
	session->newest = newest;
}

void session_fork_introduce(void)
{
	for (struct session *session = sessions.first; session; session = session->next) {
		if (!session->unannounced)
			continue;
		session->unannounced = false;
		greet(session);
		if (stream_start(session) == 0)
			continue;
		/* Nobody will write: the client sees the end of the connection. */
		close(session->socket);
		session->socket = -1;
		atomic_store(&session->gone, true);
	}
}

void session_note_answer(struct session *session, uint32_t command_id, uint64_t count)
{
	session->command_id = command_id;
	session->command_count = count;
}

bool session_is_parents(const struct session *session)
{
	return session->pid != getpid();
}

bool session_fork_left(void)
{
	return sessions.parents != NULL;
}

/*
 * The rings are not mapped here, and the lists of messages may have been caught in the middle of a change: both are left alone.
 */
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
		session_release_parts(session);
		free(session->scratch);
		free(session);
	}
}
