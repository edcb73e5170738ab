#ifndef RBPROBE_PERMISSIONS_H
#define RBPROBE_PERMISSIONS_H

#include "proto/command.h"
#include "proto/error.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * What the application lets rbprobe do in its process (`Rbprobe.allow=`), whoever asks. Everything, until it says otherwise.
 * Knows no Ruby. Reading: any context, also signal handlers. Forked children have what their parent had.
 */
enum permission {
	PERMIT_TRACE,     /* calls: trace, stat, top, methods */
	PERMIT_EVAL,      /* code of the client's: eval, console, expressions that are more than a variable, --inspect */
	PERMIT_BACKTRACE, /* where threads are */
	PERMIT_HEAP,      /* dumps of the heap */
	PERMIT_MEMORY,    /* figures about memory */
	PERMIT_FORK,      /* frozen copies */
	PERMIT_SELFTEST,
	PERMISSION_COUNT,
};

#define PERMISSIONS_ALL ((1u << PERMISSION_COUNT) - 1)

/* "trace" */
const char *permission_name(enum permission permission);

uint32_t permissions(void);
void permissions_set(uint32_t mask);
/* Whether they have been set since this was asked last. Job. */
bool permissions_take_change(void);

static inline bool permission_is_given(enum permission permission)
{
	return permissions() & (1u << permission);
}

/*
 * Which ones the command needs, as bits. A word in an expression is a variable's name, or, where there is no such variable, a
 * call of a method, which needs PERMIT_EVAL: `strict` takes it for that.
 */
uint32_t permissions_needed(const struct command *command, bool strict);

/* 0; or -EPERM and err: the application does not allow all of these. */
int permissions_check(uint32_t needed, struct error *err);

#endif
