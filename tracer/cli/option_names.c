/* The options that there are, for those who name them. See options.h. */

#include "tracer/cli/options.h"

/* What argp adds to every parser. */
static const struct argp_option of_argp[] = {
	{"help", '?', NULL, 0, "Give this help list", -1},
	{"usage", 0, NULL, 0, "Give a short usage message", -1},
	{0},
};

static void visit_list(const struct argp_option *list, options_visit visit, void *owner)
{
	for (; list && (list->name || list->key || list->doc); list++)
		if (list->name && !(list->flags & (OPTION_HIDDEN | OPTION_DOC)))
			visit(owner, list);
}

static void visit_parser(const struct argp *argp, options_visit visit, void *owner)
{
	visit_list(argp->options, visit, owner);
	for (const struct argp_child *child = argp->children; child && child->argp; child++)
		visit_parser(child->argp, visit, owner);
}

void options_each(const struct argp *argp, options_visit visit, void *owner)
{
	visit_parser(argp, visit, owner);
	visit_list(of_argp, visit, owner);
}
