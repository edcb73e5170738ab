#ifndef RBPROBE_CONSENT_H
#define RBPROBE_CONSENT_H

#include "engine.h"
#include "proto/command.h"
#include "proto/error.h"
#include "selector.h"

#include <stdbool.h>

/*
 * What the user must have agreed to: where engine hook has to be the whole one, the process stays slower. Job context, GVL
 * held.
 */

struct turn;

/* 0, or -EACCES and err, which names the methods of a trace command that only engine hook can observe. Raises, so that callers are under rb_protect. */
int consent_check(const struct command *command, struct turn *turn, struct error *err);

/* Whether the engine that was chosen for a method may be used with these flags of a trace command. May raise. */
bool consent_given(const struct engine *engine, const struct match *match, uint32_t flags);

#endif
