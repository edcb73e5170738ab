/* A C extension whose time is in static functions: Hot.spin computes, Hot.each calls its block, Hot.wait waits. */

#include <ruby.h>
#include <ruby/thread.h>
#include <unistd.h>

static unsigned long sum;

static void __attribute__((noinline)) innermost_loop(long turns)
{
	for (long i = 0; i < turns; i++) {
		sum = sum * 31 + (unsigned long)i;
		__asm__ volatile("" : "+r"(sum));
	}
}

/* No tail call: its frame stays. */
static long __attribute__((noinline)) outer_loop(long turns)
{
	innermost_loop(turns);
	__asm__ volatile("" ::: "memory");
	return turns;
}

static VALUE hot_spin(VALUE self, VALUE turns)
{
	(void)self;
	return LONG2NUM(outer_loop(NUM2LONG(turns)));
}

static void __attribute__((noinline)) yield_each(long turns)
{
	for (long i = 0; i < turns; i++) {
		rb_yield(LONG2NUM(i));
		__asm__ volatile("" ::: "memory");
	}
}

static VALUE hot_each(VALUE self, VALUE turns)
{
	yield_each(NUM2LONG(turns));
	return self;
}

static void *wait_for_ever(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static VALUE hot_wait(VALUE self)
{
	rb_thread_call_without_gvl(wait_for_ever, NULL, RUBY_UBF_IO, NULL);
	return self;
}

void Init_native(void)
{
	VALUE hot = rb_define_module("Hot");

	rb_define_module_function(hot, "spin", hot_spin, 1);
	rb_define_module_function(hot, "each", hot_each, 1);
	rb_define_module_function(hot, "wait", hot_wait, 0);
}
