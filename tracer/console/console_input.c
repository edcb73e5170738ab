/* Where the console's lines come from: a person at a terminal (console_terminal.c), else standard input as it is. */

#include "tracer/console/console.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

/* Of standard input: read and not taken yet. */
static struct {
	struct buffer script;
	bool script_ended;
} input;

static bool take_script_line(char **line)
{
	struct buffer *script = &input.script;
	const char *end = script->size ? memchr(script->bytes, '\n', script->size) : NULL;
	size_t size = end ? (size_t)(end - script->bytes) : script->size;

	if (!end && !(input.script_ended && script->size))
		return false;
	*line = memory_resize(NULL, size + 1);
	memcpy(*line, script->bytes, size);
	(*line)[size] = '\0';
	script->size -= size + (end ? 1 : 0);
	memmove(script->bytes, script->bytes + size + (end ? 1 : 0), script->size);
	return true;
}

enum input input_read_plain(struct console *console, char **line)
{
	while (!take_script_line(line)) {
		struct pollfd polled = {.fd = STDIN_FILENO, .events = POLLIN};
		ssize_t size;

		if (input.script_ended)
			return INPUT_END;
		if (!console_wait(console, &polled, 1)) {
			if (console->interrupted || console->request.over || console->signal)
				return console->interrupted ? INPUT_INTERRUPTED : INPUT_OVER;
			continue;
		}
		size = read(STDIN_FILENO, buffer_reserve(&input.script, 65536), 65536);
		if (size > 0)
			input.script.size += (size_t)size;
		else if (size == 0 || (errno != EINTR && errno != EAGAIN))
			input.script_ended = true;
	}
	return INPUT_LINE;
}

enum input input_read(struct console *console, const char *prompt, char **line)
{
	return console->interactive ? terminal_read(console, prompt, line) : input_read_plain(console, line);
}

void input_remember(struct console *console, const char *entry)
{
	if (console->interactive)
		terminal_remember(console, entry);
}

void input_open(struct console *console)
{
	if (console->interactive)
		console->interactive = terminal_open(console);
}

void input_close(struct console *console)
{
	terminal_close(console);
	buffer_free(&input.script);
}
