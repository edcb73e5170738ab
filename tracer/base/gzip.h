#ifndef RBPROBE_GZIP_H
#define RBPROBE_GZIP_H

#include "tracer/base/buffer.h"

/* Appends what `from` has, packed by gzip, as one member. Any thread. Needs LIBRARY_ZLIB; without it nothing is added. */
void gzip_add(struct buffer *to, const struct buffer *from);

#endif
