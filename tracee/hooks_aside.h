#ifndef RBPROBE_HOOKS_ASIDE_H
#define RBPROBE_HOOKS_ASIDE_H

#include <ruby.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * For trials of ours that need events: the application's global hooks (TracePoints without a target, set_trace_func) are taken out of the VM's list until
 * hooks_back(), and hear nothing. Job context; between the two no hook is added or removed, and it takes some 100 us.
 */

#define HOOKS_ASIDE_MAX 32

/* On the machine stack only: what the hooks keep alive is found there by the GC, which does not look at hooks outside of the list. */
struct hooks_aside {
	uintptr_t *link; /* NULL: nothing was taken out */
	uintptr_t first;
	VALUE data[HOOKS_ASIDE_MAX];
};

/* All but the last `own` that were added, which are ours. Where the list is not known, or is too long, all hooks stay. May raise. */
void hooks_put_aside(struct hooks_aside *aside, unsigned own);
/* Whether the list is known. As above. */
bool hooks_list_known(void);
void hooks_back(struct hooks_aside *aside);

#endif
