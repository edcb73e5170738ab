/* Lines for people on standard error. See message.h. */

#include "tracer/base/message.h"

#include "proto/clock.h"
#include "tracer/base/buffer.h"
#include "tracer/base/flood.h"
#include "tracer/base/fold.h"
#include "tracer/base/term.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FOLD_INDENTATION 3

static uint64_t waited_ns;
static const char *line_clear;
static struct flood flood;
static bool show_all;
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
	size_t from;
	int size = vsnprintf(text, sizeof(text), format, args);

	if (size < 0)
		return;
	if (!diverted)
		buffer_add_text(&line, line_clear ? line_clear : "");
	from = line.size;
	buffer_add_text(&line, diverted ? "" : prefix);
	buffer_add_printable(&line, text, (size_t)size < sizeof(text) ? (size_t)size : sizeof(text) - 1);
	if (diverted) {
		diverted(line.bytes, line.size);
		buffer_free(&line);
		return;
	}
	buffer_add_char(&line, '\n');
	if (prefix[0])
		buffer_fold(&line, from, term_width(STDERR_FILENO), FOLD_INDENTATION);
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

void message_show_all(void)
{
	show_all = true;
}

void message_often(const char *format, ...)
{
	char text[9000];
	uint64_t count;
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	count = show_all ? 0 : flood_count(&flood, text);
	if (count <= FLOOD_MAX)
		message("%s", text);
	else if (count == FLOOD_MAX + 1)
		message("more lines like the last one are left out; -v shows them");
}

void message_often_end(void)
{
	for (size_t i = 0; i < flood.used; i++)
		if (flood.kinds[i].count > FLOOD_MAX)
			message("%llu line%s like \"%s%s\" %s left out; -v shows them",
			        (unsigned long long)flood.kinds[i].count - FLOOD_MAX,
			        flood.kinds[i].count == FLOOD_MAX + 1 ? "" : "s", flood.kinds[i].first,
			        strlen(flood.kinds[i].first) == FLOOD_TEXT - 1 ? "..." : "",
			        flood.kinds[i].count == FLOOD_MAX + 1 ? "was" : "were");
	flood.used = 0;
}
