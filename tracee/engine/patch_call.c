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
	struct patch_watch watch;
	const struct patch_slot *slot;
	struct fiber_state *fiber;
	uintptr_t frame;
	uint32_t sessions;        /* bits, by slot: those that follow it */
	bool sampled;             /* its end */
	enum probe_way way;       /* of the one probe, where the call began in that way */
	struct probe *probe;      /* the one; it may be freed before the call ends */
	struct call_stack *stack; /* where that call is; NULL: there may be several, or it began slowly */
	VALUE receiver;
	int argc;
	const VALUE *argv;
	VALUE value;
};

/* More probes of one function than these are looked up. */
#define PROBES_LOOKED_THROUGH 8

_Static_assert(SESSIONS_MAX <= 32, "a bit for each session");

static inline VALUE call_original(const struct patch_slot *slot, VALUE receiver, int argc, const VALUE *argv)
{
	return slot->call(slot->function, receiver, argc, argv);
}

static struct seen_call seen_of(const struct followed *followed)
{
	return (struct seen_call){.frame = followed->frame,
	                          .receiver = followed->receiver,
	                          .arity = followed->slot->arity,
	                          .argc = followed->argc,
	                          .argv = followed->argv};
}

static inline bool is_meant(const struct probe *probe, ID name, VALUE owner)
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
			observe_abandoned(slot, followed->fiber, followed->frame);
}

static void begin(struct followed *followed, struct probe *probe)
{
	const struct leaving leaving = {abandon, followed};
	struct seen_call call = seen_of(followed);
	bool follows;

	if (observe_quick_call(probe, followed->fiber, followed->frame, false))
		follows = !probe->counts_only;
	else if (probe->expressions && observe_quick_call_with_values(probe, followed->fiber, &call, false))
		follows = true;
	else
		follows = observe_c_call(probe, followed->fiber, &call, &leaving);
	followed->sessions |= (uint32_t)follows << probe->session->slot;
}

/* Offers the call to all probes of the function that mean this method. */
static void begin_all(struct followed *followed)
{
	const struct probe_set *probes = &followed->slot->probes;
	VALUE owner;
	ID name;

	/* Methods of other classes and under other names may share the function. */
	if (!followed->frame || !patch_frame_method(followed->frame, &name, &owner))
		return;
	if (probes->count <= PROBES_LOOKED_THROUGH) {
		for (uint32_t i = 0; i < probes->count; i++)
			if (is_meant(probes->all[i], name, owner))
				begin(followed, probes->all[i]);
		return;
	}
	for (struct session *session = session_first(); session; session = session->next) {
		struct probe *probe = probe_table_find(session->probes, owner, ID2SYM(name));

		if (probe && probe->patches)
			begin(followed, probe);
	}
}

static __attribute__((noinline)) void begin_slowly(struct followed *followed, bool sampled)
{
	struct overhead_sample sample = overhead_sample_begin(sampled);

	if (!followed->fiber->frame_place)
		followed->fiber->frame_place = patch_frame_place(rb_fiber_current());
	followed->frame = followed->fiber->frame_place ? *followed->fiber->frame_place : 0;
	begin_all(followed);
	overhead_sample_end(sample);
}

/* The one probe that means this method; NULL: there is none. False: there are several, or too many to look at here. */
static inline bool find_probe(const struct probe_set *probes, ID name, VALUE owner, struct probe **found)
{
	*found = NULL;
	if (__builtin_expect(probes->count == 1, 1)) {
		*found = is_meant(probes->first, name, owner) ? probes->first : NULL;
		return true;
	}
	if (probes->count > PROBES_LOOKED_THROUGH)
		return false;
	for (uint32_t i = 0; i < probes->count; i++) {
		if (!is_meant(probes->all[i], name, owner))
			continue;
		if (*found)
			return false;
		*found = probes->all[i];
	}
	return true;
}

/* The ordinary case: one probe, and nothing that has to be found out. False: nothing has happened. */
static inline bool begin_quickly(struct followed *followed)
{
	struct fiber_state *fiber = followed->fiber;
	struct probe *probe;
	VALUE owner;
	ID name;

	if (__builtin_expect(!fiber->frame_place || !patch_names_known, 0))
		return false;
	followed->frame = *fiber->frame_place;
	if (!patch_frame_method(followed->frame, &name, &owner) || !find_probe(&followed->slot->probes, name, owner, &probe))
		return false;
	if (!probe)
		return true;
	if (observe_plain_call(probe, fiber, followed->frame, false))
		followed->way = probe->way;
	else if (!observe_quick_call(probe, fiber, followed->frame, false))
		return false;
	if (probe->counts_only || probe->only_counted)
		return true;
	followed->probe = probe;
	followed->stack = &fiber->stacks[probe->session->slot];
	followed->sessions = UINT32_C(1) << probe->session->slot;
	return true;
}

static inline bool is_over_quickly(struct fiber_state *fiber, const struct call_stack *stack, uintptr_t frame)
{
	/* Where the session has ended meanwhile, nothing is left of its calls. */
	return stack->depth == 0 || observe_quick_return(stack->calls[stack->depth - 1].probe, fiber, frame);
}

static void over(struct patch_watch *watch, VALUE unwinder)
{
	struct followed *followed = (struct followed *)watch;
	const struct leaving leaving = {abandon, followed};
	struct seen_call call = seen_of(followed);
	uint32_t sessions = followed->sessions;
	struct frame_end end = {
		.frame = followed->frame, .ending = FRAME_RETURNED, .exception = Qundef, .value = followed->value};
	struct overhead_sample sample = overhead_sample_begin(unwinder == Qundef ? followed->sampled : overhead_sampled());

	if (unwinder != Qundef)
		frame_of_unwinder(unwinder, &end);
	for (unsigned slot = 0; sessions; slot++, sessions >>= 1)
		if (sessions & 1 &&
		    (unwinder != Qundef || !is_over_quickly(followed->fiber, &followed->fiber->stacks[slot], end.frame)))
			observe_c_return(slot, followed->fiber, &end, &call, &leaving);
	overhead_sample_end(sample);
}

/* The end of what begin_quickly() began. False: nothing has happened. */
static inline bool is_over(const struct followed *followed)
{
	struct call_stack *stack = followed->stack;
	struct open_call *call;

	if (!stack)
		return false;
	if (followed->way == WAY_LONG)
		return is_over_quickly(followed->fiber, stack, followed->frame);
	if (stack->depth == 0)
		return true;
	call = &stack->calls[stack->depth - 1];
	/* If not, its session may have ended meanwhile, and its probe be freed. */
	if (call->frame != followed->frame || call->probe != followed->probe)
		return false;
	return !call->probe->session->detaching && !followed->fiber->suppress_depth &&
	       observe_plain_end(call->probe->session, followed->way, stack, call);
}

static VALUE body(VALUE argument)
{
	struct followed *followed = (struct followed *)argument;
	VALUE value;

	patch_watch_begin(&followed->watch);
	value = call_original(followed->slot, followed->receiver, followed->argc, followed->argv);
	followed->value = value;
	followed->watch.returned = true;
	followed->sampled = overhead_sampled();
	followed->watch.settled = !followed->sampled && is_over(followed);
	return value;
}

VALUE patch_enter(struct patch_slot *slot, VALUE receiver, int argc, const VALUE *argv)
{
	struct followed followed;
	bool sampled;

	if (slot->probes.count == 0)
		return call_original(slot, receiver, argc, argv);
	followed.fiber = fiber_current_state();
	if (__builtin_expect(!followed.fiber, 0)) {
		atomic_fetch_add_explicit(&slot->foreign_calls, 1, memory_order_relaxed);
		return call_original(slot, receiver, argc, argv);
	}
	if (__builtin_expect(followed.fiber->suppress_depth != 0, 0))
		return call_original(slot, receiver, argc, argv);
	followed.slot = slot;
	followed.sessions = 0;
	followed.way = WAY_LONG;
	followed.stack = NULL;
	followed.receiver = receiver;
	followed.argc = argc;
	followed.argv = argv;
	followed.value = Qundef;
	sampled = overhead_sampled();
	if (sampled || !begin_quickly(&followed))
		begin_slowly(&followed, sampled);
	if (!followed.sessions)
		return call_original(slot, receiver, argc, argv);
	followed.watch = (struct patch_watch){.over = over, .frame_place = followed.fiber->frame_place};
	return patch_watch(body, &followed.watch);
}
