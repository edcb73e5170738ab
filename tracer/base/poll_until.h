#ifndef RBPROBE_POLL_UNTIL_H
#define RBPROBE_POLL_UNTIL_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The one way in which rbprobe waits for descriptors: until one of them is ready, a signal comes, or clock_now_ns() has
 * reached wake_ns (past: looks and does not wait; UINT64_MAX: no such time). Who wants to hear of INT, TERM and HUP has
 * the descriptor of signals.h among them.
 *
 * True: some are ready, as their revents say. False: none is, and no revents are set.
 */
bool poll_until(struct pollfd *polled, size_t count, uint64_t wake_ns);

#endif
