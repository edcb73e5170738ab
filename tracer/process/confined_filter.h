#ifndef RBPROBE_CONFINED_FILTER_H
#define RBPROBE_CONFINED_FILTER_H

#include <stdbool.h>

/*
 * From now on the calling process may read, map and open files for reading, and end; everything else fails with EPERM.
 * has_root: its root directory is the one that it may look into; else openat2 is left to it, whose flags a filter cannot see.
 * False: the kernel refuses; a kernel that knows no filters is none.
 */
bool confined_filter_set(bool has_root);

#endif
