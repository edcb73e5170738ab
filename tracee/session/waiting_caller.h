#ifndef RBPROBE_TRACEE_WAITING_CALLER_H
#define RBPROBE_TRACEE_WAITING_CALLER_H

/*
 * Who made the system call that a thread of this process waits in: the VM for itself, the VM for others, or somebody else's code.
 * The thread has to stand still meanwhile; what is said of one that does not is wrong, and harms nothing. Without any lock, and
 * without the GVL; one native thread at a time.
 */

#include "tracee/session/unwind.h"

#include <stdbool.h>
#include <stdint.h>

#define CALLER_FUNCTIONS_MAX 5

/* What may have made a system call: functions of libc. 0: no such. */
typedef uintptr_t caller_functions[CALLER_FUNCTIONS_MAX];

struct caller {
	struct unwind_place place; /* in the first function outside of libc */
	uintptr_t called;          /* what that called, of libc; 0: not known */
};

enum caller_found {
	CALLER_UNKNOWN, /* nothing here tells: no tables and no return addresses, or a sanitizer's functions in between */
	CALLER_KNOWN,
	CALLER_OTHER, /* somebody else than the VM and its libraries, perhaps, or by more than a system call */
};

/* Where the VM and libc are. Takes the loader's lock, allocates nothing. Before all others; once is enough. */
void caller_init(void);

/* Whose call it is that stands at `pc`, with that stack pointer, and was made by one of these functions. */
enum caller_found caller_find(uintptr_t pc, uintptr_t sp, const caller_functions functions, struct caller *caller);

/* Whether the VM called there, and waits for itself. `has_timeout`: what it waits by may end for its time being over. */
bool caller_is_vm(const struct caller *caller);
bool caller_waits_for_itself(const struct caller *caller, bool has_timeout);

/* Whether Ruby's socket library called there. */
bool caller_is_socket_library(const struct caller *caller);

/* Where the function of the VM begins that has this address in it. 0: there is none. */
uintptr_t caller_vm_function(uintptr_t address);

#endif
