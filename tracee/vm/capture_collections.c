/*
 * Values that hold values. See capture_parts.h.
 *
 * What is in a Hash, a Set or an object's instance variables is copied first, and rendered when the iteration is over: another
 * thread that ran meanwhile could not add to a Hash that is being iterated over.
 */

#include "tracee/vm/capture_parts.h"

#include "tracee/vm/class_name.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define TAKEN_MAX 32 /* elements of a Hash, a Set or an object, whatever is asked for: they are kept on the stack */

struct taken {
	VALUE names[TAKEN_MAX], values[TAKEN_MAX]; /* names of instance variables: IDs, which are not marked */
	size_t count, limit;
	bool more;
};

bool capture_descend(struct render *render, const struct render *outer)
{
	*render = *outer;
	render->depth++;
	render->shown = 0;
	return render->depth <= render->options->value_depth;
}

size_t capture_limit(const struct render *render, size_t size)
{
	return size < render->options->value_length ? size : render->options->value_length;
}

void capture_separate(struct render *render)
{
	if (render->shown++ > 0)
		text_append_cstr(render->text, ", ");
}

void capture_rest(struct render *render, size_t size)
{
	if (render->shown >= size || render->text->cut)
		return;
	capture_separate(render);
	text_append_cstr(render->text, "...");
}

void capture_length(struct text *text, size_t size, const char *unit)
{
	char digits[32], grouped[48];
	int count = snprintf(digits, sizeof(digits), "%zu", size), used = 0;

	for (int i = 0; i < count; i++) {
		if (i > 0 && (count - i) % 3 == 0)
			grouped[used++] = ',';
		grouped[used++] = digits[i];
	}
	grouped[used] = '\0';
	text_printf(text, " (%s %s%s)", grouped, unit, size == 1 ? "" : "s");
}

static void end(struct render *render, size_t shown, size_t size, const char *close, const char *unit)
{
	capture_rest(render, size);
	text_append_cstr(render->text, close);
	if (shown < size && render->depth <= render->options->value_depth)
		capture_length(render->text, size, unit);
}

void capture_array(struct render *outer, VALUE array)
{
	struct render render;
	size_t size = (size_t)RARRAY_LEN(array);
	size_t limit = capture_descend(&render, outer) ? capture_limit(&render, size) : 0;

	text_append_cstr(render.text, "[");
	for (size_t i = 0; i < limit && !render.text->cut; i++) {
		capture_separate(&render);
		capture_render(&render, rb_ary_entry(array, (long)i));
	}
	end(&render, limit, size, "]", "element");
	RB_GC_GUARD(array);
}

static void taken_begin(struct taken *taken, const struct render *render)
{
	taken->count = 0;
	taken->limit = capture_limit(render, TAKEN_MAX);
	taken->more = false;
}

static int take(struct taken *taken, VALUE name, VALUE value)
{
	if (taken->count == taken->limit) {
		taken->more = true;
		return ST_STOP;
	}
	taken->names[taken->count] = name;
	taken->values[taken->count++] = value;
	return ST_CONTINUE;
}

static int take_pair(VALUE key, VALUE value, VALUE taken)
{
	return take((struct taken *)taken, key, value);
}

void capture_hash(struct render *outer, VALUE hash)
{
	struct render render;
	struct taken taken;
	size_t size = (size_t)RHASH_SIZE(hash);
	bool deeper = capture_descend(&render, outer);

	taken_begin(&taken, &render);
	text_append_cstr(outer->text, "{");
	if (deeper && size > 0)
		rb_hash_foreach(hash, take_pair, (VALUE)&taken);
	for (size_t i = 0; i < taken.count && !render.text->cut; i++) {
		capture_separate(&render);
		capture_render(&render, taken.names[i]);
		text_append_cstr(render.text, "=>");
		capture_render(&render, taken.values[i]);
	}
	end(&render, taken.count, size, "}", "pair");
	RB_GC_GUARD(hash);
}

static void set_elements(struct render *render, VALUE set, const struct taken *taken, size_t size)
{
	text_append_cstr(render->text, "#<");
	class_name_add(render->text, rb_obj_class(set));
	text_append_cstr(render->text, ": {");
	for (size_t i = 0; i < taken->count && !render->text->cut; i++) {
		capture_separate(render);
		capture_render(render, taken->names[i]);
	}
	end(render, taken->count, size, "}>", "element");
	RB_GC_GUARD(set);
}

#ifdef HAVE_RB_SET_FOREACH
static int take_element(VALUE element, VALUE taken)
{
	return take((struct taken *)taken, element, Qnil);
}

void capture_set(struct render *outer, VALUE set)
{
	struct render render;
	struct taken taken;
	size_t size = rb_set_size(set);
	bool deeper = capture_descend(&render, outer);

	taken_begin(&taken, &render);
	if (deeper && size > 0)
		rb_set_foreach(set, take_element, (VALUE)&taken);
	set_elements(&render, set, &taken, size);
}
#endif

/* A Set that is written in Ruby: its elements are the keys of a Hash. */
static void render_old_set(struct render *outer, VALUE set, VALUE hash)
{
	struct render render;
	struct taken taken;
	size_t size = (size_t)RHASH_SIZE(hash);
	bool deeper = capture_descend(&render, outer);

	taken_begin(&taken, &render);
	if (deeper && size > 0)
		rb_hash_foreach(hash, take_pair, (VALUE)&taken);
	set_elements(&render, set, &taken, size);
	RB_GC_GUARD(hash);
}

bool capture_is_kind_of_named(VALUE object, const char *name)
{
	for (VALUE class = rb_obj_class(object); RTEST(class); class = rb_class_superclass(class)) {
		VALUE string = rb_mod_name(class);

		if (RB_TYPE_P(string, T_STRING) && (size_t)RSTRING_LEN(string) == strlen(name) &&
		    memcmp(RSTRING_PTR(string), name, strlen(name)) == 0)
			return true;
	}
	return false;
}

static int take_ivar(ID name, VALUE value, st_data_t taken)
{
	const char *text = rb_id2name(name);

	/* Without an '@' it is not the application's. */
	if (!text || text[0] != '@')
		return ST_CONTINUE;
	return take((struct taken *)taken, (VALUE)name, value);
}

/* Behind what the object's text begins with. */
static void add_ivars(struct render *render, VALUE object)
{
	struct taken taken;

	taken_begin(&taken, render);
	rb_ivar_foreach(object, take_ivar, (st_data_t)&taken);
	for (size_t i = 0; i < taken.count && !render->text->cut; i++) {
		text_append_cstr(render->text, render->shown ? "" : " ");
		capture_separate(render);
		text_append_cstr(render->text, rb_id2name((ID)taken.names[i]));
		text_append_cstr(render->text, "=");
		capture_render(render, taken.values[i]);
	}
	if (taken.more)
		capture_rest(render, SIZE_MAX);
	RB_GC_GUARD(object);
}

void capture_object(struct render *outer, VALUE object)
{
	struct render render;

	text_append_cstr(outer->text, "#<");
	class_name_add(outer->text, rb_class_real(CLASS_OF(object)));
	if ((outer->options->flags & TRACE_IVARS) && capture_descend(&render, outer))
		add_ivars(&render, object);
	text_append_cstr(outer->text, ">");
}

static void render_record(struct render *render, VALUE record, VALUE id)
{
	capture_begin(render->text, record);
	text_append_cstr(render->text, " id=");
	capture_render(render, id);
	text_append_cstr(render->text, ">");
}

void capture_instance(struct render *outer, VALUE object)
{
	VALUE hash, path, id;

	if (RTEST(rb_obj_is_kind_of(object, rb_eException))) {
		capture_exception(outer, object);
		return;
	}
	hash = rb_attr_get(object, rb_intern("@hash"));
	if (RB_TYPE_P(hash, T_HASH) && capture_is_kind_of_named(object, "Set")) {
		render_old_set(outer, object, hash);
		return;
	}
	path = rb_attr_get(object, rb_intern("@path"));
	if (RB_TYPE_P(path, T_STRING) && capture_is_kind_of_named(object, "Pathname")) {
		capture_begin(outer->text, object);
		text_append_cstr(outer->text, ":");
		capture_bytes(outer->text, path);
		text_append_cstr(outer->text, ">");
		return;
	}
	id = outer->options->flags & TRACE_IVARS ? Qundef : capture_record_id(object);
	if (id == Qundef)
		capture_object(outer, object);
	else
		render_record(outer, object, id);
}

/* Of a Struct or Data; a class without a name shows none. */
static void begin_struct(struct text *text, VALUE value)
{
	VALUE class = rb_obj_class(value);

	text_append_cstr(text, RTEST(rb_obj_is_kind_of(value, rb_cStruct)) ? "#<struct" : "#<data");
	if (NIL_P(rb_mod_name(class)))
		return;
	text_append_cstr(text, " ");
	class_name_add(text, class);
}

static void add_member_name(struct render *render, VALUE member)
{
	VALUE name = rb_sym2str(member);

	if (capture_is_identifier(RSTRING_PTR(name), (size_t)RSTRING_LEN(name)))
		capture_bytes(render->text, name);
	else
		capture_render(render, member);
	RB_GC_GUARD(name);
}

static void add_members(struct render *render, VALUE value)
{
	VALUE members = rb_struct_members(value);
	size_t size = (size_t)RARRAY_LEN(members), limit = capture_limit(render, size);

	for (size_t i = 0; i < limit && !render->text->cut; i++) {
		text_append_cstr(render->text, render->shown ? "" : " ");
		capture_separate(render);
		add_member_name(render, rb_ary_entry(members, (long)i));
		text_append_cstr(render->text, "=");
		capture_render(render, rb_struct_aref(value, INT2FIX(i)));
	}
	capture_rest(render, size);
	if (render->options->flags & TRACE_IVARS)
		add_ivars(render, value);
	text_append_cstr(render->text, ">");
	if (limit < size)
		capture_length(render->text, size, "member");
	RB_GC_GUARD(members);
}

void capture_struct(struct render *outer, VALUE value)
{
	struct render render;

	if (RTEST(rb_obj_is_kind_of(value, rb_cRange))) {
		capture_range(outer, value);
		return;
	}
	if (!RTEST(rb_obj_is_kind_of(value, rb_cStruct)) && !capture_is_kind_of_named(value, "Data")) {
		capture_object(outer, value);
		return;
	}
	begin_struct(outer->text, value);
	if (capture_descend(&render, outer))
		add_members(&render, value);
	else
		text_append_cstr(outer->text, " ...>");
}
