/* How the console shows what comes back: results, exceptions, and long text through a pager. See console.h. */

#define _GNU_SOURCE
#include "tracer/console/console.h"

#include "tracer/base/value.h"
#include "tracer/cli/pager.h"
#include "tracer/console/console_color.h"
#include "tracer/console/eval_text.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const char red[] = "\033[31m", plain[] = "\033[0m";

void console_show(struct console *console, const struct buffer *text)
{
	if (console->interactive && pager_show(text->bytes, text->size))
		return;
	buffer_add(&console->invocation.output.buffer, text->bytes, text->size);
	output_flush(&console->invocation.output);
}

static void show_value(struct console *console, const msgpack_object *object)
{
	struct buffer value = {0}, text = {0};

	eval_text_result(&value, object);
	if (value.size) {
		buffer_add_text(&text, "=> ");
		if (console->colors)
			console_color(&text, value.bytes, value.size);
		else
			buffer_add(&text, value.bytes, value.size);
		console_show(console, &text);
	}
	buffer_free(&value);
	buffer_free(&text);
}

static void write_error(const struct buffer *text)
{
	for (size_t written = 0; written < text->size;) {
		ssize_t size = write(STDERR_FILENO, text->bytes + written, text->size - written);

		if (size < 0 && errno != EINTR)
			return;
		written += size > 0 ? (size_t)size : 0;
	}
}

/* How it failed goes to standard error, with its first line in red. */
static void show_failure(struct console *console, const struct buffer *failure)
{
	const char *end = failure->size ? memchr(failure->bytes, '\n', failure->size) : NULL;
	size_t first = end ? (size_t)(end - failure->bytes) : failure->size;
	struct buffer text = {0};

	if (console->colors)
		buffer_add_text(&text, red);
	buffer_add(&text, failure->bytes, first);
	if (console->colors)
		buffer_add_text(&text, plain);
	buffer_add(&text, failure->bytes + first, failure->size - first);
	write_error(&text);
	buffer_free(&text);
}

static void add_exception(struct buffer *text, const struct console *console, const msgpack_object *object)
{
	(void)console;
	eval_text_exception(text, object);
}

static void add_syntax_error(struct buffer *text, const struct console *console, const msgpack_object *object)
{
	eval_text_syntax_error(text, object, (struct slice){console->pending.bytes, console->pending.size});
}

static void add_cancelled(struct buffer *text, const struct console *console, const msgpack_object *object)
{
	(void)console;
	buffer_add_text(text, "cancelled\n");
	eval_text_frames(text, object);
}

static void add_killed(struct buffer *text, const struct console *console, const msgpack_object *object)
{
	(void)console;
	(void)object;
	buffer_add_text(text, "the thread that ran it was killed\n");
}

static const struct {
	const char *name;
	enum outcome outcome;
	void (*add)(struct buffer *text, const struct console *console, const msgpack_object *object);
} outcomes[] = {
	{"returned", OUTCOME_RETURNED, NULL},         {"incomplete", OUTCOME_INCOMPLETE, NULL},
	{"raised", OUTCOME_FAILED, add_exception},    {"syntax_error", OUTCOME_FAILED, add_syntax_error},
	{"cancelled", OUTCOME_FAILED, add_cancelled}, {"killed", OUTCOME_FAILED, add_killed},
};

void console_show_result(struct console *console, const msgpack_object *object)
{
	struct slice outcome = value_text(value_get(object, "outcome"));
	struct buffer text = {0};

	console->outcome = OUTCOME_FAILED;
	for (size_t i = 0; i < sizeof(outcomes) / sizeof(*outcomes); i++) {
		if (strlen(outcomes[i].name) != outcome.size || memcmp(outcomes[i].name, outcome.bytes, outcome.size) != 0)
			continue;
		console->outcome = outcomes[i].outcome;
		if (outcomes[i].add)
			outcomes[i].add(&text, console, object);
	}
	if (console->outcome == OUTCOME_RETURNED)
		show_value(console, object);
	if (text.size)
		show_failure(console, &text);
	buffer_free(&text);
}
