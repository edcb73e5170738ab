#ifndef RBPROBE_WATCH_MODULES_H
#define RBPROBE_WATCH_MODULES_H

#include <stdbool.h>

/*
 * Learning of what happens to classes and modules while somebody is attached: they get a name, are made from others, include, extend and prepend. Job context,
 * GVL held; raises nothing.
 */

/* In Init. */
void watch_modules_init(void);

/* Begins, unless it has. What cannot be learnt in this process, or not yet, is tried again with the next call. */
void watch_modules_begin(void);
/* Ends: nothing of it stays. */
void watch_modules_end(void);

/* Whether it is learnt that a constant was assigned, which is how a module gets its name. */
bool watch_modules_sees_names(void);
/* Whether it is learnt, where that is not, that a class was made. */
bool watch_modules_sees_classes(void);

#endif
