#ifndef RBPROBE_ASIDE_H
#define RBPROBE_ASIDE_H

#include <ruby.h>

/*
 * Work of ours in the middle of a method call of the application's, which is to notice nothing: no TracePoint of its hears of what is called, `$!` stays, and what
 * other threads send to this one (Timeout, Thread#kill) is not lost, but raised when the work is done. So this may raise, and has to come last. run itself
 * must raise nothing. GVL, main Ractor.
 */
void aside_run(VALUE (*run)(VALUE), VALUE argument);

#endif
