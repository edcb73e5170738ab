#ifndef RBPROBE_ON_ATTACH_H
#define RBPROBE_ON_ATTACH_H

#include <ruby.h>

/* Blocks of the application's that hear of clients that attach. GVL held. */

/* client: the class of what they are given, a Struct of pid, uid and command. In Init; may raise. */
void on_attach_init(VALUE client);
/* One more. May raise. */
void on_attach_add(VALUE block);

/* In the child of a fork. Async-signal-safe. */
void on_attach_fork_child(void);

#endif
