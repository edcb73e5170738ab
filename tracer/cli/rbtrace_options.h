#ifndef RBPROBE_RBTRACE_OPTIONS_H
#define RBPROBE_RBTRACE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

/* The options of the rbtrace gem (0.4 and 0.5), whose users will try them, and how rbprobe spells each. */

#define RBTRACE_HINT_SIZE 128

/*
 * What to do instead, of the option with this name, or (name: NULL) with this letter. False: rbtrace has none, or rbprobe
 * trace has the same.
 */
bool rbtrace_hint(const char *name, size_t size, char letter, char hint[RBTRACE_HINT_SIZE]);

/* The command line that is meant by the words of rbtrace's: the first of them that stands for one. False: none does. */
bool rbtrace_command(const char *const *words, size_t count, char command[RBTRACE_HINT_SIZE]);

#endif
