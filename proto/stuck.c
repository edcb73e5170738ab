/* Frames of fixed layout. See stuck.h. */

#include "proto/stuck.h"

#include <errno.h>
#include <string.h>

/* In front of each frame's two texts. */
struct frame_header {
	int32_t line;
	uint8_t path_size, label_size;
};

#define FRAME_HEADER_SIZE 6u /* without the padding */

bool stuck_add(struct stuck_answer *answer, const struct stuck_frame *frame)
{
	size_t path_size = frame->path.size < STUCK_TEXT_MAX ? frame->path.size : STUCK_TEXT_MAX;
	size_t label_size = frame->label.size < STUCK_TEXT_MAX ? frame->label.size : STUCK_TEXT_MAX;
	struct frame_header header = {frame->line, (uint8_t)path_size, (uint8_t)label_size};
	uint8_t *to = answer->bytes + answer->bytes_used;

	if (answer->frame_count == STUCK_FRAMES_MAX ||
	    STUCK_BYTES_MAX - answer->bytes_used < FRAME_HEADER_SIZE + path_size + label_size)
		return false;
	memcpy(to, &header, FRAME_HEADER_SIZE);
	to += FRAME_HEADER_SIZE;
	if (path_size)
		memcpy(to, frame->path.bytes + frame->path.size - path_size, path_size);
	if (label_size)
		memcpy(to + path_size, frame->label.bytes, label_size);
	answer->bytes_used += (uint32_t)(FRAME_HEADER_SIZE + path_size + label_size);
	answer->frame_count++;
	return true;
}

int stuck_check(const struct stuck_answer *answer, size_t size, const uint8_t nonce[NONCE_SIZE], struct error *err)
{
	struct stuck_frame frame;
	size_t offset = 0;
	uint32_t count = 0;

	if (size < STUCK_HEADER_SIZE || memcmp(answer->magic, STUCK_MAGIC, sizeof(answer->magic)) != 0 ||
	    answer->version != STUCK_VERSION || answer->bytes_used > STUCK_BYTES_MAX ||
	    size != STUCK_HEADER_SIZE + answer->bytes_used)
		return error_set(err, -EPROTO, "malformed answer of a signal handler");
	if (memcmp(answer->nonce, nonce, NONCE_SIZE) != 0)
		return error_set(err, -EPROTO, "a signal handler's answer to another question");
	while (stuck_next(answer, &offset, &frame))
		count++;
	if (count != answer->frame_count || offset != answer->bytes_used)
		return error_set(err, -EPROTO, "a signal handler's answer whose frames do not add up");
	return 0;
}

bool stuck_next(const struct stuck_answer *answer, size_t *offset, struct stuck_frame *frame)
{
	struct frame_header header;
	const uint8_t *from = answer->bytes + *offset;
	size_t left = answer->bytes_used - *offset;

	if (left < FRAME_HEADER_SIZE)
		return false;
	memcpy(&header, from, FRAME_HEADER_SIZE);
	if (left < FRAME_HEADER_SIZE + header.path_size + header.label_size)
		return false;
	frame->line = header.line;
	frame->path = (struct slice){(const char *)from + FRAME_HEADER_SIZE, header.path_size};
	frame->label = (struct slice){frame->path.bytes + header.path_size, header.label_size};
	*offset += FRAME_HEADER_SIZE + header.path_size + header.label_size;
	return true;
}
