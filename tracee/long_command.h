#ifndef RBPROBE_LONG_COMMAND_H
#define RBPROBE_LONG_COMMAND_H

#include "proto/chunk.h"
#include "proto/error.h"
#include "tracee/session/session.h"

#include <stdbool.h>

/*
 * Commands that look for methods and arm them: TRACE, METHODS. Of what they do, a job does as much as the thread in which it runs
 * may stand still for; then it ends, and another goes on. They are answered when all is done. Job context.
 */

/* Begins one that was decoded before; later jobs do the work, and this one may. 0, or negative and err: it did not begin. */
int long_command_begin(struct session *session, const struct assembled_command *assembled, struct error *err);

/* Does a part of what there is, if it is time for that. */
void long_commands_go_on(void);

/* Whether there is more to do, for which the bell has to ring. */
bool long_commands_are_left(void);
/* Whether a session's command is under way. */
bool long_command_of(const struct session *session);

/* What a session has of them: a part of each. */
extern const struct session_part long_command_part;

#endif
