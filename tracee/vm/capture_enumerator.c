/* Enumerators, lazy ones, and arithmetic sequences. See capture_parts.h. */

#include "tracee/vm/capture_parts.h"

#include <ruby.h>

/* What an Enumerator's data begin with. No function of the C API tells; on 2.7 to 4.1 it is so, and tried once in a process. */
struct enumerator_start {
	VALUE object; /* Qundef: not initialized */
	ID method;
};

static const struct enumerator_start *enumerator_start(VALUE enumerator)
{
	return rb_check_typeddata(enumerator, RTYPEDDATA_TYPE(enumerator));
}

static bool enumerator_start_is_known(void)
{
	static enum { UNKNOWN, YES, NO } known; /* under the GVL */
	ID method = rb_intern("__rbprobe_each");
	VALUE enumerator;

	if (known != UNKNOWN)
		return known == YES;
	enumerator = rb_enumeratorize(rb_cObject, ID2SYM(method), 0, NULL);
	known = capture_is_data(enumerator, "enumerator") && enumerator_start(enumerator)->object == rb_cObject &&
	                        enumerator_start(enumerator)->method == method
	                ? YES
	                : NO;
	RB_GC_GUARD(enumerator);
	return known == YES;
}

/* Whose method it goes through, and which. False: nobody knows. */
static bool find_plain(VALUE enumerator, VALUE *receiver, VALUE *method)
{
	struct enumerator_start start;

	if (!enumerator_start_is_known())
		return false;
	start = *enumerator_start(enumerator);
	if (!start.object || start.object == Qundef)
		return false;
	*receiver = start.object;
	*method = ID2SYM(start.method);
	return true;
}

/*
 * Where it was made from another lazy one, its data are about a generator of its own, which says nothing. What they are not
 * about, it keeps in variables of Ruby's, which have no "@". A method of false: none.
 */
static bool find_lazy(VALUE lazy, VALUE *receiver, VALUE *method)
{
	VALUE made_from = rb_attr_get(lazy, rb_intern("receiver")), made_by = rb_attr_get(lazy, rb_intern("method"));

	if (!find_plain(lazy, receiver, method) && NIL_P(made_from))
		return false;
	if (!NIL_P(made_from)) {
		*receiver = made_from;
	} else if (capture_is_kind_of_named(*receiver, "Enumerator::Generator")) {
		*receiver = Qundef;
		*method = Qfalse;
	}
	if (!NIL_P(made_by))
		*method = made_by;
	return true;
}

static void add_source(struct render *render, VALUE receiver, VALUE method)
{
	text_append_cstr(render->text, ": ");
	if (receiver == Qundef)
		text_append_cstr(render->text, "...");
	else
		capture_render(render, receiver);
	if (!RB_SYMBOL_P(method))
		return;
	text_append_cstr(render->text, ":");
	capture_bytes(render->text, rb_sym2str(method));
}

#ifdef HAVE_RB_ARITHMETIC_SEQUENCE_EXTRACT
/* 1.step(10, 3), (1..10) % 3 and so on are the same: ((1..10).step(3)). */
static bool add_sequence(struct render *outer, VALUE value)
{
	rb_arithmetic_sequence_components_t parts;
	struct render render;

	/* Of anything else it would ask the application for begin and end. */
	if (!capture_is_kind_of_named(value, "Enumerator::ArithmeticSequence"))
		return false;
	if (!capture_descend(&render, outer) || !rb_arithmetic_sequence_extract(value, &parts))
		return false;
	text_append_cstr(render.text, "((");
	capture_render(&render, parts.begin);
	text_append_cstr(render.text, parts.exclude_end ? "..." : "..");
	if (!NIL_P(parts.end))
		capture_render(&render, parts.end);
	text_append_cstr(render.text, ").step(");
	capture_render(&render, parts.step);
	text_append_cstr(render.text, "))");
	return true;
}
#else
static bool add_sequence(struct render *outer, VALUE value)
{
	(void)outer;
	(void)value;
	return false;
}
#endif

/* Of a subclass of the application's nobody knows what its data are about. */
VALUE capture_show_enumerator(VALUE argument)
{
	const struct capture_attempt *attempt = (const struct capture_attempt *)argument;
	bool (*find)(VALUE, VALUE *, VALUE *) = NULL;
	VALUE receiver = Qnil, method = Qnil;
	struct render render;

	if (rb_obj_class(attempt->value) == rb_cEnumerator)
		find = find_plain;
	else if (capture_is_kind_of_named(attempt->value, "Enumerator::Lazy"))
		find = find_lazy;
	else if (add_sequence(attempt->render, attempt->value))
		return Qnil;
	capture_begin(attempt->render->text, attempt->value);
	if (find && capture_descend(&render, attempt->render) && find(attempt->value, &receiver, &method))
		add_source(&render, receiver, method);
	text_append_cstr(attempt->render->text, ">");
	RB_GC_GUARD(receiver);
	return Qnil;
}
