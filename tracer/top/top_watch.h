#ifndef RBPROBE_TOP_WATCH_H
#define RBPROBE_TOP_WATCH_H

#include "tracer/cli/options.h"
#include "tracer/top/top_pane.h"
#include "tracer/top/top_poll.h"
#include "tracer/top/top_session.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * A closer look at one method, in sessions of its own beside those that count: who calls it, or its calls as they come. Few
 * calls a second are sent, so that the processes are not held up.
 */

#define TOP_WATCH_RATE 20u /* calls a second of each process */
/*
 * Where parts of all calls are shown, one of so many is taken that there are about as many as that. Of the first ones of each
 * second most would have the same callers: they are those of one request. So this is the limit should they become more.
 */
#define TOP_CALLERS_RATE 200u

struct top_watch;

/*
 * kind: callers or follow. selector: of the method. rate: its calls a second, in each process; 0: not known. options: its trace
 * options are those of the counting sessions.
 */
struct top_watch *top_watch_open(enum top_pane_kind kind, const char *selector, double rate, const pid_t *pids, size_t count,
                                 const struct options *options);

void top_watch_collect(const struct top_watch *watch, struct top_poll *poll);
void top_watch_step(struct top_watch *watch, struct top_poll *poll, uint64_t now_ns);
void top_watch_excuse(struct top_watch *watch, uint64_t busy_ns);
/* Brings what has come into the pane. True: something has. */
bool top_watch_show(struct top_watch *watch, struct top_pane *pane, uint64_t now_ns);

/* Lets go of the processes; then it is to be stepped until it is over. */
void top_watch_stop(struct top_watch *watch);
bool top_watch_is_over(const struct top_watch *watch);
/* At any time; NULL: nothing. */
void top_watch_free(struct top_watch *watch);

#endif
