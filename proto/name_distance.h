#ifndef RBPROBE_NAME_DISTANCE_H
#define RBPROBE_NAME_DISTANCE_H

#include "proto/slice.h"

#define NAME_DISTANCE_FAR 1000u

/*
 * How many letters are to be changed, added, left out or swapped with their neighbour to make one name of another; of names with
 * more than 40 letters NAME_DISTANCE_FAR. Any context.
 */
unsigned name_distance(struct slice one, struct slice other);

#endif
