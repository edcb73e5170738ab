/* Code with a targeted TracePoint on it. See watched_code.h. */

#include "tracee/engine/watched_code.h"

#include "tracee/vm/exception_drop.h"
#include "tracee/vm/targeted.h"

#include <errno.h>
#include <ruby/debug.h>

bool watched_code_is_on(const struct watched_code *watched)
{
	return RTEST(watched->tracepoint) && RTEST(rb_tracepoint_enabled_p(watched->tracepoint));
}

int watched_code_begin(struct watched_code *watched, int failed, struct error *err)
{
	if (!failed) {
		__atomic_store_n(&watched->kept, oneshot_lines_keep(watched->code), __ATOMIC_RELEASE);
		return 0;
	}
	if (!RTEST(rb_obj_is_kind_of(rb_errinfo(), rb_eArgError)))
		rb_jump_tag(failed);
	exception_drop(Qnil);
	return error_set(err, -ENOTSUP, "this Ruby gives no events for it");
}

bool watched_code_end(struct watched_code *watched)
{
	return !watched_code_is_on(watched) || (targeted_rest() && watched_code_end_at_rest(watched));
}

bool watched_code_end_at_rest(struct watched_code *watched)
{
	if (!watched_code_is_on(watched))
		return true;
	if (!targeted_may_be_disabled(watched->definition, watched->tracepoint))
		return false;
	oneshot_lines_release(&watched->kept);
	targeted_disable(watched->definition, watched->tracepoint);
	return !watched_code_is_on(watched);
}

void watched_code_free(struct watched_code *watched)
{
	oneshot_lines_release(&watched->kept);
}

void watched_code_mark(const struct watched_code *watched)
{
	rb_gc_mark(watched->tracepoint);
	rb_gc_mark(watched->code);
}
