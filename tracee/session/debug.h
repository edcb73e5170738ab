#ifndef RBPROBE_TRACEE_DEBUG_H
#define RBPROBE_TRACEE_DEBUG_H

#include "proto/debug_domains.h"
#include "tracee/session/session.h"

#include <stdarg.h>

/*
 * Debug lines for the clients that asked for them in their ATTACH: the extension itself prints nothing. Context: where
 * session_note() may be called, with the GVL; never an event or a signal handler. The texts are for people who debug rbprobe, and
 * no interface.
 */

/* One line for one session. Arguments are evaluated only where its client wants the domain. session may be NULL: nobody. */
#define debug(session, domain, ...)                                                                                              \
	((session) && ((session)->debug & (uint32_t)(domain)) ? debug_send((session), (domain), __VA_ARGS__) : (void)0)
void debug_send(struct session *session, enum debug_domain domain, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* One line for all sessions, also those that have been detached and not handed to their writers yet: of what belongs to none. */
void debug_all(enum debug_domain domain, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
