#ifndef RBPROBE_MODULE_CHANGES_H
#define RBPROBE_MODULE_CHANGES_H

#include <stdbool.h>

/*
 * Learning of what happens to classes and modules while somebody is attached: they get a name, are made from others, include,
 * extend and prepend. Job context, GVL held; raises nothing.
 */

/* In Init. */
void module_changes_init(void);

/* Begins, unless it has. What cannot be learnt in this process, or not yet, is tried again with the next call. */
void module_changes_begin(void);
/* Ends: nothing of it stays. */
void module_changes_end(void);

/* Whether it is learnt that a constant was assigned, which is how a module gets its name. */
bool module_changes_sees_names(void);
/* Whether it is learnt, where that is not, that a class was made. */
bool module_changes_sees_classes(void);

#endif
