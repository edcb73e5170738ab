#ifndef RBPROBE_NAME_PATTERN_H
#define RBPROBE_NAME_PATTERN_H

#include "proto/slice.h"

#include <stdbool.h>
#include <stddef.h>

/* The patterns of selectors, as far as names tell what they mean. Any context. */

/* '*' stands for any bytes, also none. */
bool name_glob(struct slice pattern, const char *bytes, size_t size);

/* Of a method: whether it may mean several. `*` and `**` alone are operators, an empty one means all. */
bool name_pattern_is_glob(struct slice pattern);
/* Of a method: without the backslashes of `\*` and `\*\*`. */
struct slice name_pattern_plain(struct slice pattern);
/* Whether a method's name is meant. */
bool name_pattern_is_met(struct slice pattern, const char *bytes, size_t size);

#endif
