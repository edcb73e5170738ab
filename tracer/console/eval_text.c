/* What an evaluation came to, in words. See eval_text.h. */

#define _GNU_SOURCE
#include "tracer/console/eval_text.h"

#include "tracer/base/value.h"

#include <string.h>

#define SOURCE_LINE_MAX 200u /* bytes of a line of code that are shown */

/* The text up to the next newline is cut off its front. */
static struct slice take_line(struct slice *rest)
{
	const char *end = memchr(rest->bytes, '\n', rest->size);
	struct slice line = {rest->bytes, end ? (size_t)(end - rest->bytes) : rest->size};
	size_t taken = line.size + (end ? 1 : 0);

	rest->bytes += taken;
	rest->size -= taken;
	return line;
}

static void add_line(struct buffer *buffer, struct slice line)
{
	const char *tab;

	while ((tab = memchr(line.bytes, '\t', line.size))) {
		size_t before = (size_t)(tab - line.bytes);

		buffer_add_printable(buffer, line.bytes, before);
		buffer_add_char(buffer, '\t');
		line.bytes += before + 1;
		line.size -= before + 1;
	}
	buffer_add_printable(buffer, line.bytes, line.size);
}

/* Text of the target's, of any number of lines: terminals show it, and do nothing else. Ends with a newline. */
static void add_lines(struct buffer *buffer, struct slice text)
{
	do {
		add_line(buffer, take_line(&text));
		buffer_add_char(buffer, '\n');
	} while (text.size > 0);
}

void eval_text_result(struct buffer *buffer, const msgpack_object *data)
{
	const msgpack_object *text = value_get(data, "text");

	if (!text)
		return;
	add_lines(buffer, value_text(text));
	if (value_bool(value_get(data, "cut"))) {
		buffer->size--;
		buffer_add_text(buffer, "...\n");
	}
}

static void add_frames(struct buffer *buffer, const msgpack_object *frames, uint32_t first)
{
	for (uint32_t i = first; i < value_count(frames); i++) {
		buffer_add_text(buffer, "\tfrom ");
		add_lines(buffer, value_text(value_at(frames, i)));
	}
}

/* "message (Class)", the class at the end of the first line, as in Exception#detailed_message. */
static void add_message(struct buffer *buffer, const msgpack_object *exception)
{
	const msgpack_object *detail = value_get(exception, "detail");
	struct slice class_name = value_text(value_get(exception, "class"));
	struct slice text = value_text(detail ? detail : value_get(exception, "message"));
	struct slice line = take_line(&text);

	add_line(buffer, line.size ? line : class_name);
	if (!detail && line.size) {
		buffer_add_text(buffer, " (");
		add_line(buffer, class_name);
		buffer_add_char(buffer, ')');
	}
	buffer_add_char(buffer, '\n');
	if (text.size)
		add_lines(buffer, text);
}

static void add_exception(struct buffer *buffer, const msgpack_object *exception)
{
	const msgpack_object *frames = value_get(exception, "backtrace");

	if (value_count(frames)) {
		add_line(buffer, value_text(value_at(frames, 0)));
		buffer_add_text(buffer, ": ");
	}
	add_message(buffer, exception);
	add_frames(buffer, frames, 1);
}

void eval_text_exception(struct buffer *buffer, const msgpack_object *data)
{
	const msgpack_object *causes = value_get(data, "causes");

	add_exception(buffer, data);
	for (uint32_t i = 0; i < value_count(causes); i++)
		add_exception(buffer, value_at(causes, i));
}

void eval_text_frames(struct buffer *buffer, const msgpack_object *data)
{
	add_frames(buffer, value_get(data, "backtrace"), 0);
}

/* The line of the code with that number, from 1; or its last. */
static struct slice line_of(struct slice code, uint64_t number)
{
	struct slice line = {"", 0};

	while (code.size > 0 && number-- > 0)
		line = take_line(&code);
	return line;
}

/* Under a line whose errors have no known place all of it is marked; what is missing is missing at its end. */
static void add_marks(struct buffer *buffer, struct slice line, bool at_end)
{
	size_t begin = 0;

	while (begin < line.size && (at_end || line.bytes[begin] == ' ' || line.bytes[begin] == '\t')) {
		if (((unsigned char)line.bytes[begin] & 0xc0) != 0x80)
			buffer_add_char(buffer, line.bytes[begin] == '\t' ? '\t' : ' ');
		begin++;
	}
	buffer_add_char(buffer, '^');
	for (size_t i = begin + 1; i < line.size; i++)
		if (((unsigned char)line.bytes[i] & 0xc0) != 0x80)
			buffer_add_char(buffer, '~');
	buffer_add_char(buffer, '\n');
}

void eval_text_syntax_error(struct buffer *buffer, const msgpack_object *data, struct slice code)
{
	struct slice message = value_text(value_get(data, "message"));
	uint64_t number = value_uint(value_get(data, "line"));
	struct slice line = line_of(code, number);
	bool at_end = memmem(message.bytes, message.size, "end-of-input", 12) != NULL ||
	              memmem(message.bytes, message.size, "end of file", 11) != NULL ||
	              memmem(message.bytes, message.size, "EOF", 3) != NULL;

	add_lines(buffer, message);
	/* Ruby shows no place where a line is fine as far as it goes, and for some errors. */
	if (number && !value_get(data, "column") && line.size <= SOURCE_LINE_MAX) {
		add_lines(buffer, line);
		add_marks(buffer, line, at_end);
	}
}
