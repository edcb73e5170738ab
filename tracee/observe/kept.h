#ifndef RBPROBE_KEPT_H
#define RBPROBE_KEPT_H

#include "proto/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Calls that wait in memory until it is known whether they are shown (--tree): what happened inside a call can be shown only when
 * that has ended and meets the conditions. Their records lie in the fiber's stack, in the order in which they came. When no such
 * call is open any more, those that are shown go into the ring in one piece.
 *
 * A fiber keeps KEPT_SIZE_MAX bytes, a session KEPT_SESSION_MAX. Where that is not enough, calls that have ended are given up:
 * those that meet the conditions go into the ring as they are, the others count as left out. Should a call around these meet the
 * conditions after all, they are lost, since they belong into its tree. Marks among them go into the ring.
 *
 * Event context, GVL held; kept_end() and kept_settle() also in GC, and in jobs.
 */

struct call_stack;
struct fiber_state;
struct open_call;
struct session;

#define KEPT_SIZE_MAX (1u << 20)
#define KEPT_SESSION_MAX (64u << 20)

/* Of a call's roles: it is kept, at open_call.kept. */
#define CALL_KEPT (1u << 7)

/* Keeps the start of a call that is about to be pushed; false: there is no room, and it is counted as lost. */
bool kept_start(struct session *session, struct fiber_state *fiber, struct open_call *call, const void *payload,
                size_t payload_size);

/*
 * Keeps a mark in its place among the calls; false: no call is kept, or there is no room, and it may go into the ring at once. It
 * comes whether the calls around it are shown or not: when it is given to the ring, only its place depends on that.
 */
bool kept_mark(struct session *session, struct fiber_state *fiber, uint32_t method, uint64_t time, const void *payload,
               size_t payload_size);

/* Whether it is in the ring already. */
bool kept_is_told(const struct call_stack *stack, const struct open_call *call);

/* Keeps its end, when it was taken off the stack and it was decided whether it is met. Gives to the ring what is to be shown. */
void kept_end(struct session *session, struct fiber_state *fiber, const struct open_call *call, enum ending ending, uint64_t time,
              const void *payload, size_t payload_size);
/* The same of the one whose end was being made (kept_ending) when its fiber was dropped. In GC. */
void kept_end_unseen(struct session *session, struct fiber_state *fiber, uint64_t time);

/* The trace is over: what is still open does not meet the conditions. */
void kept_settle(struct session *session, struct fiber_state *fiber);

/* The fiber is over, and what it keeps will be freed. */
void kept_forget(struct session *session, struct fiber_state *fiber);

/* Puts the start of the outermost kept call into the ring: it is known already that it will meet the conditions. */
void kept_tell_outermost(struct session *session, struct fiber_state *fiber);

#endif
