#ifndef RBPROBE_LAUNCH_H
#define RBPROBE_LAUNCH_H

#include "proto/error.h"

#include <stdint.h>
#include <sys/types.h>

/*
 * Starts a command with an environment in which its Ruby loads the extension and waits, at most wait_ms, until it is
 * armed. The command is looked for in PATH; `extensions` is extension_directory()'s. Returns its PID; a negative code
 * with err where it cannot be run.
 */
pid_t launch(char **command, const char *extensions, uint64_t wait_ms, struct error *err);

/* In a child before its exec: its Ruby will require the extension. -1 with errno where there is no memory. */
int launch_require(const char *extensions);

#endif
