#ifndef RBPROBE_RETRY_H
#define RBPROBE_RETRY_H

#include <ruby.h>

#include <stdbool.h>

struct probe;

/*
 * Whether one of the method's own rescue clauses has a `retry`. One that covers the whole method makes the VM begin it anew, in
 * the same frame: another CALL with no RETURN before it. The same is seen where a frame is gone without an event and another call
 * of the method has its place: after a SystemStackError, or as a tail call. Those are other calls.
 *
 * Event context, slow path: looks at the method's instructions the first time. Raises nothing, runs no code of the application.
 * *jump: as aside_protect() returns it, if that was needed; where it is set before, nothing is looked at.
 */
bool retry_is_possible(struct probe *probe, int *jump);

#endif
