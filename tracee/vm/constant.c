/* Constants by their paths. See constant.h. */

#define _GNU_SOURCE
#include "tracee/vm/constant.h"

#include "tracee/vm/heap_list.h"

#include <ruby/encoding.h>
#include <stdlib.h>
#include <string.h>

struct constant {
	VALUE module;
	ID id;
};

static VALUE constant_get(VALUE argument)
{
	const struct constant *constant = (const struct constant *)argument;

	return rb_const_get_at(constant->module, constant->id);
}

static VALUE set_verbose(VALUE verbose)
{
	*rb_ruby_verbose_ptr() = verbose;
	return Qnil;
}

/* Of one that is deprecated the VM would warn, by the application's code (Warning.warn). */
static VALUE constant_get_quietly(VALUE module, ID id)
{
	const struct constant constant = {module, id};
	VALUE verbose = *rb_ruby_verbose_ptr();

	set_verbose(Qnil);
	return rb_ensure(constant_get, (VALUE)&constant, set_verbose, verbose);
}

/* Qundef: there is none, or one that would have to be loaded. */
static VALUE constant_in(VALUE module, struct slice name)
{
	ID id = rb_check_id_cstr(name.bytes, (long)name.size, rb_utf8_encoding());

	if (!id || !rb_is_const_id(id) || !NIL_P(rb_autoload_p(module, id)) || !rb_const_defined_at(module, id))
		return Qundef;
	return constant_get_quietly(module, id);
}

static VALUE module_within(VALUE module, struct slice path)
{
	size_t from = 0;

	while (from < path.size) {
		const char *colon = memmem(path.bytes + from, path.size - from, "::", 2);
		size_t to = colon ? (size_t)(colon - path.bytes) : path.size;

		module = constant_in(module, (struct slice){path.bytes + from, to - from});
		if (module == Qundef || (!RB_TYPE_P(module, T_CLASS) && !RB_TYPE_P(module, T_MODULE)))
			return Qnil;
		from = to + 2;
	}
	return module;
}

/*
 * With RUBY_BOX=1 (since 4.0) a program's constants are those of its box, a Module. A job runs in the root box, whose Object has
 * Ruby's own.
 */
static bool has_boxes(void)
{
	const char *value = getenv("RUBY_BOX");

	return value && strcmp(value, "1") == 0;
}

static VALUE module_in_boxes(struct slice path)
{
	static const char name[] = "Ruby::Box";
	VALUE class = module_within(rb_cObject, ((struct slice){name, sizeof(name) - 1})), boxes, found = Qnil;

	if (NIL_P(class))
		return Qnil;
	boxes = heap_list_all(class);
	for (long i = 0; i < RARRAY_LEN(boxes) && NIL_P(found); i++)
		found = module_within(rb_ary_entry(boxes, i), path);
	RB_GC_GUARD(boxes);
	return found;
}

VALUE constant_module(struct slice path)
{
	VALUE module = module_within(rb_cObject, path);

	return NIL_P(module) && has_boxes() ? module_in_boxes(path) : module;
}

VALUE constant_module_at_hand(const char *name)
{
	return module_within(rb_cObject, (struct slice){name, strlen(name)});
}

VALUE constant_at_hand(const char *name)
{
	return constant_in(rb_cObject, (struct slice){name, strlen(name)});
}

bool constant_may_be_path(struct slice text)
{
	for (size_t i = 0; i < text.size; i++) {
		unsigned char c = (unsigned char)text.bytes[i];
		bool begins = i == 0 || text.bytes[i - 1] == ':';

		if (c < 0x80 && c != ':' && !(begins ? ISUPPER(c) : ISALNUM(c) || c == '_'))
			return false;
	}
	return true;
}

static bool ends_with(struct slice text, const char *end)
{
	size_t size = strlen(end);

	return text.size >= size && memcmp(text.bytes + text.size - size, end, size) == 0;
}

static bool is_version(VALUE value)
{
	const char *bytes;
	long size;

	if (value == Qundef || !RB_TYPE_P(value, T_STRING))
		return false;
	bytes = RSTRING_PTR(value);
	size = RSTRING_LEN(value);
	if (size == 0 || size > CONSTANT_VERSION_MAX || !ISDIGIT(bytes[0]))
		return false;
	for (long i = 0; i < size; i++)
		if (!ISALNUM(bytes[i]) && bytes[i] != '.' && bytes[i] != '-' && bytes[i] != '+')
			return false;
	return true;
}

VALUE constant_version(struct slice path)
{
	size_t name = path.size;
	VALUE module, value;

	if (!ends_with(path, "VERSION") && !ends_with(path, "VERSION::STRING") && !ends_with(path, "RELEASE"))
		return Qnil;
	while (name && path.bytes[name - 1] != ':')
		name--;
	if (name < 3)
		return Qnil;
	module = constant_module((struct slice){path.bytes, name - 2});
	if (NIL_P(module))
		return Qnil;
	value = constant_in(module, (struct slice){path.bytes + name, path.size - name});
	return is_version(value) ? value : Qnil;
}
