#ifndef RBPROBE_TOP_H
#define RBPROBE_TOP_H

#include "tracer/cli/options.h"
#include "tracer/top/top_model.h"

#include <stdbool.h>

/* What `rbprobe top` does, from the first look to the last. */

struct top_wish {
	const struct options *options; /* its trace options and selectors are those of the counting sessions */
	struct pid_list parents;       /* --children: whose children that start later join */
	enum top_column sort;
	bool chooses; /* no selectors: the hottest methods are looked for */
	bool apart, since_start;
};

/* signals: what signals_install() returned. Returns an enum exit_status, after what there is to say on standard error. */
int top_run(const struct top_wish *wish, int signals);

#endif
