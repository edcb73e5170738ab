/* The most recent part of a recording. See recent.h. */

#include "tracer/recording/recent.h"

#include <stdlib.h>
#include <string.h>

#define STRETCHES 8 /* that the limits are divided into */

struct part {
	enum recording_part kind;
	bool known; /* who has read the stretch before knows it */
	union {
		struct recording_session session;
		struct recording_block block;
		struct recording_end end;
	};
	char *bytes; /* a block's frame; the texts of others */
};

struct stretch {
	uint64_t began_ns;
	uint64_t first_ns; /* when its first record came that was not known; 0: none has */
	struct part *parts;
	size_t count, room;
	uint64_t size, known_size; /* of all, and of what is known */
};

struct recent {
	struct recent_limits limits;
	struct stretch *stretches; /* oldest first; the last one grows */
	size_t count;
	uint64_t size;
	bool knowing; /* what comes is known */
	bool news;
	bool cut; /* what went last was not too old */
};

struct recent *recent_new(const struct recent_limits *limits)
{
	struct recent *recent = memory_zeroed(sizeof(*recent));

	recent->limits = *limits;
	recent->stretches = memory_zeroed(sizeof(*recent->stretches));
	recent->count = 1;
	return recent;
}

static void stretch_free(struct stretch *stretch)
{
	for (size_t i = 0; i < stretch->count; i++)
		free(stretch->parts[i].bytes);
	free(stretch->parts);
}

void recent_free(struct recent *recent)
{
	if (!recent)
		return;
	for (size_t i = 0; i < recent->count; i++)
		stretch_free(&recent->stretches[i]);
	free(recent->stretches);
	free(recent);
}

static struct stretch *newest(const struct recent *recent)
{
	return &recent->stretches[recent->count - 1];
}

/* --- Stretches */

uint64_t recent_block_ns(const struct recent_limits *limits, uint64_t most_ns)
{
	return limits->ns && limits->ns / (2 * STRETCHES) < most_ns ? limits->ns / (2 * STRETCHES) : most_ns;
}

/* What must be known at its beginning may be much: then it is not said over and over again for little that is new. */
uint64_t recent_due_ns(const struct recent *recent)
{
	const struct stretch *stretch = newest(recent);
	uint64_t size = stretch->size - stretch->known_size;

	if (!stretch->first_ns)
		return UINT64_MAX;
	if (size >= recent->limits.size / STRETCHES && size >= stretch->known_size)
		return 0;
	if (!recent->limits.ns)
		return UINT64_MAX;
	return stretch->first_ns + (size >= stretch->known_size / STRETCHES ? recent->limits.ns / STRETCHES : recent->limits.ns);
}

bool recent_is_due(const struct recent *recent, uint64_t now_ns)
{
	return now_ns >= recent_due_ns(recent);
}

/* All of the oldest one came before the next one began. */
static void drop_old(struct recent *recent, uint64_t now_ns)
{
	size_t gone = 0;

	while (gone + 1 < recent->count) {
		uint64_t next_ns = recent->stretches[gone + 1].began_ns;
		bool is_old = recent->limits.ns && now_ns - next_ns >= recent->limits.ns;

		if (!is_old && recent->size <= recent->limits.size)
			break;
		recent->cut = !is_old;
		recent->size -= recent->stretches[gone].size;
		stretch_free(&recent->stretches[gone++]);
	}
	recent->count -= gone;
	memmove(recent->stretches, recent->stretches + gone, recent->count * sizeof(*recent->stretches));
}

void recent_begin(struct recent *recent, uint64_t now_ns)
{
	recent->stretches = memory_resize(recent->stretches, (recent->count + 1) * sizeof(*recent->stretches));
	recent->stretches[recent->count++] = (struct stretch){.began_ns = now_ns};
	recent->knowing = true;
	drop_old(recent, now_ns);
}

void recent_known(struct recent *recent)
{
	recent->knowing = false;
}

/* --- Parts */

static void add(struct recent *recent, struct part part, size_t bytes)
{
	struct stretch *stretch = newest(recent);
	size_t size = sizeof(part) + bytes;

	if (stretch->count == stretch->room) {
		stretch->room = stretch->room ? 2 * stretch->room : 16;
		stretch->parts = memory_resize(stretch->parts, stretch->room * sizeof(*stretch->parts));
	}
	part.known = recent->knowing;
	stretch->parts[stretch->count++] = part;
	stretch->size += size;
	stretch->known_size += part.known ? size : 0;
	recent->size += size;
}

static struct slice copied(char **at, struct slice text)
{
	struct slice copy = {*at, text.size};

	if (text.size)
		memcpy(*at, text.bytes, text.size);
	*at += text.size;
	return copy;
}

void recent_session(struct recent *recent, const struct recording_session *session)
{
	size_t size = session->ruby_version.size + session->extension_version.size + session->command.size;
	struct part part = {.kind = RECORDING_SESSION, .session = *session, .bytes = memory_resize(NULL, size + 1)};
	char *at = part.bytes;

	part.session.ruby_version = copied(&at, session->ruby_version);
	part.session.extension_version = copied(&at, session->extension_version);
	part.session.command = copied(&at, session->command);
	add(recent, part, size);
}

void recent_block(struct recent *recent, const struct recording_block *block, char *frame, uint64_t since_ns, uint64_t now_ns)
{
	struct stretch *stretch = newest(recent);

	add(recent, (struct part){.kind = RECORDING_BLOCK, .block = *block, .bytes = frame}, block->packed);
	if (!recent->knowing && !stretch->first_ns)
		stretch->first_ns = since_ns;
	recent->news = recent->news || block->events;
	drop_old(recent, now_ns);
}

void recent_end(struct recent *recent, const struct recording_end *end)
{
	struct part part = {.kind = RECORDING_END, .end = *end, .bytes = memory_resize(NULL, end->reason.size + 1)};
	char *at = part.bytes;

	part.end.reason = copied(&at, end->reason);
	add(recent, part, end->reason.size);
}

bool recent_has_news(const struct recent *recent)
{
	return recent->news;
}

bool recent_is_cut(const struct recent *recent)
{
	return recent->cut && recent->limits.ns;
}

uint64_t recent_size(const struct recent *recent)
{
	return recent->size;
}

/* --- Writing */

/* One in the file: its number there is its place. */
struct written {
	uint32_t number;
	bool continued, over;
	uint64_t from_ns, to_ns;
};

struct writing {
	struct recording_writer *writer;
	struct written *sessions;
	uint32_t count, last;
};

/* Its number in the file; count: none. */
static uint32_t place_of(struct writing *writing, uint32_t number)
{
	if (writing->last < writing->count && writing->sessions[writing->last].number == number)
		return writing->last;
	for (uint32_t i = writing->count; i-- > 0;)
		if (writing->sessions[i].number == number)
			return writing->last = i;
	return writing->count;
}

static void write_session(struct writing *writing, struct recording_session session)
{
	writing->sessions = memory_resize(writing->sessions, (writing->count + 1) * sizeof(*writing->sessions));
	writing->sessions[writing->count] = (struct written){.number = session.number, .continued = session.continued};
	session.number = writing->count++;
	recording_write_session(writing->writer, &session);
}

static void write_block(struct writing *writing, const struct part *part)
{
	struct recording_block block = part->block;
	struct written *session;

	block.session = place_of(writing, block.session);
	if (block.session == writing->count)
		return;
	session = &writing->sessions[block.session];
	if (!session->from_ns)
		session->from_ns = block.from_ns;
	if (block.to_ns)
		session->to_ns = block.to_ns;
	recording_write_packed(writing->writer, &block, part->bytes);
}

static uint64_t span_ns(uint64_t from_ns, uint64_t to_ns)
{
	return to_ns > from_ns ? to_ns - from_ns : 0;
}

/* Of one that continues another file, the time is that of what is in this one. */
static void write_end(struct writing *writing, struct recording_end end)
{
	struct written *session;

	end.session = place_of(writing, end.session);
	if (end.session == writing->count)
		return;
	session = &writing->sessions[end.session];
	session->over = true;
	if (session->continued)
		end.duration_ns = span_ns(session->from_ns, session->to_ns);
	recording_write_end(writing->writer, &end);
}

static void write_part(struct writing *writing, const struct part *part)
{
	switch (part->kind) {
	case RECORDING_SESSION:
		write_session(writing, part->session);
		break;
	case RECORDING_BLOCK:
		write_block(writing, part);
		break;
	case RECORDING_END:
		write_end(writing, part->end);
		break;
	case RECORDING_NOTHING:
	case RECORDING_HEAD:
		break;
	}
}

void recent_expire(struct recent *recent, uint64_t now_ns)
{
	drop_old(recent, now_ns);
}

bool recent_span(const struct recent *recent, uint64_t *from_ns, uint64_t *to_ns)
{
	*from_ns = UINT64_MAX;
	*to_ns = 0;
	for (size_t i = 0; i < recent->count; i++)
		for (size_t k = 0; k < recent->stretches[i].count; k++) {
			const struct part *part = &recent->stretches[i].parts[k];

			if (part->kind != RECORDING_BLOCK || !part->block.events)
				continue;
			if (part->block.from_ns < *from_ns)
				*from_ns = part->block.from_ns;
			if (part->block.to_ns > *to_ns)
				*to_ns = part->block.to_ns;
		}
	return *to_ns != 0;
}

void recent_write(struct recent *recent, struct recording_writer *writer, const char *reason)
{
	struct writing writing = {.writer = writer};

	for (size_t i = 0; i < recent->count; i++)
		for (size_t k = 0; k < recent->stretches[i].count; k++)
			if (i == 0 || !recent->stretches[i].parts[k].known)
				write_part(&writing, &recent->stretches[i].parts[k]);
	for (uint32_t i = 0; reason && i < writing.count; i++) {
		const struct written *session = &writing.sessions[i];

		if (!session->over)
			recording_write_end(writer, &(struct recording_end){
							    .session = i,
							    .duration_ns = span_ns(session->from_ns, session->to_ns),
							    .reason = {reason, strlen(reason)},
						    });
	}
	free(writing.sessions);
	recent->news = false;
}
