/* Values in the making. See observe_parts.h. Context: event, GVL held. */

#include "tracee/observe/observe_parts.h"

#include "tracee/base/ticks.h"
#include "tracee/observe/overhead.h"
#include "tracee/session/session.h"
#include "tracee/vm/fiber.h"
#include "tracee/vm/quiet.h"

#include <stdlib.h>

void making_begin(struct making *making, struct session *session, struct fiber_state *fiber, int jump, uint64_t now, bool in_hook)
{
	making->session = session;
	making->fiber = fiber;
	fiber->suppress_depth++;
	making->quiet = in_hook ? (struct quiet){.place = NULL} : quiet_begin();
	making->size = 0;
	making->jump = jump;
	making->began = now;
	making->ended = 0;
	if (session->scratch_used) {
		making->buffer = malloc(VALUES_SIZE_MAX);
	} else {
		session->scratch_used = true;
		making->buffer = session->scratch;
	}
	fiber->stacks[session->slot].values = making->buffer;
}

void making_end(struct making *making)
{
	struct session *session = making->session;

	overhead.values_ticks += (making->ended ? making->ended : ticks_now()) - making->began;
	making->fiber->suppress_depth--;
	making->fiber->stacks[session->slot].values = NULL;
	making->fiber->stacks[session->slot].starting = false;
	quiet_end(making->quiet);
	if (making->buffer == session->scratch)
		session->scratch_used = false;
	else
		free(making->buffer);
}
