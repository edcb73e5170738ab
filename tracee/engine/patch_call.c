/*
 * A call of a patched method: what stands where the C function stood. See patch_enter() in patch_stubs.h. Event context: the GVL
 * is held in the main Ractor; another Ractor may look at nothing but what its slot was set up with.
 *
 * The VM has pushed the method's frame as for the function itself, so nothing the application can ask for shows the difference; a
 * function that is called by other C code, without a method, does not come here.
 */

#include "tracee/engine/patch.h"
#include "tracee/engine/patch_stubs.h"
#include "tracee/engine/patch_watch.h"
#include "tracee/frame/frame.h"
#include "tracee/observe/call.h"
#include "tracee/observe/observe.h"
#include "tracee/observe/observe_quick.h"
#include "tracee/observe/overhead.h"
#include "tracee/session/session.h"
#include "tracee/vm/fiber.h"

/* One call that is followed, on the machine stack of the stub. */
struct followed {
	struct patch_slot *slot;
	const struct seen_call *call;
	struct fiber_state *fiber;
	uint32_t sessions; /* bits, by slot: those that follow it */
	VALUE value;
};

/* More probes of one function than these are looked up. */
#define PROBES_LOOKED_THROUGH 8

_Static_assert(SESSIONS_MAX <= 32, "a bit for each session");

static uintptr_t innermost_frame(struct fiber_state *fiber)
{
	if (!fiber->frame_place)
		fiber->frame_place = patch_frame_place(rb_fiber_current());
	return fiber->frame_place ? *fiber->frame_place : 0;
}

static bool is_meant(const struct probe *probe, ID name, VALUE owner)
{
	return probe->callee_id == name && probe->owner == owner;
}

/*
 * Another thread has sent something to this one while a value was made, which it is about to raise: for the other sessions, too,
 * the call is over.
 */
static void abandon(void *data)
{
	const struct followed *followed = data;

	for (unsigned slot = 0; slot < SESSIONS_MAX; slot++)
		if (followed->sessions >> slot & 1)
			observe_abandoned(slot, followed->fiber, followed->call->frame);
}

static inline bool begin(struct probe *probe, const struct followed *followed, const struct leaving *leaving)
{
	if (observe_quick_call(probe, followed->fiber, followed->call->frame, false))
		return !probe->counts_only;
	return observe_c_call(probe, followed->fiber, followed->call, leaving);
}

/* Offers the call to all probes of the function that mean this method. */
static void patch_call_begin(struct followed *followed, struct seen_call *call)
{
	const struct leaving leaving = {abandon, followed};
	const struct patch_slot *slot = followed->slot;
	struct fiber_state *fiber = followed->fiber;
	VALUE owner;
	ID name;

	call->frame = innermost_frame(fiber);
	/* Methods of other classes and under other names may share the function. */
	if (!call->frame || !patch_frame_method(call->frame, &name, &owner))
		return;
	if (slot->probes.count <= PROBES_LOOKED_THROUGH) {
		for (uint32_t i = 0; i < slot->probes.count; i++) {
			struct probe *probe = i ? slot->probes.all[i] : slot->probes.first;

			if (is_meant(probe, name, owner) && begin(probe, followed, &leaving))
				followed->sessions |= UINT32_C(1) << probe->session->slot;
		}
		return;
	}
	for (struct session *session = session_first(); session; session = session->next) {
		struct probe *probe = probe_table_find(session->probes, owner, ID2SYM(name));

		if (probe && probe->patches && begin(probe, followed, &leaving))
			followed->sessions |= UINT32_C(1) << session->slot;
	}
}

static VALUE body(void *data)
{
	struct followed *followed = data;
	const struct seen_call *call = followed->call;

	followed->value = followed->slot->call(followed->slot->function, call->receiver, call->argc, call->argv);
	return followed->value;
}

static inline bool is_over_quickly(struct fiber_state *fiber, unsigned slot, uintptr_t frame)
{
	const struct call_stack *stack = &fiber->stacks[slot];

	/* Where the session has ended meanwhile, nothing is left of its calls. */
	return stack->depth == 0 || observe_quick_return(stack->calls[stack->depth - 1].probe, fiber, frame);
}

/* In all sessions from that slot on. */
static __attribute__((noinline)) void over_slowly(struct followed *followed, unsigned slot, VALUE unwinder, bool sampled)
{
	const struct leaving leaving = {abandon, followed};
	uint32_t sessions = followed->sessions >> slot;
	struct frame_end end = {
		.frame = followed->call->frame, .ending = FRAME_RETURNED, .exception = Qundef, .value = followed->value};
	struct overhead_sample sample = overhead_sample_begin(sampled);

	if (unwinder != Qundef)
		frame_of_unwinder(unwinder, &end);
	for (; sessions; slot++, sessions >>= 1)
		if (sessions & 1 && (unwinder != Qundef || !is_over_quickly(followed->fiber, slot, end.frame)))
			observe_c_return(slot, followed->fiber, &end, followed->call, &leaving);
	overhead_sample_end(sample);
}

static void over(void *data, VALUE unwinder)
{
	struct followed *followed = data;
	bool sampled = overhead_sampled();
	unsigned slot = 0;

	if (unwinder == Qundef && !sampled) {
		for (; followed->sessions >> slot; slot++)
			if (followed->sessions >> slot & 1 && !is_over_quickly(followed->fiber, slot, followed->call->frame))
				break;
	}
	if (followed->sessions >> slot)
		over_slowly(followed, slot, unwinder, sampled);
}

VALUE patch_enter(struct patch_slot *slot, VALUE receiver, int argc, const VALUE *argv)
{
	struct seen_call call = {.receiver = receiver, .arity = slot->arity, .argc = argc, .argv = argv};
	struct followed followed = {.slot = slot, .call = &call, .value = Qundef};

	if (slot->probes.count == 0)
		return slot->call(slot->function, receiver, argc, argv);
	followed.fiber = fiber_current_state();
	if (!followed.fiber) {
		atomic_fetch_add_explicit(&slot->foreign_calls, 1, memory_order_relaxed);
		return slot->call(slot->function, receiver, argc, argv);
	}
	if (followed.fiber->suppress_depth == 0) {
		struct overhead_sample sample = overhead_sample_begin(overhead_sampled());

		patch_call_begin(&followed, &call);
		overhead_sample_end(sample);
	}
	if (!followed.sessions)
		return slot->call(slot->function, receiver, argc, argv);
	return patch_watch(
		&(struct patch_watch){.body = body, .over = over, .data = &followed, .frame_place = followed.fiber->frame_place});
}
