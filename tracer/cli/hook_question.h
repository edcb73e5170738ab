#ifndef RBPROBE_HOOK_QUESTION_H
#define RBPROBE_HOOK_QUESTION_H

#include "tracer/cli/options.h"

#include <stdbool.h>

/* Engine hook leaves the traced process slower: whether the user wants it all the same. */

/* Whether there is somebody to ask: a terminal, for one process. */
bool hook_question_possible(const struct options *options);

/*
 * Asks on the terminal; text is what the target says about it. True: goes on, as the options say now. False also when a
 * signal came meanwhile.
 */
bool hook_question_ask(struct options *options, const char *text, int signals_descriptor);

/* What can be done, to be put after the target's words. */
const char *hook_remedy(const struct options *options);

#endif
