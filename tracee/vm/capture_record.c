/*
 * Which record an object stands for: the id among its @attributes, as ActiveRecord keeps them, read without asking it. See
 * capture_parts.h. Nothing here calls a method or raises.
 */

#include "tracee/vm/capture_parts.h"

#include <string.h>

#define KEYS_LOOKED_AT 256 /* of a table's columns; the id is among the first */

struct search {
	VALUE found; /* Qundef: none */
	unsigned looked;
};

static int look(VALUE key, VALUE value, VALUE argument)
{
	struct search *search = (struct search *)argument;

	if (RB_TYPE_P(key, T_STRING) && RSTRING_LEN(key) == 2 && memcmp(RSTRING_PTR(key), "id", 2) == 0) {
		search->found = value;
		return ST_STOP;
	}
	return ++search->looked < KEYS_LOOKED_AT ? ST_CONTINUE : ST_STOP;
}

/* Asked of the Hash itself, "id" might be compared by methods of the application. */
static VALUE id_in(VALUE hash)
{
	struct search search = {.found = Qundef};

	if (RB_TYPE_P(hash, T_HASH))
		rb_hash_foreach(hash, look, (VALUE)&search);
	return search.found;
}

static VALUE ivar(VALUE object, const char *name)
{
	return RB_TYPE_P(object, T_OBJECT) ? rb_attr_get(object, rb_intern(name)) : Qnil;
}

/* What an Attribute is about: what its type has made of what came from the database, or that. */
static VALUE value_of(VALUE attribute)
{
	if (!RB_TYPE_P(attribute, T_OBJECT))
		return Qundef;
	if (RTEST(rb_ivar_defined(attribute, rb_intern("@value"))))
		return ivar(attribute, "@value");
	if (RTEST(rb_ivar_defined(attribute, rb_intern("@value_before_type_cast"))))
		return ivar(attribute, "@value_before_type_cast");
	return Qundef;
}

/* A row as the database gave it: a Hash, or (7.2 and newer) an Array whose columns another Hash numbers. */
static VALUE id_in_row(VALUE row)
{
	VALUE index, values;

	if (RB_TYPE_P(row, T_HASH))
		return id_in(row);
	index = id_in(ivar(row, "@column_indexes"));
	values = ivar(row, "@row");
	if (!RB_FIXNUM_P(index) || !RB_TYPE_P(values, T_ARRAY) || FIX2LONG(index) < 0 || FIX2LONG(index) >= RARRAY_LEN(values))
		return Qundef;
	return rb_ary_entry(values, FIX2LONG(index));
}

/*
 * A Hash of values (ActiveRecord 3), a set with a Hash of Attributes, or one that makes them when they are asked for: the set
 * itself (6.1 and newer) or what it has in the Hash's place (4.2 to 6.0).
 */
static VALUE id_among(VALUE attributes)
{
	VALUE inner, id;

	if (RB_TYPE_P(attributes, T_HASH))
		return id_in(attributes);
	inner = ivar(attributes, "@attributes");
	id = value_of(id_in(RB_TYPE_P(inner, T_OBJECT) ? ivar(inner, "@delegate_hash") : inner));
	if (id != Qundef)
		return id;
	if (RB_TYPE_P(inner, T_OBJECT))
		return id_in_row(ivar(inner, "@values"));
	id = id_in(ivar(attributes, "@casted_values"));
	return id == Qundef ? id_in_row(ivar(attributes, "@values")) : id;
}

VALUE capture_record_id(VALUE object)
{
	VALUE attributes = ivar(object, "@attributes");
	VALUE id = NIL_P(attributes) ? Qundef : id_among(attributes);

	return id == Qundef || NIL_P(id) || RB_INTEGER_TYPE_P(id) || RB_TYPE_P(id, T_STRING) ? id : Qundef;
}
