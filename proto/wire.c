/* Names of the protocol's numbers, for people. */

#include "proto/wire.h"

static const char *const ending_names[ENDING_COUNT] = {
	[ENDING_RETURNED] = "returned", [ENDING_RAISED] = "raised",   [ENDING_THROWN] = "thrown",
	[ENDING_KILLED] = "killed",     [ENDING_UNKNOWN] = "unknown",
};

static const char *const engine_names[ENGINE_COUNT] = {
	[ENGINE_AUTO] = "auto", [ENGINE_TARGET] = "target", [ENGINE_HOOK] = "hook",
	[ENGINE_NONE] = "none", [ENGINE_PATCH] = "patch",
};

const char *ending_name(enum ending ending)
{
	return (unsigned)ending < ENDING_COUNT ? ending_names[ending] : "unknown";
}

const char *engine_name(enum engine_id engine)
{
	return (unsigned)engine < ENGINE_COUNT ? engine_names[engine] : "none";
}
