#ifndef RBPROBE_ATTACH_PARTS_H
#define RBPROBE_ATTACH_PARTS_H

#include "tracer/attach/attach.h"

/* What attach.c, attach_open.c, attach_send.c and attach_end.c share. */

#define LOOK_INTERVAL_MIN_NS (50 * NS_PER_US)
#define RING_INTERVAL_MIN_NS (2 * NS_PER_MS)
#define START_LOOK_INTERVAL_NS (250 * NS_PER_MS)

/* Also one that is not waited for yet. */
bool attachment_process_has_ended(const struct attachment *attachment);
/* Says so: -ESRCH with err. */
int attachment_has_ended(const struct attachment *attachment, struct error *err);

/* Nothing yet, of no process. */
void attachment_init(struct attachment *attachment, uint64_t timeout_ns);

/* Makes a socket where the process can reach it, and the commands that name it. */
int attachment_address(struct attachment *attachment, struct error *err);

#endif
