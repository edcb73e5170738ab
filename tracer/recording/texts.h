#ifndef RBPROBE_TEXTS_H
#define RBPROBE_TEXTS_H

#include "tracer/stream/stream.h"

/* Parts of events, as they are kept or shown. */

/* As one msgpack array, which is how they are written again; nothing where there are none. */
void texts_add_values(struct buffer *to, const struct values *values);

/* The native id, and the name if it has one: "4711 puma 1". */
void texts_add_thread(struct buffer *to, const struct fiber *fiber);

#endif
