/*
 * What no engine of this kind can do without: linked in the place of the extension's own callbacks (tests/bench/floor.rb), these
 * read the clock where a call begins and where it ends, and do nothing else. With FLOOR_COUNTS they also add the times up, in the
 * shortest way there is: no exception, no fiber, no second session, and no other thread's end is thought of. Context: event.
 */

#include "proto/histogram.h"
#include "tracee/base/ticks.h"
#include "tracee/engine/engine_target_sites.h"
#include "tracee/engine/patch_stubs.h"

#include <ruby.h>

#include <stdlib.h>

struct floor_call {
	const struct patch_slot *slot;
	VALUE receiver;
	int argc;
	const VALUE *argv;
};

/* The linker's names for what takes a function's place. */
void __wrap_engine_target_event(VALUE tracepoint, void *data);
VALUE __wrap_patch_enter(struct patch_slot *slot, VALUE receiver, int argc, const VALUE *argv);

#ifdef FLOOR_COUNTS

#define DEPTH_MAX 1024
#define METHODS_MAX 1024u /* a power of two; methods that meet in one place are added up together */

struct open_time {
	uint64_t began, inner;
};

struct thread_times {
	struct open_time open[DEPTH_MAX + 1]; /* behind one that stands for whoever called the outermost */
	uint32_t depth;
};

static struct method_times {
	_Alignas(64) uint64_t calls, total, inner, least, most;
	uint32_t buckets[HISTOGRAM_BUCKETS];
} methods[METHODS_MAX];

static __thread struct thread_times *times __attribute__((tls_model("initial-exec")));

static inline void begins(void)
{
	if (__builtin_expect(!times, 0))
		times = calloc(1, sizeof(*times));
	times->depth += times->depth < DEPTH_MAX;
	times->open[times->depth].inner = 0;
	times->open[times->depth].began = ticks_now();
}

static inline void ends(const void *method)
{
	uint64_t now = ticks_now();
	struct method_times *added = &methods[(uintptr_t)method >> 6 & (METHODS_MAX - 1)];
	uint64_t elapsed;

	if (!times || times->depth == 0)
		return;
	elapsed = now - times->open[times->depth].began;
	added->calls++;
	added->total += elapsed;
	added->inner += times->open[times->depth].inner;
	if (elapsed < added->least || added->calls == 1)
		added->least = elapsed;
	if (elapsed > added->most)
		added->most = elapsed;
	added->buckets[histogram_bucket(elapsed)]++;
	times->open[--times->depth].inner += elapsed;
}

/* Asks the VM, by its public functions, which of the two it is. */
void __wrap_engine_target_event(VALUE tracepoint, void *data)
{
	if (rb_tracearg_event_flag(rb_tracearg_from_tracepoint(tracepoint)) == RUBY_EVENT_CALL)
		begins();
	else
		ends(data);
}

#else

static volatile uint64_t clock_read;

static inline void begins(void)
{
	clock_read = ticks_now();
}

static inline void ends(const void *method)
{
	(void)method;
	clock_read = ticks_now();
}

void __wrap_engine_target_event(VALUE tracepoint, void *data)
{
	(void)tracepoint;
	(void)data;
	clock_read = ticks_now();
}

#endif

static VALUE call(VALUE argument)
{
	const struct floor_call *floor_call = (const struct floor_call *)argument;

	begins();
	return floor_call->slot->call(floor_call->slot->function, floor_call->receiver, floor_call->argc, floor_call->argv);
}

static VALUE over(VALUE argument)
{
	ends(((const struct floor_call *)argument)->slot);
	return Qnil;
}

VALUE __wrap_patch_enter(struct patch_slot *slot, VALUE receiver, int argc, const VALUE *argv)
{
	struct floor_call floor_call = {slot, receiver, argc, argv};

	if (slot->probes.count == 0)
		return slot->call(slot->function, receiver, argc, argv);
	return rb_ensure(call, (VALUE)&floor_call, over, (VALUE)&floor_call);
}
