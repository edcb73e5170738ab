#ifndef RBPROBE_TARGET_FILES_H
#define RBPROBE_TARGET_FILES_H

#include "tracer/process/target.h"

#include <stdbool.h>

/*
 * What the files say that a process executes and maps. The process chooses them, so a confined child reads them
 * (confined.h).
 */

/* 1: the program itself defines the VM's functions; 0: it does not; a negative errno: it cannot be looked at. */
int target_program_is_ruby(const struct target *target);

/* What the VM's file says: target->ruby_version, and target->abi where it is empty. Unchanged where it says nothing. */
void target_read_version(struct target *target);

/*
 * How many of these questions had no answer in time, or were not asked any more, as its user's files had taken too long
 * before.
 */
unsigned target_files_unread(void);

/* Whether the process finds the very file under that path that we find. */
bool target_sees_file(const struct target *target, const char *path);

#endif
