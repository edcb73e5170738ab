#ifndef RBPROBE_NAMES_H
#define RBPROBE_NAMES_H

/* Names by which the two sides find each other outside the protocol proper. */

#define RBPROBE_VERSION "0.1.0"

/* File name of the extension; a process that maps it has loaded it. */
#define EXTENSION_FILE "rbprobe.so"

/*
 * Set by `rbprobe exec` to the PID of the process it starts: the extension, while it is being required in just that
 * process, opens its queue at once and waits there until a client has attached and armed, at most WAIT_MS of EXEC_WAIT_ENV.
 */
#define EXEC_ENV "RBPROBE_EXEC"
#define EXEC_WAIT_ENV "RBPROBE_EXEC_WAIT_MS"

/* The private directory of a client's socket, in the target's /tmp, is this, the client's PID, '-' and a random part. */
#define SOCKET_DIRECTORY_PREFIX "rbprobe-"

#endif
