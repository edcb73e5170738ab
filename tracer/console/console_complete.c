/*
 * TAB in the console. readline cuts the line into words by its own rules and wants the candidates at once: the process
 * is asked with the whole line, and says itself where the word begins; while it does not answer there are none.
 */

#ifdef HAVE_READLINE

#define _GNU_SOURCE
#include "tracer/console/console.h"

#include "tracer/base/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <readline/readline.h>

#define LIMIT_MS 1000     /* a person waits, and the terminal with them */
#define LINES_KEPT_FREE 3 /* of the screen, when candidates are listed */

/* Global because readline's callbacks have no argument for it. */
static struct {
	struct console *console;
	char **candidates; /* NULL after the last */
	size_t count;
	size_t start; /* of what they replace, in the line */
	const char *line;
	size_t word; /* where readline's word begins */
} complete;

static void forget(void)
{
	for (size_t i = 0; i < complete.count; i++)
		free(complete.candidates[i]);
	free(complete.candidates);
	complete.candidates = NULL;
	complete.count = 0;
}

/*
 * What stands for readline's word: it may begin before or after the one that the process means, as with `@total` or
 * `Foo::Bar`.
 */
static void add_candidate(const char *text, size_t size)
{
	struct buffer candidate = {0};

	if (complete.start > complete.word)
		buffer_add(&candidate, complete.line + complete.word, complete.start - complete.word);
	if (complete.start < complete.word) {
		size_t before = complete.word - complete.start;

		if (size < before || memcmp(text, complete.line + complete.start, before) != 0)
			return;
		text += before;
		size -= before;
	}
	buffer_add_printable(&candidate, text, size);
	buffer_add_char(&candidate, '\0');
	complete.candidates = memory_resize(complete.candidates, (complete.count + 1) * sizeof(*complete.candidates));
	complete.candidates[complete.count++] = candidate.bytes;
}

static void on_data(struct console *console, const msgpack_object *object)
{
	const msgpack_object *candidates = value_get(object, "candidates");

	(void)console;
	complete.start = value_uint(value_get(object, "start"));
	if (complete.start > strlen(complete.line))
		return;
	for (uint32_t i = 0; i < value_count(candidates); i++) {
		struct slice text = value_text(value_at(candidates, i));

		add_candidate(text.bytes, text.size);
	}
}

static void request_candidates(size_t cursor)
{
	struct command command = {.kind = COMMAND_COMPLETE,
	                          .arguments = {.cursor = cursor, .text = {complete.line, strlen(complete.line)}}};

	console_request(complete.console, &command, LIMIT_MS, on_data);
}

static void add_commands(const char *start, size_t size)
{
	const char *name;

	complete.start = complete.word;
	for (unsigned n = 0; (name = console_command_name(n)) != NULL; n++)
		if (strncmp(name, start, size) == 0)
			add_candidate(name, strlen(name));
}

static char *next_match(const char *text, int state)
{
	static size_t next;

	(void)text;
	if (state == 0)
		next = 0;
	return next < complete.count ? strdup(complete.candidates[next++]) : NULL;
}

static char **attempt(const char *text, int start, int end)
{
	char **matches;

	rl_attempted_completion_over = 1; /* no file names */
	complete.line = rl_line_buffer;
	complete.word = (size_t)start;
	if (complete.console->request.over)
		return NULL;
	request_candidates((size_t)end);
	/* The console's own commands stand at the beginning only. */
	if (strspn(rl_line_buffer, " ") == (size_t)start && complete.console->pending.size == 0)
		add_commands(text, strlen(text));
	matches = complete.count ? rl_completion_matches(text, next_match) : NULL;
	rl_completion_append_character = '\0';
	forget();
	return matches;
}

/* As readline does it, but never more than a screen. */
static void list(char **matches, int count, int longest)
{
	int rows, columns, fitting;

	rl_get_screen_size(&rows, &columns);
	fitting =
		(rows > LINES_KEPT_FREE + 1 ? rows - LINES_KEPT_FREE : 1) * (columns > longest + 2 ? columns / (longest + 2) : 1);
	if (count <= fitting) {
		rl_display_match_list(matches, count, longest);
	} else {
		char *cut = matches[fitting + 1];

		matches[fitting + 1] = NULL;
		rl_display_match_list(matches, fitting, longest);
		matches[fitting + 1] = cut;
		fprintf(rl_outstream, "... and %d more\n", count - fitting);
	}
	rl_forced_update_display();
}

void console_complete_install(struct console *console)
{
	complete.console = console;
	rl_attempted_completion_function = attempt;
	rl_completion_display_matches_hook = list;
	rl_completer_word_break_characters = " \t\n\"'`;|&{}()<>=[]+-*/%^~,.:#@$";
	rl_basic_word_break_characters = rl_completer_word_break_characters;
}

#endif
