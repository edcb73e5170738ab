/* See compile_anew.h. */

#include "tracee/select/compile_anew.h"

#include "proto/clock.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/exception_drop.h"

static uint64_t due_ns; /* 0: nothing waits */

static VALUE run(VALUE unused)
{
	compat_compile_anew();
	return unused;
}

void compile_anew(void)
{
	int failed = 0;

	due_ns = 0;
	rb_protect(run, Qnil, &failed);
	if (failed)
		exception_drop(Qnil);
}

void compile_anew_later(void)
{
	if (compat_compiler() == COMPAT_COMPILER_YJIT)
		due_ns = clock_now_ns() + COMPILE_LATER_MS * NS_PER_MS;
}

bool compile_anew_waits(void)
{
	return due_ns != 0;
}

unsigned compile_anew_in_ms(void)
{
	uint64_t now_ns = clock_now_ns();

	return due_ns > now_ns ? (unsigned)((due_ns - now_ns) / NS_PER_MS) + 1 : 1;
}

bool compile_anew_if_due(void)
{
	if (!due_ns || clock_now_ns() < due_ns)
		return false;
	compile_anew();
	return true;
}

void compile_anew_fork_child(void)
{
	if (due_ns)
		compile_anew_later();
}
