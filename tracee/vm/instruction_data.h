#ifndef RBPROBE_INSTRUCTION_DATA_H
#define RBPROBE_INSTRUCTION_DATA_H

#include <ruby.h>

/*
 * Reading what RubyVM::InstructionSequence#to_a returns. Ruby does not promise its form, so what is not there, or of another
 * type, is nil. GVL held; allocates nothing.
 */

/* Where it has what is looked at; the same in 2.7 to 4.1. */
#define INSTRUCTION_DATA_TYPE 9
#define INSTRUCTION_DATA_LOCALS 10
#define INSTRUCTION_DATA_CATCH_TABLE 12
#define INSTRUCTION_DATA_BODY 13

static inline VALUE instruction_element(VALUE array, long index)
{
	return RB_TYPE_P(array, T_ARRAY) ? rb_ary_entry(array, index) : Qnil;
}

static inline long instruction_length(VALUE array)
{
	return RB_TYPE_P(array, T_ARRAY) ? RARRAY_LEN(array) : 0;
}

/* Where an Array has that very object; -1: nowhere. rb_ary_includes() asks `==`, which the application may have overridden. */
static inline long instruction_index(VALUE array, VALUE object)
{
	for (long i = 0; i < instruction_length(array); i++)
		if (rb_ary_entry(array, i) == object)
			return i;
	return -1;
}

static inline void instruction_remove(VALUE array, VALUE object)
{
	long index = instruction_index(array, object);

	if (index >= 0)
		rb_ary_delete_at(array, index);
}

#endif
