#ifndef RBPROBE_PROFILE_H
#define RBPROBE_PROFILE_H

/* A forked child has no profile: it is its parent's. Async-signal-safe. */
void profile_fork_child(void);

#endif
