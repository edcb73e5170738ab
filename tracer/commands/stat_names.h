#ifndef RBPROBE_STAT_NAMES_H
#define RBPROBE_STAT_NAMES_H

#include "proto/slice.h"
#include "tracer/base/buffer.h"

/* How the name of a row and its key (--by) share a line of the terminal. */

#define STAT_NAME_WIDTH 36 /* for longer names no column is left out */
#define STAT_KEY_WIDTH 28  /* the same for keys, beside which names are shorter */

/* What both want of a line. */
unsigned stat_names_width(struct slice name, struct slice key);

/*
 * Adds both in so many columns: the name without its first namespaces, and the key without its end, where they do not fit.
 * columns 0: whole.
 */
void stat_names_add(struct buffer *to, struct slice name, struct slice key, unsigned columns);

#endif
