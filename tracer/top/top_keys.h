#ifndef RBPROBE_TOP_KEYS_H
#define RBPROBE_TOP_KEYS_H

#include "tracer/top/top_model.h"
#include "tracer/top/top_pane.h"

/* What keys do. Knows ncurses' names of keys, and no terminal. */

/* What is left for the caller to do. */
enum top_action {
	TOP_ACTION_NONE,
	TOP_ACTION_QUIT,
	TOP_ACTION_FIGURES, /* other figures are wanted: since_start or apart has changed */
	TOP_ACTION_HELP,
	TOP_ACTION_CALLERS,
	TOP_ACTION_FOLLOW,
	TOP_ACTION_SOURCE,
	TOP_ACTION_BACK, /* from the pane to the table */
};

enum top_action top_keys_press(struct top_model *model, struct top_pane *pane, int key);

/* What they do, as text with line ends. */
const char *top_keys_help(void);

#endif
