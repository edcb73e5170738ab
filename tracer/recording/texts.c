/* Parts of events. See texts.h. */

#include "tracer/recording/texts.h"

#include <inttypes.h>

void texts_add_values(struct buffer *to, const struct values *values)
{
	char header[VALUES_HEADER_SIZE];

	if (!values->count)
		return;
	values_header(values, header);
	buffer_add(to, header, sizeof(header));
	buffer_add(to, (const char *)values->bytes, (size_t)(values->end - values->bytes));
}

void texts_add_thread(struct buffer *to, const struct fiber *fiber)
{
	buffer_add_format(to, "%" PRIu32, fiber->native_id);
	if (!fiber->thread_name.size)
		return;
	buffer_add_char(to, ' ');
	buffer_add_printable(to, fiber->thread_name.bytes, fiber->thread_name.size);
}
