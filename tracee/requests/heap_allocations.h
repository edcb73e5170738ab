#ifndef RBPROBE_HEAP_ALLOCATIONS_H
#define RBPROBE_HEAP_ALLOCATIONS_H

#include "proto/error.h"

struct request;

/*
 * Recording where objects are allocated, for as long as the request is under way. Job context. What stays afterwards is objspace,
 * loaded, and what the process's memory has grown by.
 */

/* Its client is told by one DATA that recording has begun. library: objspace's. 0, or negative and err. */
int allocations_begin(struct request *request, const char *library, struct error *err);

/* Finishes the request. */
void allocations_end(struct request *request);

#endif
