/* An extension that takes the GVL and does not give it back until a file is there; built by tests/live/stuck_test.rb. */

#include <ruby.h>
#include <unistd.h>

void Init_holder(void);
__attribute__((noinline)) long hold_the_gvl(const char *path, int asleep);

/* Global, and with work left behind each call, so that its frame is there and has a name. */
long hold_the_gvl(const char *path, int asleep)
{
	long turns = 0;

	while (access(path, F_OK) != 0) {
		if (asleep)
			usleep(1000);
		/* Computes most of the time: into one that does nothing but system calls, nothing can be loaded. */
		for (volatile int i = 0; !asleep && i < 100000; i++)
			;
		turns++;
	}
	return turns;
}

static VALUE hold(VALUE self, VALUE path, VALUE asleep)
{
	(void)self;
	return LONG2NUM(hold_the_gvl(StringValueCStr(path), RTEST(asleep)) > 0);
}

void Init_holder(void)
{
	rb_define_module_function(rb_define_module("Holder"), "hold", hold, 2);
}
