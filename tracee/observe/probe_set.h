#ifndef RBPROBE_PROBE_SET_H
#define RBPROBE_PROBE_SET_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The probes that what fires an event serves. Nearly always it is one, which is found without another look into memory. Changes
 * in jobs, under the GVL; read in events.
 */

struct probe;

struct probe_set {
	struct probe *first; /* NULL: empty */
	uint32_t count;
	struct probe **all; /* owned */
};

/* Puts the probe into it, unless it is there. False without memory: then nothing has changed. */
bool probe_set_add(struct probe_set *set, struct probe *probe);
/* Takes it out, if it is there. An empty set owns nothing. */
void probe_set_remove(struct probe_set *set, const struct probe *probe);

#endif
