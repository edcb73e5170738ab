#ifndef RBPROBE_FOREIGN_HOOKS_H
#define RBPROBE_FOREIGN_HOOKS_H

#include <ruby.h>
#include <stdbool.h>

/*
 * Whether hooks of the application's own are on. Trials of ours that need events wait until they are off: the application is
 * neither to hear of our calls, nor to miss any of its own. The VM's list of hooks is read, never written. Job context.
 */

/* The events that a trial fires. */
#define FOREIGN_HOOKS_TRIAL                                                                                                      \
	(RUBY_EVENT_CALL | RUBY_EVENT_RETURN | RUBY_EVENT_C_CALL | RUBY_EVENT_C_RETURN | RUBY_EVENT_B_CALL |                     \
	 RUBY_EVENT_B_RETURN | RUBY_EVENT_LINE)
#define FOREIGN_HOOKS_WHY                                                                                                        \
	"hooks of the application's own are on (TracePoint, set_trace_func, Coverage), which would hear of the trial"

/*
 * Whether a global hook is on for any of these events: also one of another session's trace. False where the list is not known.
 * May raise.
 */
bool foreign_hooks_on(rb_event_flag_t events);

/* Whether any thread is in a global hook just now; on Rubies up to 3.1 only. False where the list has not been looked for. */
bool foreign_hooks_run(void);

/* Whether the list is known. May raise. */
bool foreign_hooks_known(void);

#endif
