/*
 * What no engine of this kind can do without: linked in the place of the extension's own callbacks (tests/bench/floor.rb), these
 * read the clock where a call begins and where it ends, and do nothing else. Context: event.
 */

#include "tracee/base/ticks.h"
#include "tracee/engine/engine_target_parts.h"
#include "tracee/engine/patch_stubs.h"

#include <ruby.h>

struct floor_call {
	const struct patch_slot *slot;
	VALUE receiver;
	int argc;
	const VALUE *argv;
};

/* The linker's names for what takes a function's place. */
void __wrap_engine_target_event(VALUE tracepoint, void *data);
VALUE __wrap_patch_enter(struct patch_slot *slot, VALUE receiver, int argc, const VALUE *argv);

static volatile uint64_t clock_read;

void __wrap_engine_target_event(VALUE tracepoint, void *data)
{
	(void)tracepoint;
	(void)data;
	clock_read = ticks_now();
}

static VALUE call(VALUE argument)
{
	const struct floor_call *floor_call = (const struct floor_call *)argument;

	clock_read = ticks_now();
	return floor_call->slot->call(floor_call->slot->function, floor_call->receiver, floor_call->argc, floor_call->argv);
}

static VALUE over(VALUE argument)
{
	(void)argument;
	clock_read = ticks_now();
	return Qnil;
}

VALUE __wrap_patch_enter(struct patch_slot *slot, VALUE receiver, int argc, const VALUE *argv)
{
	struct floor_call floor_call = {slot, receiver, argc, argv};

	if (slot->probes.count == 0)
		return slot->call(slot->function, receiver, argc, argv);
	return rb_ensure(call, (VALUE)&floor_call, over, Qnil);
}
