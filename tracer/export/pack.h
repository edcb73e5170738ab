#ifndef RBPROBE_PACK_H
#define RBPROBE_PACK_H

#include "tracer/base/buffer.h"

#include <protobuf-c/protobuf-c.h>

/*
 * A message of protobuf at the end of a buffer. One with a single element of a list, after others, is one with all of them: so
 * long lists are written element by element.
 */
static inline void pack_message(struct buffer *to, const ProtobufCMessage *message)
{
	size_t size = protobuf_c_message_get_packed_size(message);

	protobuf_c_message_pack(message, (uint8_t *)buffer_reserve(to, size));
	to->size += size;
}

#endif
