/* rbtrace's options. See rbtrace_options.h. */

#include "tracer/cli/rbtrace_options.h"

#include <stdio.h>
#include <string.h>

enum spelling {
	SPELT_LIKE_THIS, /* an option of `rbprobe trace` */
	SPELT_AS_COMMAND,
	SPELT_NOT_AT_ALL, /* the text is a sentence */
};

/* Without those that `rbprobe trace` has, letter and all. */
static const struct {
	const char *name;
	char letter; /* 0: it has none */
	enum spelling spelling;
	const char *text;
} options[] = {
	{"slow", 's', SPELT_LIKE_THIS, "--slow MS"},
	{"slowcpu", 'l', SPELT_LIKE_THIS, "--slow-cpu MS"},
	{"gc", 'g', SPELT_LIKE_THIS, "--gc"},
	{"timeout", 'u', SPELT_LIKE_THIS, "--timeout SEC"},
	{"exec", 'x', SPELT_AS_COMMAND, "rbprobe exec SELECTOR... -- COMMAND..."},
	{"eval", 'e', SPELT_AS_COMMAND, "rbprobe eval -p PID CODE"},
	{"interactive", 'i', SPELT_AS_COMMAND, "rbprobe console -p PID"},
	{"backtraces", 'b', SPELT_AS_COMMAND, "rbprobe backtrace -p PID"},
	{"backtrace", 0, SPELT_AS_COMMAND, "rbprobe backtrace -p PID"},
	{"memory", 'y', SPELT_AS_COMMAND, "rbprobe memory -p PID"},
	{"heapdump", 'h', SPELT_AS_COMMAND, "rbprobe heap dump -p PID"},
	{"shapesdump", 0, SPELT_AS_COMMAND, "rbprobe heap dump -p PID"},
	{"fork", 'k', SPELT_AS_COMMAND, "rbprobe fork -p PID"},
	{"version", 'v', SPELT_AS_COMMAND, "rbprobe --version"},
	{"slow-methods", 'w', SPELT_NOT_AT_ALL, "name the methods, and give --slow MS"},
	{"config", 'c', SPELT_NOT_AT_ALL, "name the methods, as in: -p PID $(grep -v '^#' FILE)"},
	{"devmode", 'd', SPELT_NOT_AT_ALL, "methods that are defined later are traced anyway"},
};

#define COUNT (sizeof(options) / sizeof(*options))

/* COUNT: none. */
static size_t find(const char *name, size_t size, char letter)
{
	size_t i = 0;

	while (i < COUNT && !(name ? strlen(options[i].name) == size && memcmp(options[i].name, name, size) == 0
	                           : letter && options[i].letter == letter))
		i++;
	return i;
}

bool rbtrace_hint(const char *name, size_t size, char letter, char hint[RBTRACE_HINT_SIZE])
{
	size_t i = find(name, size, letter);
	const char *quote = i < COUNT && options[i].spelling == SPELT_AS_COMMAND ? "`" : "";

	if (i == COUNT)
		return false;
	snprintf(hint, RBTRACE_HINT_SIZE, "%s%s%s%s", options[i].spelling == SPELT_NOT_AT_ALL ? "" : "use ", quote,
	         options[i].text, quote);
	return true;
}

bool rbtrace_command(const char *const *words, size_t count, char command[RBTRACE_HINT_SIZE])
{
	size_t option = COUNT;

	for (size_t i = 0; i < count && option == COUNT && strcmp(words[i], "--") != 0; i++) {
		if (words[i][0] != '-')
			continue;
		option = words[i][1] == '-' ? find(words[i] + 2, strcspn(words[i] + 2, "="), 0) : find(NULL, 0, words[i][1]);
		if (option < COUNT && options[option].spelling == SPELT_NOT_AT_ALL)
			option = COUNT;
	}
	if (option == COUNT)
		return false;
	snprintf(command, RBTRACE_HINT_SIZE, "%s%s",
	         options[option].spelling == SPELT_LIKE_THIS ? "rbprobe trace -p PID SELECTOR... " : "", options[option].text);
	return true;
}
