#ifndef RBPROBE_TARGET_MAPS_H
#define RBPROBE_TARGET_MAPS_H

#include "tracer/process/target.h"

/*
 * Fills in what the memory map shows, and target->readable. A map may have as many lines as the system allows, and a process
 * may be one of thousands that share it: for TARGET_VERSION, which is for lists, the maps of a user's processes are read for
 * some seconds in all. Then the rest of that user's are not readable.
 */
void target_maps_read(struct target *target, enum target_detail detail);

/*
 * "…/lib/ruby/3.1.0/…" names the ABI, as RbConfig::CONFIG["ruby_version"] does, also that of a development version (4.1.0+4),
 * which the number alone does not. Does nothing where it is known.
 */
void target_abi_from_path(struct target *target, const char *path);

/* How many were not read for that reason; *user: whose was the first. */
unsigned target_maps_unread(uid_t *user);

#endif
