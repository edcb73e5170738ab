#ifndef RBPROBE_SELECTION_LINES_H
#define RBPROBE_SELECTION_LINES_H

#include "tracee/select/selection_parts.h"

#include "tracee/vm/line_code.h"

/*
 * What selection_lines.c (looking for lines) and selection_lines_arm.c (arming, and what comes later) share. Context: job, and
 * whatever defines methods or compiles code; GVL held, under rb_protect.
 */

/* The elements of a hit. HIT_ONCE: see engine_line_arm(). */
enum { HIT_CODE, HIT_NAMES, HIT_OWNER, HIT_NAME, HIT_FILE, HIT_ONCE };

/* Lines that are looked for together. */
struct lines_wanted {
	const struct selector *selectors;
	struct selected_line *lines;
	uint32_t count;
};

struct lines_wanted lines_wanted_of(const struct selection *selection);
/* Looks for them in a method. argument: struct lines_wanted. */
void lines_consider_method(const struct match *match, void *argument);

/* The file that the code is from, if the selector may mean it; else nil. */
VALUE lines_file_of(const struct selector *selector, VALUE code);
/*
 * Adds it to those that the selector may mean, and returns it as it is called there. A path that is not absolute, as that of a
 * program or of what eval compiles, is one that ends in it.
 */
VALUE lines_note_file(struct selected_line *line, VALUE file);
bool lines_is_same_file(VALUE file, VALUE other);

/* Whether a path, or nil, ends in the name of a file that any selector names. */
bool lines_may_mean(const struct selection *selection, VALUE path);

/* What a look for one line needs. owner, name: of the method, or nil. */
struct lines_keeping {
	struct selected_line *line;
	VALUE owner, name, file;
	bool found; /* something was */
};

/* Makes a hit of what was found, unless there is one. look->argument: struct lines_keeping. */
void lines_keep(struct line_look *look, VALUE code, VALUE names);

/* Code that is no method's and no block: its label is `<main>`, `<top (required)>` or `<class:Order>`. */
bool lines_run_once(VALUE owner, VALUE name);

#endif
