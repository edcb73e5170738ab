#ifndef RBPROBE_SUGGESTIONS_H
#define RBPROBE_SUGGESTIONS_H

#include "proto/command.h"

#include <ruby.h>

#include <stdbool.h>
#include <stdint.h>

/*
 * What was probably meant by selectors that match nothing: "Order#save" where there is Billing::Order#save, or Order.save, or
 * where only a refinement of Order has it; "Order#svae", "Oder#save", "svae", "order#save" and "save#" likewise. Job context, GVL
 * held, under rb_protect (allocates, raises). Runs no application code.
 */

#define SUGGESTIONS_MAX 16u /* selectors that are looked at */

struct suggestion {
	uint32_t index;           /* of the selector */
	struct selector selector; /* as it was meant */
	struct slice last;        /* of its class's name: "Order"; empty: of any class */
	char capital[64];         /* that name, where it was written with a small letter */
	VALUE name;               /* of its method, a Symbol; nil: a pattern, or no method of any class has it */
	bool is_pattern;
	uint32_t same_count, other_count, refined_count, near_count;
	unsigned near_distance; /* of those; see name_near() */
	/* Candidates with the same separator, with the other one, of refinements, in quotes, and with other letters. */
	char same[256], other[256], refined[256], near[256];
};

/* All zero at first. Whoever keeps it marks it. */
struct suggestions {
	struct suggestion items[SUGGESTIONS_MAX];
	uint32_t count;
	bool looking;
	bool by_subclass; /* a class's are put at the end of the modules, when it is their turn */
	VALUE modules;    /* Array of those to look at */
	long next;
};

/* The selector, which stays where it is, has matched nothing. */
void suggestions_add(struct suggestions *suggestions, uint32_t index, const struct selector *selector);
/* Looks at the next module; false: there is none. */
bool suggestions_look(struct suggestions *suggestions);
/* ". Did you mean Billing::Order#save?", ". A refinement has it: write '#<refinement:Order@Audit>#save'", or "". */
void suggestions_write(const struct suggestions *suggestions, uint32_t index, char *text, size_t size);
/* In GC. */
void suggestions_mark(const struct suggestions *suggestions);

#endif
