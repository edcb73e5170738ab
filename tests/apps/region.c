/*
 * Calls a C function as extensions do that wait: without the GVL, and with RUBY_UBF_IO for whoever wants to interrupt
 * it. Region.call(ADDRESS, INTEGER...).
 */

#include <errno.h>
#include <fcntl.h>
#include <ruby.h>
#include <ruby/thread.h>
#include <ruby/thread_native.h>
#include <ruby/version.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#define ARGUMENTS_MAX 6

struct call {
	long (*function)(long, long, long, long, long, long);
	long arguments[ARGUMENTS_MAX];
	int result;
	int error;
};

struct line {
	FILE *file;
	char text[80];
	bool there;
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

static void *read_line(void *data)
{
	struct line *line = data;

	line->there = fgets(line->text, sizeof(line->text), line->file) != NULL;
	return NULL;
}

/* A line of that descriptor, by a function of libc that is called by its name, and makes the system call by others. */
static VALUE region_line(VALUE self, VALUE descriptor, VALUE without_gvl)
{
	struct line line = {.file = fdopen(dup(NUM2INT(descriptor)), "r")};

	(void)self;
	fcntl(fileno(line.file), F_SETFL, 0); /* Ruby's pipes do not block */
	if (RTEST(without_gvl))
		rb_thread_call_without_gvl(read_line, &line, RUBY_UBF_IO, NULL);
	else
		read_line(&line);
	fclose(line.file);
	return line.there ? rb_str_new_cstr(line.text) : Qnil;
}

struct reading {
	int descriptor;
	char bytes[80];
};

/* Ends in a call of libc's: nothing of this is on the stack while that waits. */
static void *read_at_once(void *data)
{
	struct reading *reading = data;

	return (void *)read(reading->descriptor, reading->bytes, sizeof(reading->bytes));
}

static VALUE region_tail(VALUE self, VALUE descriptor)
{
	struct reading reading = {dup(NUM2INT(descriptor))};
	long result;

	(void)self;
	fcntl(reading.descriptor, F_SETFL, 0);
	result = (long)rb_thread_call_without_gvl(read_at_once, &reading, RUBY_UBF_IO, NULL);
	close(reading.descriptor);
	return LONG2NUM(result);
}

#if RUBY_API_VERSION_CODE >= 30000 /* no header of 2.7 has it */
struct condition {
	rb_nativethread_lock_t lock;
	rb_nativethread_cond_t condition;
	unsigned long ms;
	bool cancelled;
};

static void *condition_wait(void *data)
{
	struct condition *one = data;

	rb_native_mutex_lock(&one->lock);
	if (!one->cancelled)
		rb_native_cond_timedwait(&one->condition, &one->lock, one->ms);
	rb_native_mutex_unlock(&one->lock);
	return NULL;
}

static void condition_cancel(void *data)
{
	struct condition *one = data;

	rb_native_mutex_lock(&one->lock);
	one->cancelled = true;
	rb_native_cond_signal(&one->condition);
	rb_native_mutex_unlock(&one->lock);
}

/* Waits by what the VM offers for that, as the lookup of a name does. Whether somebody made it end early. */
static VALUE region_condition(VALUE self, VALUE ms)
{
	struct condition one = {.ms = NUM2ULONG(ms)};

	(void)self;
	rb_native_mutex_initialize(&one.lock);
	rb_native_cond_initialize(&one.condition);
	rb_thread_call_without_gvl(condition_wait, &one, condition_cancel, &one);
	rb_native_cond_destroy(&one.condition);
	rb_native_mutex_destroy(&one.lock);
	return one.cancelled ? Qtrue : Qfalse;
}
#endif

void Init_region(void)
{
	rb_define_module_function(rb_define_module("Region"), "tail", region_tail, 1);
#if RUBY_API_VERSION_CODE >= 30000
	rb_define_module_function(rb_define_module("Region"), "condition", region_condition, 1);
#endif
	rb_define_module_function(rb_define_module("Region"), "line", region_line, 2);
	rb_define_module_function(rb_define_module("Region"), "call", region_call, -1);
}
