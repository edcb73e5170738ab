/* Columns of numbers, packed into a page. See html_parts.h. */

#include "tracer/html/html_parts.h"

#include "tracer/base/json.h"

#include <stdlib.h>

#ifdef HAVE_ZLIB
#include <zlib.h>
#endif

struct column html_column(struct html_columns *columns, const char *name)
{
	return (struct column){columns, name, columns->bytes.size};
}

/* Seven bits a byte, the lowest first; the last byte is below 128. */
void html_column_add(const struct column *column, uint64_t number)
{
	struct buffer *to = &column->columns->bytes;
	char *at = buffer_reserve(to, 10);

	for (; number >= 0x80; number >>= 7)
		*at++ = (char)(number | 0x80);
	*at++ = (char)number;
	to->size = (size_t)(at - to->bytes);
}

void html_column_end(const struct column *column)
{
	struct buffer *to = &column->columns->names;

	json_open_array(to);
	json_add_string(to, column->name);
	json_add_uint(to, column->columns->bytes.size - column->from);
	json_close_array(to);
}

static void add_base64(struct buffer *to, const unsigned char *bytes, size_t size)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char *at = buffer_reserve(to, size / 3 * 4 + 4);

	for (size_t i = 0; i < size; i += 3) {
		uint32_t three = (uint32_t)bytes[i] << 16 | (i + 1 < size ? (uint32_t)bytes[i + 1] << 8 : 0) |
		                 (i + 2 < size ? bytes[i + 2] : 0);

		*at++ = digits[three >> 18];
		*at++ = digits[three >> 12 & 63];
		*at++ = i + 1 < size ? digits[three >> 6 & 63] : '=';
		*at++ = i + 2 < size ? digits[three & 63] : '=';
	}
	to->size = (size_t)(at - to->bytes);
}

/* Whether they were made smaller. */
static bool add_packed(struct buffer *to, const struct buffer *from)
{
#ifdef HAVE_ZLIB
	uLongf size = compressBound(from->size);
	unsigned char *packed = memory_resize(NULL, size);
	bool done = compress2(packed, &size, (const unsigned char *)from->bytes, from->size, 1) == Z_OK;

	if (done)
		add_base64(to, packed, size);
	free(packed);
	if (done)
		return true;
#endif
	add_base64(to, (const unsigned char *)from->bytes, from->size);
	return false;
}

static void add_parts(struct buffer *to, const char *const *parts)
{
	for (; *parts; parts++)
		buffer_add_text(to, *parts);
}

void html_page(struct html_columns *columns, struct buffer *about, struct buffer *to)
{
	struct buffer packed = {0};
	bool is_packed = add_packed(&packed, &columns->bytes);

	json_open_array(json_key(about, "columns"));
	json_add_members(about, &columns->names);
	json_close_array(about);
	json_member_bool(about, "packed", is_packed);
	json_close_object(about);

	add_parts(to, html_page_before);
	buffer_add_text(to, "<script type='application/json' id='about'>");
	json_add_within_script(to, about);
	buffer_add_text(to, "</script>\n<script type='text/plain' id='columns'>");
	buffer_add(to, packed.bytes, packed.size);
	buffer_add_text(to, "</script>\n");
	add_parts(to, html_page_after);
	buffer_free(&packed);
	buffer_free(&columns->bytes);
	buffer_free(&columns->names);
}

static void add_name(struct html_columns *columns, const char *prefix, const char *name, struct buffer *full,
                     struct column *column)
{
	full->size = 0;
	buffer_add_text(full, prefix);
	buffer_add_text(full, name);
	buffer_add_char(full, '\0');
	*column = html_column(columns, full->bytes);
}

void html_columns_tree(struct html_columns *columns, const char *prefix, const struct html_tree *tree)
{
	static const char *const names[] = {"parent", "name", "calls", "errors", "total", "self"};
	struct buffer full = {0};
	struct column column;

	for (size_t k = 0; k < sizeof(names) / sizeof(*names); k++) {
		add_name(columns, prefix, names[k], &full, &column);
		for (uint32_t i = 1; i < tree->count; i++) {
			const struct html_node *node = &tree->nodes[i];
			const uint64_t numbers[] = {node->parent, node->name,     node->calls,
			                            node->errors, node->total_ns, node->self_ns};

			html_column_add(&column, numbers[k]);
		}
		html_column_end(&column);
	}
	buffer_free(&full);
}
