#ifndef RBPROBE_TOP_SELECT_H
#define RBPROBE_TOP_SELECT_H

#include "proto/slice.h"

#include <stdbool.h>

/*
 * Whether that name, "Order#save" or "Order.load", is a selector of this one method: not where the class has no name, where
 * characters mean something else to a selector, or where it was not printable.
 */
bool top_select_one(struct slice name);

/*
 * The method in a frame's label: "Order#save" of "block (2 levels) in Order#save". {NULL, 0}: it is in none, or its class is
 * not known.
 */
struct slice top_select_in_label(struct slice label);

#endif
