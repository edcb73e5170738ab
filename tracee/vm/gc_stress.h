#ifndef RBPROBE_GC_STRESS_H
#define RBPROBE_GC_STRESS_H

#include <stdbool.h>

/*
 * GC.stress of the application's makes each allocation a full garbage collection: a command that allocates a thousand
 * objects then takes half a minute, in which the process does nothing else. So the collector is disabled while a job works
 * where GC.stress is on. Context: job with interrupts held back (GC.stress is written in Ruby from 3.0 on, and lets them in), GVL
 * held, main Ractor. Raises nothing.
 *
 * Calls nest, and threads may be at it together: the last to end enables the collector. GC.stress keeps the application's
 * value. An application that calls GC.disable in another thread meanwhile gets true, and the collector is enabled when we end.
 */

void gc_stress_off(void);
void gc_stress_back(void);

/* Around handing over the GVL within that: stress has its effect again, unless other threads are at work of ours. What the
 * first returns is for the second. */
unsigned gc_stress_let_run(void);
void gc_stress_let_run_end(unsigned own);

/* In a forked child: work of other threads of ours is over, and did not come to its end. Async-signal-safe. */
void gc_stress_fork_child(void);

#endif
