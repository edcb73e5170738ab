#ifndef RBPROBE_SELECTION_PARTS_H
#define RBPROBE_SELECTION_PARTS_H

#include "tracee/select/selection.h"

#include "proto/command.h"
#include "tracee/base/slice_set.h"
#include "tracee/engine/arming.h"
#include "tracee/engine/engine.h"
#include "tracee/observe/probe.h"
#include "tracee/select/selector.h"

#include <ruby.h>

#include <stdbool.h>
#include <stdint.h>

/*
 * What the selection_*.c share, and nobody else sees: selection.c (the table of probes), selection_command.c (what a command asks
 * for), selection_matches.c (between looking and arming), selection_lines.c (selectors that are lines), selection_arm.c (arming),
 * selection_expressions.c (what is shown of calls),
 * selection_left_out.c (what is not armed), selection_tell.c (what the client reads), selection_overhead.c (what it takes); and
 * what comes later: selection_dynamic.c (methods), selection_modules.c (classes and modules), selection_look.c (what nobody told
 * of), selection_wait.c (what has no name yet). Job context, GVL held, except where said.
 */

struct gvl_slice;
struct line_look;

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
	uint32_t late_count; /* of those that were named when they were defined */
	size_t names_size;
	char names[160]; /* of the first */
};

/* Methods for which every call of a C method is slower meanwhile. */
struct hook_price {
	uint32_t count;
	bool others;     /* they are not all attributes */
	char first[256]; /* one of them */
};

/* What selectors match, in the order in which it was found. All zero at first. */
struct selector_match {
	struct match match;
	uint32_t selector;
	bool late; /* it was defined while the job looked */
};

struct matches {
	struct selector_match *list;
	size_t count, size;
	bool stale; /* some were defined meanwhile, perhaps anew */
};

struct selector_result {
	bool found;     /* it has matched a method */
	uint32_t armed; /* when the trace began */
	/* Where its own matches are, and some that were defined while the job looked. */
	size_t first_match, matches_end;
};

/* Code that has a line. */
struct line_hit {
	VALUE code, names; /* its InstructionSequence; Array of Symbols */
	VALUE owner, name; /* of the method that it is of or in; nil, and the code's label as a Symbol: of none */
	VALUE file;        /* String */
	uint32_t line;
	bool once; /* it is running, and does not run again */
};

#define LINE_FILES_MAX 5 /* that are named where it is not clear which is meant */

/* What is known of a selector that is a line. All zero: it is for methods. */
struct selected_line {
	uint32_t line;
	uint32_t before, after;  /* lines near it that have code; 0: none */
	char silent[256];        /* the method that is there, of which Ruby reports no lines; "": none was seen */
	VALUE files;             /* Array: of the files that the selector may mean, as far as they were seen */
	VALUE hits;              /* Array of Arrays: what was found before it may be armed */
	uint32_t compiled_count; /* what was armed as it was compiled */
	bool other_told;         /* the client knows of another file of that name, */
	bool no_code_told;       /* that the file was loaded and has no code there, */
	bool silent_told;        /* and of `silent` */
};

struct selection {
	struct session *session;
	uint64_t foreign_before;    /* calls in other Ractors that a forked child's parent has counted */
	struct selector *selectors; /* with all their text in one allocation */
	uint32_t selector_count;
	bool has_expressions; /* some of them */
	struct selector_result *results;
	/* Of exact selectors: the constants' names in their paths, and by selector the module that is there now, or Qnil. */
	struct slice_set constants;
	VALUE *modules;
	bool has_patterns;    /* there are others */
	uint32_t look_next;   /* selector that the next look goes on with */
	bool look_for_all;    /* also for those that have matched: something was overlooked */
	bool look_again;      /* and once more: something was overlooked meanwhile */
	bool overlooked_told; /* the client knows that this happens */
	/* Of the method names of selectors: those that are no patterns, and the selectors that have others. */
	struct slice_set methods;
	uint32_t *method_patterns; /* selectors whose method is one */
	uint32_t method_pattern_count;
	uint32_t waiting_count;  /* what probes wait for in silence */
	uint32_t nameless_count; /* methods that were defined later, of what has no name */
	bool nameless_told;      /* the client knows that there are more */
	/* What matches is kept in `matches`, and armed when the job knows that it may be. Disabled as well: it was refused. */
	bool looking;
	struct matches matches;
	struct selected_line *lines; /* by selector; NULL: none is a line */
	struct slice_set line_files; /* of those that are, the files' names without folders */
	bool lines_overlooked_told;
	bool unfinished; /* its command's work goes on in further jobs */
	bool disabled;
	bool disarmed;                     /* after that, all of it */
	struct probe *disarm_next;         /* before that, */
	bool left_to_interpreter;          /* and whether the compiler is to have its code again then */
	bool overhead_told;                /* the client knows what its trace takes */
	unsigned hook_announced;           /* 0 no, 1 the light one, 2 the whole one */
	bool oneshot_announced;            /* what Coverage makes engine target and lines miss */
	struct hook_price price;           /* what the light one is for */
	uint32_t armed_named;              /* methods whose arming was told one by one, */
	uint32_t armed_more[ENGINE_COUNT]; /* and those after them, by engine */
	bool has_locals;                   /* some method has such as are shown when its calls end */
	struct left_out left_out[LEFT_OUT_REASONS];
	struct st_table *left_out_known; /* hashes of those, which are found again by each look; NULL: none */
	struct engine_hook_state hook;

	struct probe_table probes;

	struct selection *next;
};

/* --- selection_dynamic.c */

/*
 * What engine hook asks: the probe for a method, or NULL. Under the firehose one is made at the first sight of a method: slow
 * path, allocates. Event context. *jump is set to a state as aside_protect() returns it, or stays.
 */
struct probe *selection_hook_probe(struct engine_hook_state *hook, VALUE owner, VALUE name, int *jump);

/* --- selection.c */

/* An empty one, among the others from then on; NULL without memory. */
struct selection *selection_new(struct session *session, const struct command *command);
/* The set of a selector of whose calls only the outermost are shown; 0: it is of none. */
bool selection_always(const struct selection *selection, uint32_t selector);
uint8_t selection_outermost_of(const struct selection *selection, uint32_t selector);
/* Puts a probe without engine into the table, where the GC finds it; raises without memory. */
struct probe *selection_add_probe(struct selection *selection, const struct match *match, uint32_t selector);
/* Stops all events, as far as a job may take; the rest is selection_go_on_disarming()'s. */
void selection_disable(struct selection *selection);
/*
 * Disarms all probes that there are; again where one was armed by somebody who did not know yet that the selection is over.
 * Raises nothing.
 */
void selection_disarm_all(struct selection *selection);

/* --- selection_left_out.c */

/* An attribute that nobody asked for: not by name, nor by --attributes. */
bool left_out_as_attribute(const struct selection *selection, uint32_t selector, const struct match *match);
/* Whether a selector's match may be observed by that engine, NULL where none can. Asks Ruby: may raise. */
enum left_out_reason left_out_reason(const struct selection *selection, uint32_t selector, const struct engine *engine,
                                     const struct match *match);
/* Counts a method; with -v the client reads of each. late: it was defined while we were attached. */
void left_out_add(struct selection *selection, enum left_out_reason why, const char *description, bool late,
                  const struct text *reason);
/* One line to the client for each reason. */
void left_out_report(const struct selection *selection);
/* A method that the light hook will observe; the client reads of them when all are known, or if one is defined later, at once. */
void hook_price_add(struct selection *selection, const char *description, bool attribute, bool late);
void hook_price_report(struct selection *selection);

/* --- selection_arm.c */

/* What was raised, as an error for people. Returns its code. */
int selection_error(struct error *err);
/* Warns the client once of what the whole hook costs. */
void selection_announce_whole_hook(struct selection *selection);
/* Of what a TracePoint on single methods or lines watches. */
void selection_announce_oneshot_lines(struct selection *selection);
/* A selector has matched: the client is told the first time. */
void selection_found(struct selection *selection, uint32_t selector);

/* Whether its calls keep a Binding for that, or for a condition: probe.h. */
bool selection_keeps_binding(const struct session *session, VALUE method);

/* What selector_each_match() and the watch hand to selection_arm_match(). */
struct arming {
	struct selection *selection;
	uint32_t selector;
	uint64_t armed;
	bool late;               /* the method was defined while we were attached */
	struct gvl_slice *slice; /* NULL: one method only */
};

/* Makes a probe mean what a match says, too. May raise. */
void selection_widen(struct probe *probe, const struct match *match);
/*
 * Arms a method without a word to the client, and so that no call is shown. NULL: it cannot be, or may not. Its probe, where it
 * is armed already. May raise.
 */
struct probe *selection_arm_silently(struct selection *selection, const struct match *match, uint32_t selector);

/*
 * Arms a method, unless the selection has it already or may not; while the job still looks, keeps it for later. argument: struct
 * arming. May raise.
 */
void selection_arm_match(const struct match *match, void *argument);
/* The same for a method that has a probe, and was defined anew. */
void selection_arm_again(struct probe *former, const struct match *match);

/* --- selection_expressions.c */

/*
 * What is shown of the calls of a method that this selector has found: its expressions, and those of others that mean the method.
 * The caller frees it; NULL: nothing. May raise.
 */
struct expression_list *selection_expressions(const struct probe *probe, uint32_t selector, VALUE method, bool in_hand);
/* The same when they end: the local variables among it. */
struct expression_list *selection_ends(const struct probe *probe, uint32_t selector, VALUE method, bool in_hand);
/* ... of a method that no selector names. */
struct expression_list *selection_ends_of_any(const struct session *session, VALUE method, VALUE owner);
/* Adds the expressions of one more to those that are shown together, in `all`. Raises where they are too many. */
void selection_join_expressions(struct selector *together, struct slice all[EXPRESSIONS_MAX], const struct selector *one);
/* Of the same tracer, for different versions of a library: only the first that is found is meant. */
bool selection_are_alternatives(const struct selector *one, const struct selector *other);

/* --- selection_matches.c */

/* May raise: no memory. */
void matches_add(struct selection *selection, const struct match *match, uint32_t selector, bool late);
/* In GC. */
void matches_mark(const struct matches *matches);
void matches_free(struct matches *matches);
/* Arms one of them, by its index, and returns how many that are shown: 0 or 1. May raise. */
uint64_t matches_arm(struct selection *selection, size_t i);

/* --- selection_lines.c and selection_lines_arm.c; see selection_lines.h */

/* Makes `lines`, where a selector is one; false without memory. */
bool lines_make(struct selection *selection);
void lines_free(struct selection *selection);
/* In GC. */
void lines_mark(const struct selection *selection);
/* Before the first look. May raise. */
void lines_begin(struct selection *selection);
/* Finds the code of all lines. 0, or -EINVAL and err where it cannot be told which file is meant. May raise. */
int lines_look(struct selection *selection, struct error *err);
/* Arms what was found, and says of the other lines why not; returns how many. May raise. */
uint64_t lines_arm(struct selection *selection);
/* A method was defined: arms the lines that it has. May raise. */
void lines_method_added(struct selection *selection, VALUE owner, VALUE name, VALUE method);
/* What METHODS answers of a selector that is a line; returns how many were listed. May raise. */
uint64_t lines_list(struct session *session, const struct selector *selector, uint32_t index);

/* --- selection_exceptions.c */

/* Says why a class of exceptions that the command names matches nothing, as far as that is known. May raise. */
void selection_check_exceptions(struct session *session, const struct trace_options *options);

/* --- selection_modules.c */

/* Fills in the sets of names, and whether there are patterns; false without memory. */
bool selection_note_names(struct selection *selection);
/* Fills in `modules`. May raise. */
void selection_resolve(struct selection *selection);
/* Those that are not over; NULL: the first, and behind the last. For a walk on which no Ruby code runs, and for jobs. */
struct selection *selection_next(const struct selection *before);
/* Searches for an exact selector's methods once more, and keeps in mind the module that it means now. May raise. */
void selection_search_again(struct selection *selection, uint32_t i);

/* --- selection_look.c */

/* Has a job look again soon, if a selector has matched nothing yet. */
void selection_look_later(const struct selection *selection);

/*
 * What happens to the application's code in between may take so much of its time, and no more: whether something is left, and
 * what was taken.
 */
bool selection_may_spend(uint64_t now_ns);
void selection_spend(uint64_t ns);

/* --- selection_wait.c */

/* Whether a module has a name that does not begin with that of a nameless one around it. */
bool selection_has_name(VALUE module);
/* Has a probe announced again when its class has a name, if it has none. May raise. */
void selection_await_name(struct probe *probe);

/* Arms a method that was just defined, if its class has no name; */
void selection_wait_for_method(struct selection *selection, const struct match *match);
/* the same with all that exact selectors might mean of a module without a name. May raise. */
void selection_wait_for_inherited(struct selection *selection, VALUE module);

/* Sees to what a probe waits for. Job context; may raise. */
void selection_settle_names(struct probe *probe);

/*
 * Sees to what a probe waits for, if a class has its name by now. Event context; raises nothing. Returns what aside_protect()
 * does.
 */
int selection_look_at_names(struct probe *probe);

/* --- selection_command.c */

/* In GC: of all works. */
void selection_works_mark(void);

/* --- selection_overhead.c */

/* A session has begun to trace: what observing takes is measured from now on. */
void selection_overhead_begin(void);

/* --- selection_tell.c */

/*
 * Tells the client what a probe's events will be of. Before probe->engine is set: with the hook on, events may come from then on.
 */
void selection_send_method(const struct probe *probe, const struct engine *engine, VALUE method);
/* The same for a probe of a line. */
void selection_send_line(const struct probe *probe, VALUE file);
/* Lists code that has a line. */
void selection_send_line_match(struct session *session, uint32_t selector, const struct line_hit *hit);
/* Whether it is clear which file a line's selector means. If not, err names them. */
bool selection_line_is_clear(const struct selector *selector, const struct selected_line *line, struct error *err);
/* Why there is no code for a line; later: what is added where no such file was seen. */
void selection_tell_of_no_line(struct session *session, const struct selector *selector, const struct selected_line *line,
                               const char *later);
/* A file was loaded that the selector may mean, and has no code there; look: what else it has. */
void selection_tell_of_loaded_file(struct session *session, const struct selector *selector, const struct line_look *look,
                                   VALUE file);
/* Whether a method that is armed is told by its name: those after the first ones are only counted, and told together. */
bool selection_names_armed(struct selection *selection, enum engine_id engine);
void selection_tell_more_armed(const struct selection *selection);
/* Lists a method that a selector, by its index, names. */
void selection_send_match(struct session *session, enum engine_id wanted, const struct match *match, uint32_t selector);

#endif
