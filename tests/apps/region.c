/*
 * Calls a C function as extensions do that wait: without the GVL, and with RUBY_UBF_IO for whoever wants to interrupt
 * it. Region.call(ADDRESS, INTEGER...).
 */

#include <errno.h>
#include <ruby.h>
#include <ruby/thread.h>

#define ARGUMENTS_MAX 6

struct call {
	long (*function)(long, long, long, long, long, long);
	long arguments[ARGUMENTS_MAX];
	int result;
	int error;
};

static void *run(void *data)
{
	struct call *call = data;
	const long *of = call->arguments;

	call->result = (int)call->function(of[0], of[1], of[2], of[3], of[4], of[5]);
	call->error = errno;
	return NULL;
}

static VALUE region_call(int count, VALUE *arguments, VALUE self)
{
	struct call call = {.function = (void *)NUM2LONG(arguments[0])};

	(void)self;
	for (int i = 1; i < count && i <= ARGUMENTS_MAX; i++)
		call.arguments[i - 1] = NUM2LONG(arguments[i]);
	rb_thread_call_without_gvl(run, &call, RUBY_UBF_IO, NULL);
	return rb_ary_new_from_args(2, INT2NUM(call.result), INT2NUM(call.error));
}

void Init_region(void)
{
	rb_define_module_function(rb_define_module("Region"), "call", region_call, -1);
}
