/*
 * Calls a C function as extensions do that wait: without the GVL, and with RUBY_UBF_IO for whoever wants to interrupt
 * it. Region.call(ADDRESS, INTEGER...).
 */

#include <errno.h>
#include <fcntl.h>
#include <ruby.h>
#include <ruby/thread.h>
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

void Init_region(void)
{
	rb_define_module_function(rb_define_module("Region"), "line", region_line, 2);
	rb_define_module_function(rb_define_module("Region"), "call", region_call, -1);
}
