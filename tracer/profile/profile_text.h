#ifndef RBPROBE_PROFILE_TEXT_H
#define RBPROBE_PROFILE_TEXT_H

#include "tracer/profile/profile_view.h"

#include "tracer/base/buffer.h"

#define PROFILE_TOP_DEFAULT 20

struct profile_style {
	enum profile_weight weight;
	bool threads; /* the tree begins with threads */
	bool no_tree;
	uint32_t top;   /* rows of the table */
	unsigned width; /* of lines; 0: 80 */
};

/* For people: what was sampled and how well, a table of functions, one of threads, and the tree. */
void profile_text(const struct profile *profile, const struct profile_style *style, struct buffer *to);
/* For programs: an object a line; "process", "thread", "method" and "stack" are their types. */
void profile_json(const struct profile *profile, const struct profile_style *style, struct buffer *to);

#endif
