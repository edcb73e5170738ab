#ifndef RBPROBE_CONSENT_H
#define RBPROBE_CONSENT_H

#include "engine.h"
#include "proto/command.h"
#include "proto/error.h"

#include <stdbool.h>

/*
 * What the user must have agreed to before engine hook is used: it slows the whole process, and that stays when it is removed. Job context, GVL
 * held.
 */

/* 0, or -EACCES and err, which names the methods of a trace command that only engine hook can observe. Raises, so that callers are under rb_protect. */
int consent_check(const struct command *command, struct error *err);

/* Whether the engine that was chosen may be used with these flags of a trace command. */
bool consent_given(const struct engine *engine, uint32_t flags);

#endif
