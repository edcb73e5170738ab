/*
 * A call of a patched method: what stands where the C function stood. See patch_enter() in patch_stubs.h. Event context: the GVL is held in the main
 * Ractor; another Ractor may look at nothing but what its slot was set up with.
 *
 * The VM has pushed the method's frame as for the function itself, so nothing the application can ask for shows the difference; a function that is called
 * by other C code, without a method, does not come here.
 */

#include "call.h"
#include "fiber.h"
#include "frame.h"
#include "observe.h"
#include "patch.h"
#include "patch_stubs.h"
#include "patch_watch.h"
#include "session.h"

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

/* Another thread has sent something to this one while a value was made, which it is about to raise: for the other sessions, too, the call is over. */
static void abandon(void *data)
{
	const struct followed *followed = data;

	for (unsigned slot = 0; slot < SESSIONS_MAX; slot++)
		if (followed->sessions >> slot & 1)
			observe_abandoned(slot, followed->fiber, followed->call->frame);
}

/* Offers the call to all probes of the function that mean this method. */
static void begin(struct followed *followed, struct seen_call *call)
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

			if (is_meant(probe, name, owner) && observe_begin(probe, fiber, call, &leaving))
				followed->sessions |= UINT32_C(1) << probe->session->slot;
		}
		return;
	}
	for (struct session *session = session_first(); session; session = session->next) {
		struct probe *probe = selection_probe(session->selection, owner, ID2SYM(name));

		if (probe && probe->patches && observe_begin(probe, fiber, call, &leaving))
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

static void over(void *data, VALUE unwinder)
{
	const struct leaving leaving = {abandon, data};
	const struct followed *followed = data;
	struct frame_end end = {
		.frame = followed->call->frame, .ending = FRAME_RETURNED, .exception = Qundef, .value = followed->value};
	uint32_t sessions = followed->sessions;

	if (unwinder != Qundef)
		frame_of_unwinder(unwinder, &end);
	for (unsigned slot = 0; sessions; slot++, sessions >>= 1)
		if (sessions & 1)
			observe_over(slot, followed->fiber, &end, &leaving);
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
	if (followed.fiber->own == 0)
		begin(&followed, &call);
	if (!followed.sessions)
		return slot->call(slot->function, receiver, argc, argv);
	return patch_watch(
		&(struct patch_watch){.body = body, .over = over, .data = &followed, .frame_place = followed.fiber->frame_place});
}
