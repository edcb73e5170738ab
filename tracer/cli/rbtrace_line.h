#ifndef RBPROBE_RBTRACE_LINE_H
#define RBPROBE_RBTRACE_LINE_H

#include "tracer/cli/rbtrace_options.h"

#include <stdbool.h>
#include <stddef.h>

/* The command line of the rbtrace gem, read by its own rules: `-p 1 2 -m sleep Dir.`, `--slow` alone, `--exec COMMAND...`. */

/* Options of rbprobe's own that rbtrace has not. */
enum rbtrace_own {
	RBTRACE_YES,
	RBTRACE_NO_HOOK,
	RBTRACE_NO_LOAD,
	RBTRACE_INTERRUPT,
	RBTRACE_INSPECT,
	RBTRACE_MAX_OVERHEAD,
	RBTRACE_VERBOSE,
	RBTRACE_OWN_COUNT,
};

struct word_list {
	const char **items;
	size_t count;
};

struct rbtrace_given {
	bool given;
	struct word_list values;
};

struct rbtrace_line {
	struct rbtrace_given options[RBTRACE_OPTION_COUNT];
	struct rbtrace_given own[RBTRACE_OWN_COUNT];
	char **command; /* after --exec; NULL: there was none */
};

/* 0, or a status after a line on stderr. Points into argv. */
int rbtrace_line_read(struct rbtrace_line *line, int argc, char **argv);
void rbtrace_line_free(struct rbtrace_line *line);

void word_list_add(struct word_list *list, const char *word);

/* The last value that was given, or that one. */
const char *rbtrace_line_value(const struct rbtrace_line *line, enum rbtrace_option_id id, const char *otherwise);

/* The options that rbtrace has not, for --help. */
extern const struct rbtrace_option rbtrace_own_options[RBTRACE_OWN_COUNT];

#endif
