/* Lines for people on standard error. See message.h. */

#include "tracer/base/message.h"

#include "proto/clock.h"
#include "tracer/base/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static uint64_t waited_ns;
static const char *line_clear;
static void (*diverted)(const char *text, size_t size);

void message_divert(void (*to)(const char *text, size_t size))
{
	diverted = to;
}

void message_over_line(const char *clear)
{
	line_clear = clear;
}

uint64_t message_waited_ns(void)
{
	return waited_ns;
}

static void say(const char *prefix, const char *format, va_list args)
{
	struct buffer line = {0};
	char text[9000];
	uint64_t began_ns;
	int size = vsnprintf(text, sizeof(text), format, args);

	if (size < 0)
		return;
	if (!diverted)
		buffer_add_format(&line, "%s%s", line_clear ? line_clear : "", prefix);
	buffer_add_printable(&line, text, (size_t)size < sizeof(text) ? (size_t)size : sizeof(text) - 1);
	if (diverted) {
		diverted(line.bytes, line.size);
		buffer_free(&line);
		return;
	}
	buffer_add_char(&line, '\n');
	began_ns = clock_now_ns();
	if (write(STDERR_FILENO, line.bytes, line.size) < 0)
		line.size = 0; /* nowhere left to complain to */
	waited_ns += clock_now_ns() - began_ns;
	buffer_free(&line);
}

void message(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say("rbprobe: ", format, args);
	va_end(args);
}

void message_bare(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say("", format, args);
	va_end(args);
}
