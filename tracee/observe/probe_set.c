/* The probes of one place that fires events. See probe_set.h. Context: job, GVL held. */

#include "tracee/observe/probe_set.h"

#include <stdlib.h>

static uint32_t position(const struct probe_set *set, const struct probe *probe)
{
	uint32_t i = 0;

	while (i < set->count && set->all[i] != probe)
		i++;
	return i;
}

bool probe_set_add(struct probe_set *set, struct probe *probe)
{
	struct probe **all;

	if (position(set, probe) < set->count)
		return true;
	all = realloc(set->all, (set->count + 1) * sizeof(struct probe *));
	if (!all)
		return false;
	set->all = all;
	set->all[set->count++] = probe;
	set->first = all[0];
	return true;
}

void probe_set_remove(struct probe_set *set, const struct probe *probe)
{
	uint32_t at = position(set, probe);

	if (at == set->count)
		return;
	set->all[at] = set->all[--set->count];
	set->first = set->all[0];
	if (set->count > 0)
		return;
	free(set->all);
	set->all = NULL;
	set->first = NULL;
}
