#ifndef RBPROBE_WATCHED_CODE_H
#define RBPROBE_WATCHED_CODE_H

#include "proto/error.h"
#include "tracee/vm/oneshot_lines.h"

#include <ruby.h>

#include <stdbool.h>
#include <stdint.h>

/*
 * Code with a targeted TracePoint on it: of engine target the code of methods, of lines that which has the line. Whoever has one
 * marks it for the GC. Job, or an event in which a line is armed; GVL held, where nothing else is said.
 */
struct watched_code {
	VALUE tracepoint, code;    /* the InstructionSequence */
	uintptr_t definition;      /* see targeted.h */
	struct oneshot_kept *kept; /* while the TracePoint is on */
};

bool watched_code_is_on(const struct watched_code *watched);
/*
 * After the TracePoint was enabled under rb_protect(), whose state failed is. 0, or -ENOTSUP with err where this Ruby gives no
 * events for the code; any other exception is raised again.
 */
int watched_code_begin(struct watched_code *watched, int failed, struct error *err);
/*
 * First of all in each event of the TracePoint; also in other Ractors, without their GVL: while there are any, no TracePoint is
 * disabled (compat_target_may_be_disabled()), and so nothing is freed.
 */
static inline void watched_code_event(const struct watched_code *watched)
{
	const struct oneshot_kept *kept = __atomic_load_n(&watched->kept, __ATOMIC_ACQUIRE);

	if (__builtin_expect(kept != NULL, 0))
		oneshot_lines_mark_again(kept);
}
/* Disables it, if that can be done now; whether it is off. Raises nothing but NoMemoryError. */
bool watched_code_end(struct watched_code *watched);
/* The same, while targeted_rest(). */
bool watched_code_end_at_rest(struct watched_code *watched);
/* Gives back what is kept for one whose TracePoint is off, whoever has turned it off. Calls no Ruby function. */
void watched_code_free(struct watched_code *watched);
/* In GC: pins both, as nobody but us knows where they are. */
void watched_code_mark(const struct watched_code *watched);

#endif
