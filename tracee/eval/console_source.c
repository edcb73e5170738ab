/*
 * SOURCE: where a method is written, and the lines. Context: job, GVL held. No code of the application runs. The file is read
 * here, as the process sees it; that it may have changed since it was loaded is for the client to say, who is told its time.
 */

#include "tracee/eval/console.h"
#include "tracee/eval/console_receiver.h"
#include "tracee/session/request.h"
#include "tracee/session/ruby_msgpack.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/class_name.h"
#include "tracee/vm/method_definition.h"

#include <errno.h>
#include <ruby/encoding.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LINES_MAX 2000
#define LINES_SIZE_MAX (512u << 10) /* bytes */
#define TITLE_SIZE 512

static void set(VALUE answer, const char *key, VALUE value)
{
	rb_hash_aset(answer, rb_str_new_cstr(key), value);
}

/* "Order#save", and "Order#store (alias of save)". */
static VALUE title_of(VALUE method)
{
	char bytes[TITLE_SIZE];
	struct text text = {.bytes = bytes, .size = sizeof(bytes)};
	VALUE name = builtin_call0(BUILTIN_UNBOUND_METHOD_NAME, method);
	VALUE original_name = builtin_call0(BUILTIN_UNBOUND_METHOD_ORIGINAL_NAME, method);
	VALUE original = rb_sym2str(original_name);

	class_name_add_method(&text, builtin_call0(BUILTIN_UNBOUND_METHOD_OWNER, method), name);
	if (name != original_name)
		text_printf(&text, " (alias of %.*s)", (int)RSTRING_LEN(original), RSTRING_PTR(original));
	return rb_utf8_str_new(bytes, (long)text.used);
}

/* The number of the last line; the first where that is not known. */
static long last_line(VALUE instructions, long first)
{
	VALUE location;

	if (NIL_P(instructions))
		return first;
	/* The only way to it in all Rubies; the fifth element describes the method. */
	location = rb_ary_entry(builtin_call0(BUILTIN_ISEQ_TO_A, instructions), 4);
	if (!RB_TYPE_P(location, T_HASH))
		return first;
	location = rb_hash_lookup(location, ID2SYM(rb_intern("code_location")));
	if (!RB_TYPE_P(location, T_ARRAY) || !FIXNUM_P(rb_ary_entry(location, 2)))
		return first;
	return FIX2LONG(rb_ary_entry(location, 2));
}

/* What the file says from line to line; nil and errno where it cannot be read. */
static VALUE read_lines(const char *path, long first, long last, struct stat *status)
{
	FILE *file;
	char *line = NULL;
	size_t size = 0, total = 0;
	VALUE lines = rb_ary_new();

	if (stat(path, status) != 0)
		return Qnil;
	errno = S_ISREG(status->st_mode) ? 0 : EINVAL;
	file = errno ? NULL : fopen(path, "re");
	if (!file)
		return Qnil;
	for (long number = 1; number <= last && number < first + LINES_MAX && total < LINES_SIZE_MAX; number++) {
		ssize_t length = getline(&line, &size, file);

		if (length < 0)
			break;
		if (length > 0 && line[length - 1] == '\n')
			length--;
		if (number < first || (size_t)length > LINES_SIZE_MAX)
			continue;
		total += (size_t)length;
		rb_ary_push(lines, rb_str_new(line, length));
	}
	free(line);
	fclose(file);
	errno = ENODATA;
	return RARRAY_LEN(lines) ? lines : Qnil;
}

static void add_lines(VALUE answer, VALUE method, VALUE location)
{
	VALUE file = rb_ary_entry(location, 0), number = rb_ary_entry(location, 1), path = Qnil, lines;
	VALUE instructions = method_definition_instructions(method);
	struct stat status;

	if (!RB_TYPE_P(file, T_STRING) || !FIXNUM_P(number))
		return;
	set(answer, "file", file);
	set(answer, "line", number);
	if (!NIL_P(instructions))
		path = builtin_call0(BUILTIN_ISEQ_ABSOLUTE_PATH, instructions);
	if (NIL_P(path))
		path = file;
	lines = read_lines(StringValueCStr(path), FIX2LONG(number), last_line(instructions, FIX2LONG(number)), &status);
	if (NIL_P(lines)) {
		set(answer, "reason",
		    rb_sprintf("the source cannot be read: %s", errno == ENODATA ? "the file is shorter now" : strerror(errno)));
		return;
	}
	set(answer, "lines", lines);
	set(answer, "mtime", LONG2NUM((long)status.st_mtime));
}

static VALUE receiver_class(struct session *session, uint32_t flags)
{
	VALUE subject;

	if (!(flags & SOURCE_SUBJECT))
		return rb_class_of(builtin_call0(BUILTIN_BINDING_RECEIVER, console_binding(session)));
	subject = console_subject(session);
	console_set_subject(session, Qundef);
	if (subject == Qundef)
		return Qundef;
	if (!(flags & SOURCE_INSTANCE))
		return rb_class_of(subject);
	return RB_TYPE_P(subject, T_CLASS) || RB_TYPE_P(subject, T_MODULE) ? subject : Qundef;
}

static void source_begin(struct request *request, const struct command *command)
{
	struct slice name = command->arguments.name;
	ID id = rb_check_id_cstr(name.bytes, (long)name.size, rb_utf8_encoding());
	VALUE class = receiver_class(request->session, command->arguments.flags), method, answer, location;

	if (class == Qundef) {
		request_finish(request, EINVAL, "what stands in front of # has to be a class or a module");
		return;
	}
	method = id ? receiver_method(class, id) : Qnil;
	if (NIL_P(method)) {
		request_finish(request, ENOENT, "there is no such method: %.*s", (int)name.size, name.bytes);
		return;
	}
	answer = rb_hash_new();
	set(answer, "name", title_of(method));
	location = builtin_call0(BUILTIN_UNBOUND_METHOD_SOURCE_LOCATION, method);
	if (RB_TYPE_P(location, T_ARRAY))
		add_lines(answer, method, location);
	else
		set(answer, "reason", rb_str_new_cstr("it is not written in Ruby"));
	ruby_msgpack_send(request, answer);
	request_finish(request, 0, "%s", "");
}

const struct request_kind request_source = {.name = "source", .begin = source_begin};
