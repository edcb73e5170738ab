/* Records on their way to a session's client, by way of its writer. See session.h. Context: job, event. */

#include "tracee/session/session_parts.h"

#include "tracee/session/stream.h"
#include "tracee/vm/builtin_methods.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static struct message *copy_of(const struct message *message)
{
	struct message *copy = malloc(sizeof(*copy) + message->size);

	if (!copy)
		return NULL;
	copy->size = message->size;
	copy->has_descriptor = false;
	memcpy(copy->bytes, message->bytes, message->size);
	return copy;
}

/* What a forked child will have to say to its client by itself, when nobody can be asked. */
static void keep_lasting(struct session *session, const struct record *record, const struct message *message)
{
	struct message *copy = NULL;

	if (session->options.flags & TRACE_FOLLOW_FORKS && (record->kind == RECORD_METHOD || record->kind == RECORD_FOUND))
		copy = copy_of(message);
	if (!copy)
		return;
	atomic_store(&copy->next, session->lasting);
	session->lasting = copy;
}

void session_send(struct session *session, const struct record *record)
{
	struct message *message = message_for(session, record);

	if (!message)
		return;
	keep_lasting(session, record, message);
	stream_post(session, message);
}

void session_send_copy(struct session *session, const struct message *message)
{
	struct message *copy = copy_of(message);

	if (copy)
		stream_post(session, copy);
}

void session_forget_lasting(struct session *session)
{
	while (session->lasting) {
		struct message *message = session->lasting;

		session->lasting = atomic_load(&message->next);
		free(message);
	}
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
	const char *why = builtin_missed();

	if (!why || session->told_missing)
		return;
	session->told_missing = true;
	session_note(session, NOTE_WARNING, "%s", why);
}
