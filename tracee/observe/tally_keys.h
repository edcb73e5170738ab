#ifndef RBPROBE_TALLY_KEYS_H
#define RBPROBE_TALLY_KEYS_H

#include "tracee/observe/tally.h"

#include <ruby.h>

/*
 * Calls of a method, counted apart by what they have in common: their thread, their receiver's class, their caller, or the value
 * of an expression. There are at most so many keys, and so many pairs of a method and a key; the rest is counted with the method
 * itself. GVL held.
 */

struct command;
struct expression_list;
struct fiber_state;
struct probe;
struct seen_call;
struct selector;
struct session;

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

/* For a trace command that wants keys. NULL without memory. Job context. */
struct tally_keys *tally_keys_new(const struct command *command);
/* Bytes of one. */
size_t tally_keys_size(void);
void tally_keys_free(struct tally_keys *keys);
/* Nothing is counted so far; the keys stay. NULL: nothing. Async-signal-safe. */
void tally_keys_begin_anew(struct tally_keys *keys);
/*
 * The expression whose value is the key, for a method that this selector has matched (NULL: none has); NULL: there is none. As
 * expression_list_new(). Raises SyntaxError.
 */
struct expression_list *tally_keys_expression(const struct session *session, const struct selector *matched, VALUE method,
                                              VALUE owner, bool in_hand);
void tally_keys_mark(const struct tally_keys *keys);

/*
 * Where a call that begins is counted. Event context, long way: makes the name of a key that is new; runs application code where
 * an expression does. *jump is set to a state for rb_jump_tag(), or stays.
 */
struct tally *tally_keys_choose(struct tally_keys *keys, struct probe *probe, struct fiber_state *fiber,
                                const struct seen_call *seen, int *jump);

/* The pairs, by number; NULL: no more. name: of the key. */
const struct keyed_tally *tally_keys_at(const struct tally_keys *keys, uint32_t number, const char **name);

#endif
