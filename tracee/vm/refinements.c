/* The refinements of a process. See refinements.h. */

#include "tracee/vm/refinements.h"

#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/heap_list.h"
#include "tracee/vm/own.h"

static VALUE known; /* Array; Qfalse: to be looked for */

void refinements_init(void)
{
	own_register(&known);
}

/* Refinement came with 3.1, as did the compiler because of which anybody asks. */
static VALUE refinement_class(void)
{
	ID name = rb_intern("Refinement");

	return rb_const_defined(rb_cObject, name) ? rb_const_get(rb_cObject, name) : Qnil;
}

/* Where the VM keeps it, in 2.7 to 4.1-dev; Refinement#target came later. */
VALUE refinements_refined(VALUE module)
{
	return RB_TYPE_P(module, T_MODULE) ? rb_attr_get(module, rb_intern("__refined_class__")) : Qnil;
}

VALUE refinements_place(VALUE refinement)
{
	return rb_attr_get(refinement, rb_intern("__defined_at__"));
}

void refinements_forget(void)
{
	known = Qfalse;
}

void refinements_method_added(VALUE module)
{
	VALUE class;

	if (!known || !RB_TYPE_P(module, T_MODULE))
		return;
	class = refinement_class();
	if (!NIL_P(class) && RTEST(rb_obj_is_kind_of(module, class)))
		refinements_forget();
}

static void look(void)
{
	VALUE class = refinement_class();

	known = NIL_P(class) ? rb_ary_new() : heap_list_all(class);
}

bool refinements_have(VALUE owner, VALUE name)
{
	VALUE arguments[] = {name, Qfalse};

	if (!known)
		look();
	for (long i = 0; i < RARRAY_LEN(known); i++) {
		VALUE refinement = rb_ary_entry(known, i);

		if (refinements_refined(refinement) == owner &&
		    (RTEST(builtin_call(BUILTIN_MODULE_METHOD_DEFINED, refinement, 2, arguments)) ||
		     RTEST(builtin_call(BUILTIN_MODULE_PRIVATE_METHOD_DEFINED, refinement, 2, arguments))))
			return true;
	}
	return false;
}
