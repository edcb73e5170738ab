/*
 * LIST: what an object has. Context: job, GVL held. No code of the application runs: the names come from Ruby's own methods
 * (builtin_methods.h).
 */

#include "tracee/eval/console.h"
#include "tracee/session/request.h"
#include "tracee/session/ruby_msgpack.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/class_name.h"

#include <errno.h>

#define TITLE_SIZE 512

struct listing {
	VALUE groups; /* Array of {title, names} */
	bool all;     /* what every object has, too */
	VALUE object;
};

static void add_group(struct listing *listing, const char *title, size_t size, VALUE names)
{
	VALUE group;

	if (RARRAY_LEN(names) == 0)
		return;
	group = rb_hash_new();
	rb_hash_aset(group, rb_str_new_cstr("title"), rb_utf8_str_new(title, (long)size));
	rb_hash_aset(group, rb_str_new_cstr("names"), names);
	rb_ary_push(listing->groups, group);
}

static void add_titled(struct listing *listing, const char *title, VALUE names)
{
	add_group(listing, title, strlen(title), names);
}

static bool is_module(VALUE value)
{
	return RB_TYPE_P(value, T_CLASS) || RB_TYPE_P(value, T_MODULE);
}

/* "Order#", "Order." or, of an object's own class, "#<Order:0x...>."; then what is special about these methods. */
static void add_methods(struct listing *listing, VALUE owner, VALUE (*list_names)(int, const VALUE *, VALUE), const char *remark)
{
	VALUE inherited = Qfalse, names = list_names(1, &inherited, owner);
	char bytes[TITLE_SIZE];
	struct text title = {.bytes = bytes, .size = sizeof(bytes)};
	char separator;

	if (owner == rb_class_of(listing->object) && class_name_is_singleton(owner) && !is_module(listing->object)) {
		VALUE name = console_describe(listing->object);

		text_append(&title, RSTRING_PTR(name), (size_t)RSTRING_LEN(name));
		separator = '.';
	} else {
		separator = class_name_add_owner(&title, owner);
	}
	text_append(&title, &separator, 1);
	text_append_cstr(&title, remark);
	add_group(listing, bytes, title.used, names);
}

/* From here on it is what all objects, or all modules, have. */
static bool is_common(VALUE module)
{
	return module == rb_cObject || module == rb_cModule || module == rb_cClass || module == rb_cBasicObject ||
	       module == rb_class_of(rb_cObject);
}

/* Methods of a class and its ancestors, its own first. */
static void add_ancestors(struct listing *listing, VALUE class, bool private_too)
{
	VALUE ancestors = rb_mod_ancestors(class);

	for (long i = 0; i < RARRAY_LEN(ancestors); i++) {
		VALUE module = rb_ary_entry(ancestors, i);

		if (!is_common(module) || listing->all)
			add_methods(listing, module, rb_class_instance_methods, "");
		/* What the main program defines is there, as private methods of Object. */
		if (private_too && (!is_common(module) || module == rb_cObject))
			add_methods(listing, module, rb_class_private_instance_methods, " (private)");
		if (is_common(module) && module != class && !listing->all)
			return;
	}
}

static void list(struct listing *listing, VALUE object, VALUE binding)
{
	VALUE inherited = Qfalse;
	bool is_self = binding != Qundef;

	listing->object = object;
	if (is_module(object)) {
		add_titled(listing, "constants", rb_mod_constants(1, &inherited, object));
		add_ancestors(listing, rb_class_of(object), false);
		add_ancestors(listing, object, false);
	} else {
		add_ancestors(listing, rb_class_of(object), is_self);
	}
	add_titled(listing, "class variables",
	           rb_mod_class_variables(0, NULL, is_module(object) ? object : rb_obj_class(object)));
	add_titled(listing, "instance variables", rb_obj_instance_variables(object));
	if (is_self)
		add_titled(listing, "local variables", builtin_call0(BUILTIN_BINDING_LOCAL_VARIABLES, binding));
}

static void list_begin(struct request *request, const struct command *command)
{
	struct listing listing = {.groups = rb_ary_new(), .all = (command->arguments.flags & LIST_ALL) != 0};
	VALUE binding = Qundef, object, answer = rb_hash_new();

	if (command->arguments.flags & LIST_SUBJECT) {
		object = console_subject(request->session);
		console_set_subject(request->session, Qundef);
	} else {
		binding = console_binding(request->session);
		object = builtin_call0(BUILTIN_BINDING_RECEIVER, binding);
	}
	if (object == Qundef) {
		request_finish(request, EINVAL, "there is no object to list");
		return;
	}
	list(&listing, object, binding);
	rb_hash_aset(answer, rb_str_new_cstr("groups"), listing.groups);
	if (ruby_msgpack_send(request, answer))
		request_finish(request, 0, "%s", "");
	else
		request_finish(request, EFBIG, "there is more than fits into an answer");
	RB_GC_GUARD(object);
}

const struct request_kind request_list = {.name = "list", .begin = list_begin};
