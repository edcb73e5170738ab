/* Finding a class by its name. See constant.h. */

#define _GNU_SOURCE
#include "tracee/vm/constant.h"

#include <ruby/encoding.h>
#include <string.h>

VALUE constant_module(struct slice path)
{
	VALUE module = rb_cObject;
	size_t from = 0;

	while (from < path.size) {
		const char *colon = memmem(path.bytes + from, path.size - from, "::", 2);
		size_t to = colon ? (size_t)(colon - path.bytes) : path.size;
		ID id = rb_check_id_cstr(path.bytes + from, (long)(to - from), rb_utf8_encoding());

		if (!id || !rb_is_const_id(id) || !NIL_P(rb_autoload_p(module, id)) || !rb_const_defined_at(module, id))
			return Qnil;
		module = rb_const_get_at(module, id);
		if (!RB_TYPE_P(module, T_CLASS) && !RB_TYPE_P(module, T_MODULE))
			return Qnil;
		from = to + 2;
	}
	return module;
}
