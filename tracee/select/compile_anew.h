#ifndef RBPROBE_COMPILE_ANEW_H
#define RBPROBE_COMPILE_ANEW_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Code that YJIT left to the interpreter while it was traced is to be compiled again. That makes YJIT drop all that it has
 * compiled (compat_compile_anew()), which takes a process some 50 ms. A forked child may be over sooner than that is worth it:
 * there it waits for COMPILE_LATER_MS. Until then such methods are interpreted there.
 *
 * Job context, GVL held, where nothing else is said.
 */

#define COMPILE_LATER_MS 5000u

/* Now, if this is YJIT's; what it raises is dropped. */
void compile_anew(void);
/* Of a child whose parent was traced. */
void compile_anew_later(void);
/* It waits; for so many milliseconds yet. */
bool compile_anew_waits(void);
unsigned compile_anew_in_ms(void);
/* Whether it was due, and has been done. */
bool compile_anew_if_due(void);
/* A child of such a child waits anew. In fork()'s child: no Ruby call. */
void compile_anew_fork_child(void);

#endif
