#ifndef RBPROBE_TOP_HOT_H
#define RBPROBE_TOP_HOT_H

#include "proto/slice.h"

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Which methods are hot, from backtraces of many moments. A method counts for each stack that it is in, and the more the closer
 * to its inner end. Threads that are found where they were, and have not computed meanwhile, wait: they do not count.
 */

#define TOP_HOT_METHODS_MAX 4096u /* those that are seen after so many do not count */
#define TOP_HOT_SLOTS (2 * TOP_HOT_METHODS_MAX)

struct top_hot_method {
	char *name; /* as in labels */
	double weight;
	bool selectable;
	uint64_t stack; /* the number of the last stack that it was in */
};

struct top_hot_thread {
	pid_t pid;
	uint64_t id, hash, cpu_ns;
};

struct top_hot {
	struct top_hot_method *methods;
	size_t count;
	uint32_t *slots; /* by name: 1 + a number in methods */
	struct top_hot_thread *threads;
	size_t thread_count;
	uint64_t stacks;
};

/* A map of BACKTRACE; what is no thread does not matter. */
void top_hot_add(struct top_hot *hot, pid_t pid, const msgpack_object *map);
/*
 * The names of the hottest that can be selected, at most max, the hottest first: the caller's to free. *unnamed: how many that
 * are as hot cannot.
 */
size_t top_hot_take(struct top_hot *hot, char **names, size_t max, size_t *unnamed);
void top_hot_free(struct top_hot *hot);

#endif
