#ifndef RBPROBE_COMPLETE_REQUEST_H
#define RBPROBE_COMPLETE_REQUEST_H

#include "tracer/base/buffer.h"
#include "tracer/base/number_index.h"
#include "tracer/cli/request.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * What is asked of a process to complete a selector, and what of its answers is offered. The answers are a hostile process's,
 * perhaps: only a name goes through that is plain text, and that selector_parse() reads as just this name.
 */
struct selector_search {
	struct slice typed;   /* the whole selector so far */
	struct slice outer;   /* what of it only stays: the :: in front */
	struct slice class;   /* the class, or the beginning of one */
	struct slice method;  /* the beginning of a method */
	char separator;       /* # or . between them; 0: a class is completed */
	struct buffer answer; /* a line for each that was found */
	struct number_index known;
	size_t size_each; /* what the caller adds to each line, in bytes */
	size_t size_left; /* bytes that may still be found */

	/* private */
	struct buffer pattern;
	struct selector selector;
};

/* False: no process is asked for that; a pattern, for example. The text stays. */
bool selector_search_begin(struct selector_search *search, const char *typed, size_t size_each, size_t size_max);
/* The request; what it points to is the search's. */
struct command selector_search_command(const struct selector_search *search);
/* False: there is no room for more. */
bool selector_search_take(struct selector_search *search, const struct record_match *match);
void selector_search_free(struct selector_search *search);

#endif
