#ifndef RBPROBE_ONESHOT_LINES_H
#define RBPROBE_ONESHOT_LINES_H

#include <ruby.h>

#include <stdbool.h>

/*
 * Coverage.start(oneshot_lines: true). When a line runs first, the VM makes the instruction at its beginning one without events,
 * unless a global hook wants one of those that are left: targeted TracePoints are not asked for (rb_iseq_clear_event_flags() in
 * iseq.c, 2.7 to 4.1-dev). The call event of a method is at the instruction of its first line.
 *
 * So code that a targeted TracePoint watches is marked as if a global hook wanted its events. Only the VM's memory of that
 * changes: no instruction is rewritten, no hook is on. Context: job, or an event in which a line is armed. GVL held.
 */

/* Whether it is on. Raises nothing, calls no method. */
bool oneshot_lines_run(void);

/* Whether code can be kept from being forgotten. Where no Coverage runs, nothing is done, and the answer is false. May raise. */
bool oneshot_lines_ready(void);

/*
 * Finds out, once, where the VM has that memory. No hook is added but of events for threads and fibers. False: it was not found.
 * May raise.
 */
bool oneshot_lines_find(void);

/*
 * After a targeted TracePoint was enabled on the code (a RubyVM::InstructionSequence), where Coverage runs: marks it, and all
 * that is written in it. The code stays alive and where it is until oneshot_lines_release(), which has to be called before the
 * TracePoint is disabled, and leaves NULL. The last one that releases takes a mark away. NULL: there is nothing to keep. May
 * raise, unless oneshot_lines_ready() was called before.
 */
struct oneshot_kept *oneshot_lines_keep(VALUE code);
void oneshot_lines_release(struct oneshot_kept **kept);

/*
 * A global hook that came on for the first time makes the VM rewrite all code, and the marks are gone. So each event of the
 * TracePoint sets those of its code again: that of the call or the line comes before that of Coverage, which would clear the
 * instruction (vm_trace() in vm_insnhelper.c, 2.7 to 4.1-dev). Does next to nothing where they are there. Event context, also
 * in other Ractors: those that are there set the same bits of the same words.
 */
void oneshot_lines_mark_again(const struct oneshot_kept *kept);

/* The GC's mark phase. */
void oneshot_lines_mark(void);

#endif
