/* Finding a `retry` in a method's instructions. See retry.h. */

#include "tracee/observe/retry.h"

#include "tracee/observe/probe.h"
#include "tracee/vm/aside.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/instruction_data.h"
#include "tracee/vm/method_definition.h"

#include <string.h>

#define TAG_RETRY 4 /* the operand of `throw` that a `retry` is compiled to */

static bool throws_retry(VALUE body)
{
	VALUE name = ID2SYM(rb_intern("throw"));

	for (long i = 0; i < instruction_length(body); i++) {
		VALUE instruction = instruction_element(body, i);

		if (instruction_element(instruction, 0) == name && instruction_element(instruction, 1) == INT2FIX(TAG_RETRY))
			return true;
	}
	return false;
}

static VALUE look(VALUE argument)
{
	struct probe *probe = (struct probe *)argument;
	VALUE method = builtin_own_method(probe->owner, probe->callee);
	VALUE iseq = method_definition_instructions(method);
	VALUE catches =
		NIL_P(iseq) ? Qnil : instruction_element(builtin_call0(BUILTIN_ISEQ_TO_A, iseq), INSTRUCTION_DATA_CATCH_TABLE);
	VALUE rescue = ID2SYM(rb_intern("rescue"));

	for (long i = 0; i < instruction_length(catches); i++) {
		VALUE entry = instruction_element(catches, i);

		if (instruction_element(entry, 0) == rescue &&
		    throws_retry(instruction_element(instruction_element(entry, 1), INSTRUCTION_DATA_BODY)))
			probe->retry = RETRY_POSSIBLE;
	}
	return Qnil;
}

bool retry_is_possible(struct probe *probe, int *jump)
{
	if (probe->retry == RETRY_NOT_KNOWN && !*jump) {
		*jump = aside_protect(look, (VALUE)probe);
		if (probe->retry == RETRY_NOT_KNOWN)
			probe->retry = RETRY_IMPOSSIBLE;
	}
	return probe->retry == RETRY_POSSIBLE;
}
