/* What --help prints. See help.h. argp folds the texts of options, but not an option's name and what it takes. */

#define _GNU_SOURCE
#include "tracer/cli/help.h"

#include "tracer/base/buffer.h"
#include "tracer/base/exit_status.h"
#include "tracer/cli/pager.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 79
#define WORD_INDENTATION 13 /* of what an option takes, */
#define TEXT_INDENTATION 29 /* and of argp's texts */

/* "--sort=calls|rate|...": its words, as many in a line as fit. */
static void add_words(struct buffer *to, const char *line, size_t size)
{
	size_t room = COLUMNS_MAX;

	while (size > room) {
		const char *cut = memrchr(line, '|', room);

		if (!cut)
			break;
		buffer_add(to, line, (size_t)(cut + 1 - line));
		buffer_add_char(to, '\n');
		buffer_add_spaces(to, WORD_INDENTATION);
		size -= (size_t)(cut + 1 - line);
		line = cut + 1;
		room = COLUMNS_MAX - WORD_INDENTATION;
	}
	buffer_add(to, line, size);
	buffer_add_char(to, '\n');
}

static void add_line(struct buffer *to, const char *line, size_t size)
{
	size_t words = size, indentation = strspn(line, " "), text;

	for (size_t i = indentation; i + 1 < size && words == size; i++)
		if (line[i] == ' ' && line[i + 1] == ' ')
			words = i;
	text = words + strspn(line + words, " ");
	if (size <= COLUMNS_MAX) {
		add_words(to, line, size);
		return;
	}
	add_words(to, line, words);
	if (words == size || text >= size)
		return;
	buffer_add_spaces(to, TEXT_INDENTATION);
	buffer_add(to, line + text, size - text);
	buffer_add_char(to, '\n');
}

static void fold(struct buffer *to, const char *text)
{
	for (const char *end; (end = strchr(text, '\n')); text = end + 1)
		add_line(to, text, (size_t)(end - text));
}

_Noreturn void help_show(const struct argp_state *state, bool brief)
{
	struct buffer folded = {0};
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);
	int status;

	if (!stream)
		exit(STATUS_FAILED);
	argp_state_help(state, stream, brief ? ARGP_HELP_USAGE : ARGP_HELP_STD_HELP & ~(ARGP_HELP_EXIT_OK | ARGP_HELP_EXIT_ERR));
	fclose(stream);
	fold(&folded, text);
	status = pager_print(folded.bytes, folded.size) ? STATUS_DONE : STATUS_FAILED;
	buffer_free(&folded);
	free(text);
	exit(status);
}
