/* Lines that Coverage counts once. See oneshot_lines.h. */

#include "tracee/vm/oneshot_lines.h"

#include <ruby.h>

#ifdef HAVE_RB_GET_COVERAGES

/* Exported for Ruby's own library `coverage`, in no header. A Hash, or false. */
VALUE rb_get_coverages(void);

struct looked_through {
	bool has_lines, counts_each;
};

/*
 * Of each file an Array, whose first element is the lines: of oneshot ones the numbers of those that have run; else one element
 * for each line, which is nil where there is no code.
 */
static int look_through(VALUE path, VALUE coverage, VALUE argument)
{
	struct looked_through *looked = (struct looked_through *)argument;
	VALUE lines;

	(void)path;
	if (!RB_TYPE_P(coverage, T_ARRAY) || RARRAY_LEN(coverage) == 0)
		return ST_CONTINUE;
	lines = RARRAY_AREF(coverage, 0);
	if (!RB_TYPE_P(lines, T_ARRAY))
		return ST_CONTINUE;
	looked->has_lines = true;
	for (long i = 0; i < RARRAY_LEN(lines) && !looked->counts_each; i++)
		looked->counts_each = NIL_P(RARRAY_AREF(lines, i));
	return looked->counts_each ? ST_STOP : ST_CONTINUE;
}

bool oneshot_lines_run(void)
{
	struct looked_through looked = {false, false};
	VALUE files = rb_get_coverages();

	if (RB_TYPE_P(files, T_HASH))
		rb_hash_foreach(files, look_through, (VALUE)&looked);
	return looked.has_lines && !looked.counts_each;
}

#else

bool oneshot_lines_run(void)
{
	return false;
}

#endif
