/* Records, as the extension sends them. See lie.h. */

#include "tests/security/liar/lie.h"

#include <errno.h>
#include <sys/socket.h>

uint64_t lie_random(struct lie *lie)
{
	lie->random ^= lie->random << 13;
	lie->random ^= lie->random >> 7;
	lie->random ^= lie->random << 17;
	return lie->random;
}

bool lie_send(int fd, const char *bytes, size_t size)
{
	while (size) {
		ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return false;
		bytes += sent;
		size -= (size_t)sent;
	}
	return true;
}

bool lie_flush(struct lie *lie)
{
	bool there = lie_send(lie->socket, lie->records.data, lie->records.size);

	msgpack_sbuffer_clear(&lie->records);
	return there;
}

void lie_add_method(struct lie *lie, uint32_t ref)
{
	static char name[2001];
	struct record record = {.kind = RECORD_METHOD};

	memset(name, 'm', sizeof(name) - 1);
	record.method = (struct record_method){
		.ref = ref, .class_name = text(name), .separator = '#', .method_name = text(name), .engine = ENGINE_TARGET};
	record_encode(&lie->records, &record);
}

void lie_add_fiber(struct lie *lie, uint32_t ref)
{
	struct record record = {.kind = RECORD_FIBER};

	record.fiber = (struct record_fiber){
		.ref = ref, .thread_id = 1, .thread_name = text("a thread"), .root = true, .created_at = text("")};
	record_encode(&lie->records, &record);
}

void lie_add_done(struct lie *lie)
{
	struct record record = {.kind = RECORD_DONE, .done = {.command_id = lie->request, .text = {"", 0}}};

	record_encode(&lie->records, &record);
}

void lie_add_data(struct lie *lie, const msgpack_sbuffer *packed)
{
	struct record record = {.kind = RECORD_DATA,
	                        .data = {.command_id = lie->request, .packed = {packed->data, packed->size}}};

	record_encode(&lie->records, &record);
}

void lie_end(struct lie *lie)
{
	struct record record = {.kind = RECORD_END};

	record.end = (struct record_end){.text = {"", 0},
	                                 .calls = 1,
	                                 .lost = UINT64_MAX,
	                                 .other_ractors = UINT64_MAX,
	                                 .left_out = UINT64_MAX,
	                                 .marks = 0,
	                                 .marks_lost = UINT64_MAX,
	                                 .counted = UINT64_MAX};
	record_encode(&lie->records, &record);
	lie_flush(lie);
	shutdown(lie->socket, SHUT_WR);
}
