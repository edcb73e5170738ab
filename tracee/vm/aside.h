#ifndef RBPROBE_ASIDE_H
#define RBPROBE_ASIDE_H

#include <ruby.h>

/*
 * Work of ours in the middle of a method call of the application's, which is to notice nothing: no TracePoint of its hears of
 * what is called, `$!` stays, and what other threads send to this one (Timeout, Thread#kill) is not lost, but raised when the
 * work is done. What run itself raises is dropped. GVL, main Ractor.
 */

/* This may raise what was sent, and has to come last. */
void aside_run(VALUE (*run)(VALUE), VALUE argument);

/*
 * The same where raising has to wait: returns 0, or a state for rb_jump_tag(). Until that, rb_errinfo() is what was sent: nothing
 * may set it, and no rb_ensure() may end. Called where rb_errinfo() is nil or an exception: in an event of the VM's, or within
 * the second function of an rb_ensure().
 */
int aside_protect(VALUE (*run)(VALUE), VALUE argument);

#endif
