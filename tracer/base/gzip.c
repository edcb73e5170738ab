/* Packing a buffer by gzip, with zlib. See gzip.h. */

#ifdef HAVE_ZLIB

#include "tracer/base/gzip.h"

#include <zlib.h>

#define GZIP_WINDOW (15 + 16)
#define GZIP_MEMORY 8

void gzip_add(struct buffer *to, const struct buffer *from)
{
	z_stream gzip = {0};

	if (deflateInit2(&gzip, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, GZIP_MEMORY, Z_DEFAULT_STRATEGY) != Z_OK)
		return;
	gzip.next_in = (Bytef *)from->bytes;
	gzip.avail_in = (uInt)from->size;
	gzip.avail_out = (uInt)deflateBound(&gzip, from->size);
	gzip.next_out = (Bytef *)buffer_reserve(to, gzip.avail_out);
	deflate(&gzip, Z_FINISH);
	to->size += gzip.total_out;
	deflateEnd(&gzip);
}

#endif
