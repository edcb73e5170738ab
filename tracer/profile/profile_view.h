#ifndef RBPROBE_PROFILE_VIEW_H
#define RBPROBE_PROFILE_VIEW_H

#include "tracer/profile/profile.h"

/*
 * A profile as it is shown: frames of one function at different lines are one, and each node and function has what it has itself
 * and what it has with all that it called.
 */

/* What a weight is called, and in which unit it is. */
struct profile_unit {
	const char *name;   /* "wall time" */
	const char *none;   /* said where there is nothing of it */
	const char *event;  /* callgrind's word */
	const char *scope;  /* speedscope's unit */
	uint64_t divisor;   /* what is exported as a whole number is in ... of it: us of ns */
	double shown;       /* a figure for people is in ... of it */
	const char *suffix; /* " s" */
	enum profile_weight other;
};

const struct profile_unit *profile_unit(enum profile_weight weight);
/* By what a profile is looked at where nobody says. */
enum profile_weight profile_weight_usual(const struct profile *profile);

struct profile_view_node {
	uint32_t parent, function;  /* of node 0: none. With threads: of its children the thread */
	uint32_t first_child, next; /* 0: none; the heaviest first */
	uint32_t depth;
	uint64_t self, total;
	uint64_t ticks; /* of itself */
};

struct profile_view_function {
	uint64_t self, total; /* a recursive one counts once; objects are also those of who makes them */
	uint64_t self_other;  /* by the other weight */
};

struct profile_view {
	const struct profile *profile;
	enum profile_weight weight;
	bool threads; /* below node 0 there is a node for each thread */
	struct profile_view_node *nodes;
	uint32_t node_count, node_room;
	struct profile_view_function *functions; /* by their number in the profile */
	uint64_t total;
	uint32_t *slots, slot_count; /* private: nodes by parent and function, while it is made */
};

struct profile_view profile_view_make(const struct profile *profile, enum profile_weight weight, bool threads);
void profile_view_free(struct profile_view *view);

/* It is no method, but a class whose objects were made. */
bool profile_is_class(const struct profile *profile, uint32_t function);

/* It is no method, but what the VM did, as "(garbage collection)", or what is not known, as "(no frames)". */
bool profile_is_state(const struct profile *profile, uint32_t function);

/* It is no method, but a native function; its name ends in that of its library. */
bool profile_is_native(const struct profile *profile, uint32_t function);

/* What a node is called: into the buffer, as it is. */
struct buffer;
void profile_view_name(const struct profile_view *view, const struct profile_view_node *node, struct buffer *to);
/* "main", "worker-1", "thread 0x7f..."; of several processes with the PID. */
void profile_thread_name(const struct profile *profile, uint32_t thread, struct buffer *to);

#endif
