/* What a dump has between quotes, as a member of a report's JSON. See heap_report.h. */

#include "tracer/heap/heap_report.h"

#include "tracer/base/json.h"

#ifdef HAVE_JANSSON
#include <jansson.h>

void heap_json_escaped(struct buffer *to, const char *key, struct slice escaped)
{
	struct buffer quoted = {0};
	json_t *text;

	buffer_add_char(&quoted, '"');
	buffer_add_slice(&quoted, escaped);
	buffer_add_char(&quoted, '"');
	text = json_loadb(quoted.bytes, quoted.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	buffer_free(&quoted);
	json_member_text(to, key, text ? (struct slice){json_string_value(text), json_string_length(text)} : escaped);
	json_decref(text);
}
#else

/* heap report and heap leak refuse before. */
void heap_json_escaped(struct buffer *to, const char *key, struct slice escaped)
{
	json_member_text(to, key, escaped);
}
#endif
