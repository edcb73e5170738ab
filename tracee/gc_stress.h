#ifndef RBPROBE_GC_STRESS_H
#define RBPROBE_GC_STRESS_H

#include <stdbool.h>

/*
 * GC.stress of the application's makes each allocation a full garbage collection: a command that allocates a thousand objects then takes half a minute, in which
 * the process does nothing else. So it is off while we work. Context: job and event, GVL held, main Ractor. Raises nothing, allocates nothing where it is off.
 *
 * Calls nest, and threads may be at it together: the last to end gives the application its value back. What the application sets meanwhile, in another
 * thread, stays. It may see nil there.
 */

void gc_stress_off(void);
void gc_stress_back(void);

/* Around handing over the GVL within that: it is on again, unless other threads are at work of ours. What the first returns is for the second. */
unsigned gc_stress_let_run(void);
void gc_stress_let_run_end(unsigned own);

/* In a forked child: work of other threads of ours is over, and did not come to its end. Async-signal-safe. */
void gc_stress_fork_child(void);
/* Whether a job has to give it back therefore. */
bool gc_stress_fork_left(void);

#endif
