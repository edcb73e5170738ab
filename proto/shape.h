#ifndef RBPROBE_PROTO_SHAPE_H
#define RBPROBE_PROTO_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Whether bytes may be given to msgpack's unpacker. It allocates for an array or map what its header announces, 24 bytes for each
 * of up to 2^32 elements, before it has seen one. Here no header may announce more elements than there are bytes after
 * it. Anything else that is wrong with the bytes is left for the unpacker to say.
 */
bool shape_is_sound(const uint8_t *bytes, size_t size);

#endif
