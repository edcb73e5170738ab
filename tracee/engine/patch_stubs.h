#ifndef RBPROBE_PATCH_STUBS_H
#define RBPROBE_PATCH_STUBS_H

#include "tracee/observe/probe_set.h"

#include <ruby.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The functions that take the place of methods' C functions. Each is a few instructions of its own in the text segment (nothing
 * is generated at run time, so no memory has to be writable and executable) that know their slot, and pass it on with the call's
 * arguments to patch_enter().
 *
 * A slot belongs to one C function with one arity for as long as the process lives: whoever still holds a stub's address, a call
 * under way or compiled code, reaches the right function. Slots are handed out under the GVL; what a slot is set up with does not
 * change any more.
 */

#define PATCH_SLOTS_MAX 16384u

/* A C function of any signature. */
typedef void (*patch_function)(void);

struct patch_slot {
	/* Set once. */
	_Alignas(64) void (*entry)(void); /* used by the stub */
	patch_function function;          /* the original */
	VALUE (*call)(patch_function function, VALUE receiver, int argc, const VALUE *argv);
	int argc;  /* the stub's, where that is fixed */
	int arity; /* as given to rb_define_method */

	/* Changes under the GVL. */
	struct probe_set probes; /* that observe a method with this function */

	_Atomic uint32_t foreign_calls; /* in other Ractors */
};

/* False where nobody has written the stubs for this kind of processor. */
bool patch_stubs_available(void);

/* The slot of a function, which may also be the stub of one; NULL when all are taken. GVL. */
struct patch_slot *patch_slot_of(uintptr_t function, int arity);
uintptr_t patch_stub_of(const struct patch_slot *slot);
/* Whose stub a function is; NULL for any other. */
struct patch_slot *patch_slot_of_stub(uintptr_t function);

/*
 * Every call of a stub. Event context of its own kind: in place of the C function, with the arguments as the function's invoker
 * would take them (arity -2: one, the Array). Returns what the original returns, and leaves as it leaves.
 */
VALUE patch_enter(struct patch_slot *slot, VALUE receiver, int argc, const VALUE *argv);

#endif
