/* Time in garbage collections. See profile_gc.h. */

#include "tracee/requests/profile_gc.h"

#include "proto/clock.h"
#include "tracee/vm/exception_drop.h"

#include <ruby.h>

static VALUE time_symbol(void)
{
	static ID id;

	if (!id)
		id = rb_intern("time");
	return ID2SYM(id);
}

/* Raises where there is no such figure. */
static VALUE ask(VALUE unused)
{
	rb_gc_stat(time_symbol());
	return unused;
}

bool profile_gc_known(void)
{
	int failed = 0;

	rb_protect(ask, Qnil, &failed);
	if (failed)
		exception_drop(Qnil);
	return !failed;
}

uint64_t profile_gc_ns(void)
{
	return (uint64_t)rb_gc_stat(time_symbol()) * NS_PER_MS;
}
