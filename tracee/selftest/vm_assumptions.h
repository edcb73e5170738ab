#ifndef RBPROBE_VM_ASSUMPTIONS_H
#define RBPROBE_VM_ASSUMPTIONS_H

#include "tracee/base/text.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * All that this extension takes for true of the VM it is loaded into although no API of Ruby's promises it, in one table. Each
 * fact is found out and tried in the process at hand by the module that relies on it, before it does; what is not found true is
 * not relied on. Here they are asked one by one, for `rbprobe selftest`.
 */

enum assumption_state {
	FACT_OK,
	FACT_FAILED,
	FACT_NOT_APPLICABLE, /* nothing relies on it in this process */
	FACT_NOT_TRIED,      /* it cannot be found out now, or not without harm */
	FACT_STATES,
};

struct assumption {
	const char *name;    /* group.fact */
	const char *what;    /* that is taken for true */
	const char *without; /* what is refused where it is not, and what is done instead */
	const char *seen;    /* on these versions of Ruby */
	/*
	 * Asks the module, which finds out the first time. Says in reason why it is not FACT_OK, and may say something even then.
	 * May raise.
	 */
	enum assumption_state (*check)(struct text *reason);
	/* Whether that is known already; NULL: no trace relies on it. */
	bool (*is_known)(void);
};

/* Those that stand on others are behind them. */
extern const struct assumption facts[];
extern const size_t assumptions_count;

/* As the answer to a client has it. */
const char *assumption_state_name(enum assumption_state state);

/*
 * Tries a fact; what it raises is a failure. Job context, GVL held, as by arming_protect(): scratch methods are defined and
 * called. None of the application's code runs for it, and no hook of its own hears of it.
 */
enum assumption_state assumption_try(const struct assumption *fact, struct text *reason);

/*
 * Names those that traces rely on and that were found not to hold, with commas between them. Tries nothing that was not tried
 * before. As assumption_try().
 */
void assumptions_failed(struct text *names);

#endif
