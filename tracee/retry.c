/* Finding a `retry` in a method's instructions. See retry.h. */

#include "retry.h"

#include "core.h"
#include "definition.h"
#include "selection.h"

#include <string.h>

/* Where ISeq#to_a has what is looked at; the same in 2.7 to 4.1. */
#define DATA_CATCH_TABLE 12
#define DATA_BODY 13

#define TAG_RETRY 4 /* the operand of `throw` that a `retry` is compiled to */

static VALUE element(VALUE array, long index)
{
	return RB_TYPE_P(array, T_ARRAY) ? rb_ary_entry(array, index) : Qnil;
}

static long length(VALUE array)
{
	return RB_TYPE_P(array, T_ARRAY) ? RARRAY_LEN(array) : 0;
}

static bool throws_retry(VALUE body)
{
	VALUE name = ID2SYM(rb_intern("throw"));

	for (long i = 0; i < length(body); i++) {
		VALUE instruction = element(body, i);

		if (element(instruction, 0) == name && element(instruction, 1) == INT2FIX(TAG_RETRY))
			return true;
	}
	return false;
}

static VALUE has_retry(VALUE argument)
{
	const struct probe *probe = (const struct probe *)argument;
	VALUE method = core_call(CORE_MODULE_INSTANCE_METHOD, probe->owner, 1, &probe->callee);
	VALUE iseq = definition_instructions(method);
	VALUE catches = NIL_P(iseq) ? Qnil : element(core_call0(CORE_ISEQ_TO_A, iseq), DATA_CATCH_TABLE);
	VALUE rescue = ID2SYM(rb_intern("rescue"));

	for (long i = 0; i < length(catches); i++) {
		VALUE entry = element(catches, i);

		if (element(entry, 0) == rescue && throws_retry(element(element(entry, 1), DATA_BODY)))
			return Qtrue;
	}
	return Qfalse;
}

bool retry_is_possible(struct probe *probe)
{
	int failed = 0;
	VALUE found;

	if (probe->retry == RETRY_NOT_KNOWN) {
		found = rb_protect(has_retry, (VALUE)probe, &failed);
		if (failed)
			rb_set_errinfo(Qnil);
		probe->retry = !failed && RTEST(found) ? RETRY_POSSIBLE : RETRY_IMPOSSIBLE;
	}
	return probe->retry == RETRY_POSSIBLE;
}
