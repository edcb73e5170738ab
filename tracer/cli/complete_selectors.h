#ifndef RBPROBE_COMPLETE_SELECTORS_H
#define RBPROBE_COMPLETE_SELECTORS_H

#include "proto/slice.h"
#include "tracer/cli/subcommand.h"

#include <stddef.h>

#define SELECTORS_ANSWER_MAX (128u << 10) /* bytes of all lines that are made of an answer */

/* A command line that ends with a part of a selector. */
struct selector_question {
	const struct subcommand *subcommand;
	const char *const *words; /* those after its name; the last is the one that is completed */
	size_t count;
	size_t before; /* bytes of the last word in front of the selector: --within= */
};

/*
 * Asks the process that the words name for classes, modules and methods whose selectors begin so, and calls found() for each,
 * in alphabetical order. Takes 2.5 seconds at most, whatever the process does: what has come by then is all. A child asks; it
 * may outlive the call by a moment, holds none of the caller's descriptors, and leaves nothing behind. Nothing is said on
 * standard error.
 *
 * The process is attached to as the command would do it, and only where the command would: the words are those that it takes,
 * and name a process by its PID.
 */
void complete_selectors(const struct selector_question *question, void (*found)(void *owner, struct slice selector), void *owner);

#endif
