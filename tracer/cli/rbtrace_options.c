/* rbtrace's options. See rbtrace_options.h. */

#include "tracer/cli/rbtrace_options.h"

#include <stdio.h>
#include <string.h>

const struct rbtrace_option rbtrace_options[RBTRACE_OPTION_COUNT] = {
	[RBTRACE_EXEC] = {"exec", 'x', TAKES_MANY, "COMMAND...", SPELT_AS_COMMAND, "rbprobe exec SELECTOR... -- COMMAND...",
                          "start a Ruby process and trace it; all that follows is the command"},
	[RBTRACE_PID] = {"pid", 'p', TAKES_MANY, "PID...", SPELT_THE_SAME, "-p PID", "the processes to trace"},
	[RBTRACE_PS] = {"ps", 0, TAKES_ONE, "PATTERN", SPELT_THE_SAME, "--ps PATTERN",
                        "the processes whose command line meets this; of several it asks which"},
	[RBTRACE_FIREHOSE] = {"firehose", 'f', TAKES_NOTHING, "", SPELT_THE_SAME, "-f", "show all method calls"},
	[RBTRACE_SLOW] = {"slow", 's', MAY_TAKE_ONE, "MS", SPELT_LIKE_THIS, "--slow MS", "show calls that take so long (250)"},
	[RBTRACE_SLOWCPU] = {"slowcpu", 'l', MAY_TAKE_ONE, "MS", SPELT_LIKE_THIS, "--slow-cpu MS",
                             "show calls that compute so long (250)"},
	[RBTRACE_SLOW_METHODS] = {"slow-methods", 'w', TAKES_MANY, "SELECTOR...", SPELT_LIKE_THIS, "--slow-methods SELECTOR",
                                  "the methods that --slow is about"},
	[RBTRACE_METHODS] = {"methods", 'm', TAKES_MANY, "SELECTOR...", SPELT_THE_SAME, "SELECTOR...",
                             "show calls of these methods"},
	[RBTRACE_GC] = {"gc", 'g', TAKES_NOTHING, "", SPELT_LIKE_THIS, "--gc", "show garbage collections"},
	[RBTRACE_START_TIME] = {"start-time", 't', TAKES_NOTHING, "", SPELT_THE_SAME, "-t", "show when each call began"},
	[RBTRACE_NO_DURATION] = {"no-duration", 'n', TAKES_NOTHING, "", SPELT_THE_SAME, "-n", "do not show how long calls took"},
	[RBTRACE_OUTPUT] = {"output", 'o', TAKES_ONE, "FILE", SPELT_THE_SAME, "-o FILE",
                            "write to this file; with several processes, FILE.PID"},
	[RBTRACE_APPEND] = {"append", 'a', TAKES_NOTHING, "", SPELT_THE_SAME, "-a", "append to it"},
	[RBTRACE_PREFIX] = {"prefix", 'r', TAKES_ONE, "N", SPELT_THE_SAME, "-r N", "spaces per level (2)"},
	[RBTRACE_CONFIG] = {"config", 'c', TAKES_MANY, "FILE...", SPELT_LIKE_THIS, "-c FILE",
                            "show calls of the methods that are listed there, one a line"},
	[RBTRACE_DEVMODE] = {"devmode", 'd', TAKES_NOTHING, "", SPELT_NOT_AT_ALL,
                             "methods that are defined later are traced anyway",
                             "nothing: methods that come later are traced anyway"},
	[RBTRACE_FORK] = {"fork", 'k', TAKES_NOTHING, "", SPELT_AS_COMMAND, "rbprobe fork -p PID", "make a copy for a debugger"},
	[RBTRACE_EVAL] = {"eval", 'e', TAKES_ONE, "CODE", SPELT_AS_COMMAND, "rbprobe eval -p PID CODE", "evaluate Ruby code"},
	[RBTRACE_INTERACTIVE] = {"interactive", 'i', MAY_TAKE_ONE, "irb", SPELT_AS_COMMAND, "rbprobe console -p PID",
                                 "a console, rbprobe's own"},
	[RBTRACE_BACKTRACES] = {"backtraces", 'b', MAY_TAKE_ONE, "N", SPELT_AS_COMMAND, "rbprobe backtrace -p PID",
                                "N frames of all threads (-1: all)"},
	[RBTRACE_BACKTRACE] = {"backtrace", 0, TAKES_ONE, "N", SPELT_AS_COMMAND, "rbprobe backtrace -p PID",
                               "N frames of the main thread"},
	[RBTRACE_WAIT] = {"wait", 0, TAKES_ONE, "SEC", SPELT_THE_SAME, "",
                          "nothing: the trace begins when the process can answer"},
	[RBTRACE_TIMEOUT] = {"timeout", 'u', TAKES_ONE, "SEC", SPELT_LIKE_THIS, "--timeout SEC",
                             "how long attaching may take (5)"},
	[RBTRACE_MEMORY] = {"memory", 'y', TAKES_NOTHING, "", SPELT_AS_COMMAND, "rbprobe memory -p PID",
                            "what memory the process uses"},
	[RBTRACE_HEAPDUMP] = {"heapdump", 'h', MAY_TAKE_ONE, "FILE", SPELT_AS_COMMAND, "rbprobe heap dump -p PID",
                              "write all objects to a file"},
	[RBTRACE_SHAPESDUMP] = {"shapesdump", 0, MAY_TAKE_ONE, "FILE", SPELT_AS_COMMAND, "rbprobe heap dump -p PID",
                                "the same: shapes are in it where Ruby has them"},
	[RBTRACE_VERSION] = {"version", 'v', TAKES_NOTHING, "", SPELT_AS_COMMAND, "rbprobe --version", "print the version"},
	[RBTRACE_HELP] = {"help", 0, TAKES_NOTHING, "", SPELT_THE_SAME, "", "show this"},
};

#define COUNT ((size_t)RBTRACE_OPTION_COUNT)

/* COUNT: none, or `rbprobe trace` has the same. */
static size_t find(const char *name, size_t size, char letter)
{
	size_t i = 0;

	while (i < COUNT && !(name ? strlen(rbtrace_options[i].name) == size && memcmp(rbtrace_options[i].name, name, size) == 0
	                           : letter && rbtrace_options[i].letter == letter))
		i++;
	return i < COUNT && rbtrace_options[i].spelling == SPELT_THE_SAME ? COUNT : i;
}

bool rbtrace_hint(const char *name, size_t size, char letter, char hint[RBTRACE_HINT_SIZE])
{
	size_t i = find(name, size, letter);
	const char *quote = i < COUNT && rbtrace_options[i].spelling == SPELT_AS_COMMAND ? "`" : "";

	if (i == COUNT)
		return false;
	snprintf(hint, RBTRACE_HINT_SIZE, "%s%s%s%s", rbtrace_options[i].spelling == SPELT_NOT_AT_ALL ? "" : "use ", quote,
	         rbtrace_options[i].text, quote);
	return true;
}

bool rbtrace_command(const char *const *words, size_t count, char command[RBTRACE_HINT_SIZE])
{
	size_t option = COUNT;

	for (size_t i = 0; i < count && option == COUNT && strcmp(words[i], "--") != 0; i++) {
		if (words[i][0] != '-')
			continue;
		option = words[i][1] == '-' ? find(words[i] + 2, strcspn(words[i] + 2, "="), 0) : find(NULL, 0, words[i][1]);
		if (option < COUNT && rbtrace_options[option].spelling == SPELT_NOT_AT_ALL)
			option = COUNT;
	}
	if (option == COUNT)
		return false;
	snprintf(command, RBTRACE_HINT_SIZE, "%s%s",
	         rbtrace_options[option].spelling == SPELT_LIKE_THIS ? "rbprobe trace -p PID SELECTOR... " : "",
	         rbtrace_options[option].text);
	return true;
}
