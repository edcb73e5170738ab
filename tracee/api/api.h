#ifndef RBPROBE_API_H
#define RBPROBE_API_H

/*
 * The module Rbprobe: what the application can say and ask. It exists where the application has required the extension, and not
 * where a client has loaded it: then nothing of the application's changes.
 */

/* Defines it; again does no harm. In Init, by a require; may raise. */
void api_define(void);

/* In the child of a fork: nobody has attached yet. Async-signal-safe. */
void api_fork_child(void);

#endif
