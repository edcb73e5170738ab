/*
 * Which stacks make objects. See profile_allocations.h.
 *
 * NEWOBJ is one of the VM's internal events, for which it rewrites no code. The event counts. About every N'th object, at
 * intervals that vary so that they do not fall in step with a loop, it reads the thread's frames into room that a job has made,
 * and notes the object. Nothing is allocated there, and nothing raised; where there is no room, that is counted. A job that comes
 * a moment later, when the object has its content, adds up its bytes. Until then the note keeps the object alive.
 *
 * The cost is bounded in two ways. Where reading stacks takes more than READING_MOST of the time, N grows, unless the user has
 * said N. What the event itself costs each allocation (the VM's slower way included) is measured when the profile begins; where
 * that becomes more than WATCHING_MOST, the hook is off for a part of the time. Both are told.
 *
 * Context: on_newobj() in the allocation, on the thread that makes the object; all else in jobs.
 */

#include "tracee/requests/profile_allocations.h"

#include "proto/clock.h"
#include "tracee/base/random.h"
#include "tracee/requests/profile_retained.h"
#include "tracee/session/gc_hook.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/constant.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/fiber.h"
#include "tracee/vm/gc_stress.h"

#include <errno.h>
#include <ruby.h>
#include <ruby/debug.h>
#include <stdlib.h>

#define NOTES 4096u
#define EVERY_FIRST 16u
#define EVERY_MAX (1u << 24)
#define READING_MOST 0.02
#define WATCHING_MOST 0.03
#define CREDIT_NS (20 * NS_PER_MS) /* what it may cost at a stretch */
#define LOOK_NS (100 * NS_PER_MS)  /* so often N is looked at */
#define BYTES_LEAST (5 * sizeof(VALUE))
#define ROUNDS 8
#define ROUND 64

struct note {
	VALUE object, class, thread;
	uint32_t stack;
	uint64_t stands_for; /* so many objects */
};

struct profile_allocations {
	struct profile_stacks *stacks;
	VALUE class; /* Qfalse: any */
	bool below;
	struct profile_retained *retained; /* NULL: all objects count */
	bool collected;                    /* with retained: those that are alive are known */
	unsigned paused;
	bool watching; /* the hook is wanted: it may have been removed (gc_hook.h) */
	bool rests;    /* the hook is off to stay cheap */

	/* The event's. */
	uint64_t seen, meant;        /* all objects while the hook was on, and those of the class */
	uint64_t every, next, drawn; /* next: objects until one is noted, which stands for as many as were drawn */
	bool every_fixed;            /* N is the user's */
	uint64_t random;
	uint64_t read_ns; /* what reading stacks took */
	uint64_t lost, cut;
	struct note notes[NOTES];
	uint32_t note_count;
	bool asked; /* the job has been asked for */

	double event_ns; /* what the event costs an allocation */
	double credit_ns;
	uint64_t taken_ns, taken_seen;   /* when the job came last, and what seen was */
	uint64_t looked_ns, looked_read; /* when N was looked at, and what read_ns was */
	uint64_t off_ns;                 /* for so long the hook was off to stay cheap; */
	uint64_t unwatched_ns;           /* and since it may not be on */
	uint64_t unwatched;              /* objects: whether they are alive is not known */
	uint64_t objects, samples;       /* in sums */
};

static struct profile_allocations *active; /* NULL: none */

/* --- The event */

static bool is_meant(const struct profile_allocations *one, VALUE class)
{
	if (!one->class || class == one->class)
		return true;
	while (one->below && (class = rb_class_get_superclass(class)))
		if (class == one->class)
			return true;
	return false;
}

/* Half as many to one and a half times as many: N on average. */
static uint64_t interval(struct profile_allocations *one)
{
	uint64_t random = random_next(&one->random);

	return one->every == 1 ? 1 : one->every / 2 + random % (one->every + 1);
}

static void note(struct profile_allocations *one, VALUE object, VALUE class, uint64_t stands_for)
{
	bool known, cut = false;
	const struct fiber_state *fiber = fiber_met_state_or_not(&known);
	uint64_t began_ns;
	struct note *place = &one->notes[one->note_count];

	if (fiber && fiber->suppress_depth)
		return;
	if (one->note_count == NOTES) {
		one->lost += stands_for;
		return;
	}
	began_ns = clock_now_ns();
	*place = (struct note){.object = object, .class = class, .thread = rb_thread_current(), .stands_for = stands_for};
	place->stack = profile_stack_here(one->stacks, &cut);
	one->note_count++;
	one->cut += cut;
	if (one->note_count >= NOTES / 2 && !one->asked) {
		one->asked = true;
		compat_sample_trigger();
	}
	one->read_ns += clock_now_ns() - began_ns;
}

static void on_newobj(VALUE unused, const rb_trace_arg_t *trace_arg)
{
	struct profile_allocations *one = active;
	VALUE object, class;
	uint64_t stands_for;

	(void)unused;
	if (!one || !compat_in_main_ractor())
		return;
	one->seen++;
	if (one->paused)
		return;
	object = rb_tracearg_object((rb_trace_arg_t *)trace_arg);
	class = RBASIC_CLASS(object);
	/* What the VM makes for itself. */
	if (!class || RB_BUILTIN_TYPE(object) == T_IMEMO || RB_BUILTIN_TYPE(object) == T_ICLASS || !is_meant(one, class))
		return;
	one->meant++;
	if (--one->next)
		return;
	stands_for = one->drawn;
	one->next = one->drawn = interval(one);
	note(one, object, class, stands_for);
}

static rb_event_hook_func_t hook(void)
{
	return (rb_event_hook_func_t)(void (*)(void))on_newobj;
}

/* --- Jobs: beginning and ending */

static VALUE find_class(VALUE name)
{
	return constant_module(*(const struct slice *)name);
}

static bool choose_class(struct profile_allocations *one, struct slice name, struct error *err)
{
	int failed = 0;
	VALUE class;

	if (!name.size)
		return true;
	one->below = name.bytes[name.size - 1] == '+';
	name.size -= one->below;
	class = rb_protect(find_class, (VALUE)&name, &failed);
	if (failed)
		exception_drop(Qnil);
	if (failed || !RB_TYPE_P(class, T_CLASS)) {
		error_set(err, -ENOENT, "there is no class %.*s in the process so far", (int)name.size, name.bytes);
		return false;
	}
	one->class = class;
	return true;
}

/* The least that a round of allocations took, for each of them. */
static double least_ns(void)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t began_ns = clock_now_ns(), passed_ns;

		for (int k = 0; k < ROUND; k++)
			rb_ary_new();
		passed_ns = clock_now_ns() - began_ns;
		least = passed_ns < least ? passed_ns : least;
	}
	return (double)least / ROUND;
}

static VALUE try_cost(VALUE argument)
{
	struct profile_allocations *one = (struct profile_allocations *)argument;
	double without = least_ns(), with;

	one->paused++;
	if (gc_hook_add_raw(hook(), RUBY_INTERNAL_EVENT_NEWOBJ)) {
		with = least_ns();
		one->event_ns = with > without ? with - without : 0;
	}
	one->paused--;
	return Qnil;
}

struct profile_allocations *profile_allocations_start(struct profile_stacks *stacks,
                                                      const struct profile_allocation_options *options, struct error *err)
{
	struct profile_allocations *one = calloc(1, sizeof(*one));
	int failed = 0;

	if (!one || !profile_stacks_reserve(stacks)) {
		free(one);
		error_set(err, -ENOMEM, "no memory for a profile");
		return NULL;
	}
	if (!choose_class(one, options->class, err)) {
		free(one);
		return NULL;
	}
	one->stacks = stacks;
	one->retained = options->retained ? profile_retained_start() : NULL;
	if (options->retained && !one->retained) {
		free(one);
		error_set(err, -ENOTSUP, "there is no memory to note objects; or %s", GC_HOOK_WHY);
		return NULL;
	}
	one->every = options->every ? options->every < EVERY_MAX ? options->every : EVERY_MAX : EVERY_FIRST;
	one->random = clock_now_ns() | 1;
	one->every_fixed = options->every != 0;
	one->next = one->drawn = interval(one);
	one->credit_ns = CREDIT_NS;
	active = one;
	gc_stress_off();
	rb_protect(try_cost, (VALUE)one, &failed);
	gc_stress_back();
	if (failed)
		exception_drop(Qnil);
	if (failed || !gc_hook_is_on(hook())) {
		error_set(err, -ENOTSUP, "%s", GC_HOOK_WHY);
		profile_allocations_stop(one);
		profile_allocations_free(one);
		return NULL;
	}
	one->watching = true;
	one->seen = 0;
	one->taken_ns = one->looked_ns = clock_now_ns();
	return one;
}

void profile_allocations_stop(struct profile_allocations *allocations)
{
	if (active == allocations)
		active = NULL;
	gc_hook_remove(hook());
	if (allocations->retained)
		profile_retained_stop(allocations->retained);
	allocations->watching = false;
}

void profile_allocations_abandon(void)
{
	active = NULL;
	profile_retained_abandon();
}

void profile_allocations_free(struct profile_allocations *allocations)
{
	if (allocations && allocations->retained)
		profile_retained_free(allocations->retained);
	if (active == allocations)
		active = NULL;
	free(allocations);
}

void profile_allocations_pause(struct profile_allocations *allocations, bool paused)
{
	if (!allocations)
		return;
	if (paused)
		allocations->paused++;
	else
		allocations->paused--;
}

void profile_allocations_mark(const struct profile_allocations *allocations)
{
	if (!allocations)
		return;
	rb_gc_mark(allocations->class);
	for (uint32_t i = 0; i < allocations->note_count; i++) {
		/* Up to 3.0 the VM gives some objects back by itself: then there is none here. */
		rb_gc_mark_maybe(allocations->notes[i].object);
		rb_gc_mark(allocations->notes[i].class);
		rb_gc_mark(allocations->notes[i].thread);
	}
}

/* --- Jobs: adding up */

static uint64_t bytes_of(const struct note *note)
{
	/* Nobody but the VM can have given it back. */
	if (compat_slot_is_free(note->object) || RBASIC_CLASS(note->object) != note->class)
		return BYTES_LEAST;
	return compat_object_bytes(note->object);
}

static void add(struct profile_allocations *one, const struct note *note, struct profile_threads *threads,
                struct profile_sums *sums)
{
	struct profile_thread *thread = profile_threads_get(threads, note->thread, 0);
	uint32_t stack =
		note->stack == PROFILE_STACK_NONE ? note->stack : profile_stack_made(one->stacks, note->stack, note->class);
	const uint64_t figures[PROFILE_FIGURES] = {1, note->stands_for, note->stands_for * bytes_of(note), 0};
	const struct profile_retained_object object = {note->object, thread ? thread->number : 0, stack, note->stands_for};

	/* The client is told of no such thread. */
	if (thread && thread->ours)
		return;
	if (one->retained && (compat_slot_is_free(note->object) || RBASIC_CLASS(note->object) != note->class))
		return;
	if (one->retained && !profile_retained_watch(one->retained)) {
		one->unwatched += note->stands_for;
		return;
	}
	if (!thread || stack == PROFILE_STACK_NONE ||
	    !(one->retained ? profile_retained_add(one->retained, &object)
	                    : profile_sums_add(sums, thread->number, stack, figures))) {
		one->lost += note->stands_for;
		return;
	}
	one->samples++;
	one->objects += note->stands_for;
}

void profile_allocations_moved(struct profile_allocations *allocations)
{
	if (allocations && allocations->retained)
		profile_retained_moved(allocations->retained);
}

void profile_allocations_take_retained(struct profile_allocations *allocations, struct profile_sums *sums)
{
	const struct profile_retained_object *one;
	uint32_t at = 0;

	if (!allocations->retained)
		return;
	rb_gc_start();
	allocations->collected = true;
	profile_retained_settle(allocations->retained);
	while ((one = profile_retained_next(allocations->retained, &at))) {
		const uint64_t figures[PROFILE_FIGURES] = {1, one->stands_for, one->stands_for * compat_object_bytes(one->object),
		                                           0};

		if (!profile_sums_add(sums, one->thread, one->stack, figures))
			allocations->lost += one->stands_for;
	}
}

/* The hook is off while it has cost more than it may. */
static void keep_to_budget(struct profile_allocations *one)
{
	uint64_t now_ns = clock_now_ns(), passed_ns = now_ns - one->taken_ns;
	bool on = gc_hook_is_on(hook());
	double read_ns = (double)(one->read_ns - one->looked_read);
	double share = read_ns / (double)(now_ns - one->looked_ns + 1);

	one->credit_ns += WATCHING_MOST * (double)passed_ns - (double)(one->seen - one->taken_seen) * one->event_ns;
	if (one->credit_ns > CREDIT_NS)
		one->credit_ns = CREDIT_NS;
	if (!on && one->rests)
		one->off_ns += passed_ns;
	else if (!on)
		one->unwatched_ns += passed_ns;
	one->taken_ns = now_ns;
	one->taken_seen = one->seen;
	if (now_ns - one->looked_ns >= LOOK_NS || share * (double)LOOK_NS > 10 * READING_MOST * LOOK_NS) {
		if (!one->every_fixed && share > READING_MOST && one->every < EVERY_MAX)
			one->every = 1 + (uint64_t)((double)one->every * 1.2 * share / READING_MOST);
		one->looked_ns = now_ns;
		one->looked_read = one->read_ns;
	}
	if (!one->watching)
		return;
	if (on && one->credit_ns < 0) {
		gc_hook_remove(hook());
		one->rests = true;
	} else if (!on && one->credit_ns >= 0) {
		gc_hook_add_raw(hook(), RUBY_INTERNAL_EVENT_NEWOBJ);
		one->rests = false;
	}
}

void profile_allocations_take(struct profile_allocations *allocations, struct profile_threads *threads, struct profile_sums *sums)
{
	if (allocations->retained)
		profile_retained_look(allocations->retained);
	/* One that raises is not met again. */
	while (allocations->note_count > 0)
		add(allocations, &allocations->notes[--allocations->note_count], threads, sums);
	allocations->asked = false;
	profile_stacks_reserve(allocations->stacks);
	keep_to_budget(allocations);
}

uint64_t profile_allocations_lost(const struct profile_allocations *allocations)
{
	return allocations->lost;
}

uint64_t profile_allocations_cost_ns(const struct profile_allocations *allocations)
{
	return allocations->read_ns + (uint64_t)((double)allocations->seen * allocations->event_ns);
}

void profile_allocations_tell(const struct profile_allocations *allocations, struct msgpack_builder *answer)
{
	uint64_t unwatched = allocations->unwatched;

	if (allocations->retained)
		unwatched += profile_retained_unwatched(allocations->retained);
	builder_uint(answer, "made", allocations->meant);
	builder_uint(answer, "every", allocations->every);
	builder_bool(answer, "only_retained", allocations->retained != NULL);
	builder_bool(answer, "retained", allocations->collected);
	builder_uint(answer, "noted", allocations->samples);
	builder_uint(answer, "off_ns", allocations->off_ns);
	builder_uint(answer, "lost", allocations->lost);
	builder_uint(answer, "unwatched_ns", allocations->unwatched_ns);
	builder_uint(answer, "unwatched", unwatched);
	builder_double(answer, "event_ns", allocations->event_ns);
	builder_bool(answer, "with_bytes", compat_object_bytes(rb_cObject) > 0);
}
