#ifndef RBPROBE_TALLY_KEYS_H
#define RBPROBE_TALLY_KEYS_H

#include "tracee/observe/tally.h"

#include <ruby.h>

/*
 * Calls of a method, counted apart by what they have in common: their thread, their receiver's class, or their caller. There are
 * at most so many keys, and so many pairs of a method and a key; the rest is counted with the method itself. GVL held.
 */

struct call_stack;
struct probe;
struct seen_call;

#define TALLY_KEYS_MAX 200u
#define KEYED_TALLIES_MAX 4096u

/* One method's calls with one key. */
struct keyed_tally {
	const struct probe *probe;
	uint16_t key;
	uint16_t next; /* in its bucket; these are numbers + 1 */
	struct tally tally;
};

struct tally_keys;

/* For the flags of a trace command. Job context. */
struct tally_keys *tally_keys_new(uint32_t flags);
void tally_keys_free(struct tally_keys *keys);
void tally_keys_mark(const struct tally_keys *keys);

/*
 * Where a call that begins is counted. Event context, long way: makes the name of a key that is new. *jump is set to a state for
 * rb_jump_tag(), or stays.
 */
struct tally *tally_keys_choose(struct tally_keys *keys, struct probe *probe, struct call_stack *stack,
                                const struct seen_call *seen, int *jump);

/* The pairs, by number; NULL: no more. name: of the key. */
const struct keyed_tally *tally_keys_at(const struct tally_keys *keys, uint32_t number, const char **name);

#endif
