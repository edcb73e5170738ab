#ifndef RBPROBE_SELECTOR_QUOTES_H
#define RBPROBE_SELECTOR_QUOTES_H

#include "proto/slice.h"
#include "tracer/base/buffer.h"

#include <stdbool.h>
#include <stddef.h>

/* Names in quotes: "two words", "ARGF.class". Inside stand \" and \\, and \x0a for a byte that no terminal should get. */

/* How long such a name is at the text's beginning, with both quotes; 0: none begins there, or it never ends. */
size_t quoted_size(const char *text, size_t size);
/* What it means. Where it has a backslash, *copy is of malloc() and the caller's; else it is NULL, and the text's own bytes. */
struct slice quoted_name(const char *text, size_t size, char **copy);

/* Whether other bytes would be seen than those of the name. */
bool name_is_escaped(struct slice name);
void quoted_add(struct buffer *to, struct slice name);

#endif
