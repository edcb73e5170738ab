#ifndef RBPROBE_PROFILE_VIEW_H
#define RBPROBE_PROFILE_VIEW_H

#include "tracer/profile/profile.h"

/*
 * A profile as it is shown: frames of one function at different lines are one, and each node and function has what it has itself
 * and what it has with all that it called.
 */

enum profile_weight { PROFILE_WALL, PROFILE_CPU };

struct profile_view_node {
	uint32_t parent, function;  /* of node 0: none. With threads: of its children the thread */
	uint32_t first_child, next; /* 0: none; the heaviest first */
	uint32_t depth;
	uint64_t self_ns, total_ns;
	uint64_t ticks; /* of itself */
};

struct profile_view_function {
	uint64_t self_ns, total_ns; /* a recursive one counts once */
	uint64_t self_other_ns;     /* by the other weight */
};

struct profile_view {
	const struct profile *profile;
	enum profile_weight weight;
	bool threads; /* below node 0 there is a node for each thread */
	struct profile_view_node *nodes;
	uint32_t node_count, node_room;
	struct profile_view_function *functions; /* by their number in the profile */
	uint64_t total_ns;
};

struct profile_view profile_view_make(const struct profile *profile, enum profile_weight weight, bool threads);
void profile_view_free(struct profile_view *view);

/* What a node is called: into the buffer, as it is. */
struct buffer;
void profile_view_name(const struct profile_view *view, const struct profile_view_node *node, struct buffer *to);
/* "main", "worker-1", "thread 0x7f..."; of several processes with the PID. */
void profile_thread_name(const struct profile *profile, uint32_t thread, struct buffer *to);

#endif
