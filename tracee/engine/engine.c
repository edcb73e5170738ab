/* Choosing an engine. See engine.h. */

#include "tracee/engine/engine.h"

/* Cheapest first. */
static const struct engine *const engines[] = {&engine_target, &engine_patch, &engine_hook};

const struct engine *engine_choose(enum engine_id wanted, const struct match *match, struct text *reason)
{
	for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++) {
		if (wanted != ENGINE_AUTO && wanted != engines[i]->id)
			continue;
		if (engines[i]->can(match, reason))
			return engines[i];
	}
	return NULL;
}
