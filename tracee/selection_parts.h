#ifndef RBPROBE_SELECTION_PARTS_H
#define RBPROBE_SELECTION_PARTS_H

#include "selection.h"

#include "engine.h"
#include "proto/command.h"
#include "selector.h"
#include "slice_set.h"

#include <ruby.h>

#include <stdbool.h>
#include <stdint.h>

/*
 * What selection.c (the table of probes), selection_arm.c (arming and listing), selection_tell.c (what the client is told) and selection_later.c (what comes after arming) share, and nobody
 * else sees. Job context, GVL held, except where said.
 */

struct turn;

/* Why a method is left out. */
enum left_out_reason {
	LEFT_OUT_WHOLE, /* the process would stay slower */
	LEFT_OUT_HOOK,  /* only engine hook can, and --no-hook forbids it */
	LEFT_OUT_ATTRIBUTE,
	LEFT_OUT_LIGHT_HOOK, /* as attributes: only engine hook can, and no selector names it */
	LEFT_OUT_IMPOSSIBLE, /* no engine can, and no selector names it */
	LEFT_OUT_REASONS,
	LEFT_OUT_NOT = LEFT_OUT_REASONS,
};

/* Those that were left out for one of these reasons. */
struct left_out {
	uint32_t count;
	size_t names_size;
	char names[160]; /* of the first */
};

struct selection {
	struct session *session;
	struct selector *selectors; /* with all their text in one allocation */
	uint32_t selector_count;
	bool *found; /* by selector: it has matched a method */
	/* Of exact selectors: the constants' names in their paths, and by selector the module that is there now, or Qnil. */
	struct slice_set constants;
	VALUE *modules;
	bool has_patterns;    /* there are others */
	uint32_t look_next;   /* selector that the next look goes on with */
	bool look_for_all;    /* also for those that have matched: something was overlooked */
	bool overlooked_told; /* the client knows that this happens */
	/* Of the method names of selectors: those that are no patterns, and the selectors that have others. */
	struct slice_set methods;
	uint32_t *method_patterns; /* selectors whose method is one */
	uint32_t method_pattern_count;
	uint32_t waiting_count; /* what probes wait for in silence */
	bool disabled;
	unsigned hook_announced; /* 0 no, 1 the light one, 2 the whole one */
	struct left_out left_out[LEFT_OUT_REASONS];
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

/* --- selection_left_out.c */

/* Whether a selector's match may be observed by that engine, NULL where none can. Asks Ruby: may raise. */
enum left_out_reason left_out_reason(const struct selection *selection, uint32_t selector, const struct engine *engine,
                                     const struct match *match);
/* Counts a method; with -v the client reads of each. late: it was defined while we were attached. */
void left_out_add(struct selection *selection, enum left_out_reason why, const char *description, bool late,
                  const struct text *reason);
/* One line to the client for each reason. */
void left_out_report(const struct selection *selection);

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

/* Makes a probe mean what a match says, too. May raise. */
void selection_widen(struct probe *probe, const struct match *match);
/* Arms a method without a word to the client, and so that no call is shown. NULL: it cannot be, or may not. Its probe, where it is armed already. May raise. */
struct probe *selection_arm_silently(struct selection *selection, const struct match *match, uint32_t selector);

/* Arms a method, unless the selection has it already or may not. argument: struct arming. May raise. */
void selection_arm_match(const struct match *match, void *argument);
/* The same for a method that has a probe, and was defined anew. */
void selection_arm_again(struct probe *former, const struct match *match);

/* --- selection_modules.c */

/* Fills in the sets of names, and whether there are patterns; false without memory. */
bool selection_note_names(struct selection *selection);
/* Fills in `modules`. May raise. */
void selection_resolve(struct selection *selection);
/* Has a job look again soon, if a selector has matched nothing yet. */
void selection_look_later(const struct selection *selection);

/* --- selection_wait.c */

/* Whether a module has a name that does not begin with that of a nameless one around it. */
bool selection_has_name(VALUE module);
/* The class or module without a name that a method's owner is or belongs to, or Qnil. */
VALUE selection_nameless(VALUE owner);
/* Has a probe announced again when its class has a name, if it has none. May raise. */
void selection_await_name(struct probe *probe);

/* A module without a name, and a selector that will mean it, if it gets the right one. */
struct nameless {
	struct selection *selection;
	uint32_t selector;
	VALUE module;
};

/* Arms a method for that case. argument: struct nameless. May raise. */
void selection_wait(const struct match *match, void *argument);
/* Arms a method that was just defined, if its class has no name; */
void selection_wait_for_method(struct selection *selection, const struct match *match);
/* the same with all that exact selectors might mean of a module without a name. May raise. */
void selection_wait_for_inherited(struct selection *selection, VALUE module);

/* Sees to what a probe waits for. Job context; may raise. */
void selection_settle_names(struct probe *probe);

/* --- selection_tell.c */

/* Tells the client what a probe's events will be of. Before probe->engine is set: with the hook on, events may come from then on. */
void selection_send_method(const struct probe *probe, const struct engine *engine, VALUE method);
/* Lists a method that a selector, by its index, names. */
void selection_send_match(struct session *session, enum engine_id wanted, const struct match *match, uint32_t selector);

#endif
