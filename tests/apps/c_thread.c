/* Makes a Ruby thread as C code does: CThread.start { ... }. */

#include <ruby.h>

static VALUE run(void *block)
{
	return rb_proc_call((VALUE)block, rb_ary_new());
}

static VALUE c_thread_start(VALUE self)
{
	VALUE block = rb_block_proc();

	rb_ivar_set(self, rb_intern("block"), block);
	return rb_thread_create(run, (void *)block);
}

void Init_c_thread(void)
{
	rb_define_module_function(rb_define_module("CThread"), "start", c_thread_start, 0);
}
