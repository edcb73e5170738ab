#ifndef RBPROBE_RBTRACE_OPTIONS_H
#define RBPROBE_RBTRACE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

/* The options of the rbtrace gem (0.4 and 0.5), whose users will try them, and how rbprobe spells each. */

#define RBTRACE_HINT_SIZE 128

enum rbtrace_spelling {
	SPELT_THE_SAME,  /* an option of `rbprobe trace`, name and letter */
	SPELT_LIKE_THIS, /* one of another name */
	SPELT_AS_COMMAND,
	SPELT_NOT_AT_ALL, /* the text is a sentence */
};

enum rbtrace_values { TAKES_NOTHING, TAKES_ONE, MAY_TAKE_ONE, TAKES_MANY };

struct rbtrace_option {
	const char *name;
	char letter; /* 0: it has none */
	enum rbtrace_values values;
	const char *placeholder; /* for --help */
	enum rbtrace_spelling spelling;
	const char *text; /* ours, or the sentence */
	const char *help;
};

/* Their places in the table. */
enum rbtrace_option_id {
	RBTRACE_EXEC,
	RBTRACE_PID,
	RBTRACE_PS,
	RBTRACE_FIREHOSE,
	RBTRACE_SLOW,
	RBTRACE_SLOWCPU,
	RBTRACE_SLOW_METHODS,
	RBTRACE_METHODS,
	RBTRACE_GC,
	RBTRACE_START_TIME,
	RBTRACE_NO_DURATION,
	RBTRACE_OUTPUT,
	RBTRACE_APPEND,
	RBTRACE_PREFIX,
	RBTRACE_CONFIG,
	RBTRACE_DEVMODE,
	RBTRACE_FORK,
	RBTRACE_EVAL,
	RBTRACE_INTERACTIVE,
	RBTRACE_BACKTRACES,
	RBTRACE_BACKTRACE,
	RBTRACE_WAIT,
	RBTRACE_TIMEOUT,
	RBTRACE_MEMORY,
	RBTRACE_HEAPDUMP,
	RBTRACE_SHAPESDUMP,
	RBTRACE_VERSION,
	RBTRACE_HELP,
	RBTRACE_OPTION_COUNT,
};

extern const struct rbtrace_option rbtrace_options[RBTRACE_OPTION_COUNT];

/*
 * What to do instead, of the option with this name, or (name: NULL) with this letter. False: rbtrace has none, or rbprobe
 * trace has the same.
 */
bool rbtrace_hint(const char *name, size_t size, char letter, char hint[RBTRACE_HINT_SIZE]);

/* The command line that is meant by the words of rbtrace's: the first of them that stands for one. False: none does. */
bool rbtrace_command(const char *const *words, size_t count, char command[RBTRACE_HINT_SIZE]);

#endif
