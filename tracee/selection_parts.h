#ifndef RBPROBE_SELECTION_PARTS_H
#define RBPROBE_SELECTION_PARTS_H

#include "selection.h"

#include "engine.h"
#include "proto/command.h"
#include "selector.h"

#include <ruby.h>

#include <stdbool.h>
#include <stdint.h>

/*
 * What selection.c (the table of probes), selection_arm.c (arming and listing), selection_tell.c (what the client is told) and selection_later.c (what comes after arming) share, and nobody
 * else sees. Job context, GVL held, except where said.
 */

struct turn;

struct selection {
	struct session *session;
	struct selector *selectors; /* with all their text in one allocation */
	uint32_t selector_count;
	bool *found; /* by selector: it has matched a method */
	bool disabled;
	unsigned hook_announced; /* 0 no, 1 the light one, 2 the whole one */
	uint32_t left_out;       /* methods that engine hook could observe, and may not */
	struct engine_hook_state hook;

	struct probe **buckets; /* by owner and name */
	uint32_t bucket_count;  /* a power of two */
	uint32_t probe_count;
	/* All of them, in the order in which they were made: who runs Ruby code on the way walks this list, as the table may be replaced meanwhile. */
	struct probe *first_made, **last_made;

	struct selection *next;
};

/* --- selection.c */

/* An empty one, among the others from then on; NULL without memory. */
struct selection *selection_new(struct session *session, const struct command *command);
/* Puts a probe without engine into the table, where the GC finds it; raises without memory. */
struct probe *selection_add_probe(struct selection *selection, const struct match *match, uint32_t selector);
/* Disarms all probes that there are; again where one was armed by somebody who did not know yet that the selection is over. Raises nothing. */
void selection_disarm_all(struct selection *selection);

/* --- selection_arm.c */

/* A selector has matched: the client is told the first time. */
void selection_found(struct selection *selection, uint32_t selector);

/* What selector_each_match() and the watch hand to selection_arm_match(). */
struct arming {
	struct selection *selection;
	uint32_t selector;
	uint64_t armed;
	bool late;         /* the method was defined while we were attached */
	struct turn *turn; /* NULL: one method only */
};

/* Arms a method, unless the selection has it already or may not. argument: struct arming. May raise. */
void selection_arm_match(const struct match *match, void *argument);
/* The same for a method that has a probe, and was defined anew. */
void selection_arm_again(struct probe *former, const struct match *match);

/* --- selection_tell.c */

/* Tells the client what a probe's events will be of. Before probe->engine is set: with the hook on, events may come from then on. */
void selection_send_method(const struct probe *probe, const struct engine *engine, VALUE method);
/* Lists a method that a selector, by its index, names. */
void selection_send_match(struct session *session, enum engine_id wanted, const struct match *match, uint32_t selector);

#endif
