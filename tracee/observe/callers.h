#ifndef RBPROBE_CALLERS_H
#define RBPROBE_CALLERS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Who called (--stack). The stacks of a session are a tree: a node is a frame at a line, below the node of its caller. The client
 * gets each node once, when it is new; after that a stack is the number of its innermost node.
 */

struct session;
struct session_part;

#define CALLERS_NONE UINT64_MAX /* the table is full, or there is no memory */

/*
 * The number of the running fiber's stack, without its `own` innermost frames; 0: nobody called. At most options.stack_frames of
 * methods and blocks written in Ruby. Event context, not in GC. Runs no Ruby code; allocates for a node that is new.
 */
uint64_t callers_take(struct session *session, unsigned own);

/*
 * The same where an object is made: Ruby allocates nothing, and the client is told of new nodes by callers_tell(), which a job
 * calls, or the next callers_take(). Until then it may not see the number.
 */
uint64_t callers_take_silently(struct session *session);
bool callers_are_told(const struct session *session);
void callers_tell(struct session *session);

/* In GC. */
void callers_mark(const struct session *session);

extern const struct session_part callers_part;

#endif
