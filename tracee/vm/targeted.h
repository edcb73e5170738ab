#ifndef RBPROBE_TARGETED_H
#define RBPROBE_TARGETED_H

#include <ruby.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Disabling targeted TracePoints, with care for the application's own on Rubies up to 3.1. Job context, under rb_protect.
 *
 * definition: of a define_method method, where compat_block_method_shares_hooks() says that it has room for the hooks of but
 * one TracePoint; else 0.
 */

enum targeted_hooks {
	TARGETED_NONE,
	TARGETED_OURS,   /* of that TracePoint */
	TARGETED_OTHERS, /* of another one, which has pushed that one out, or would be pushed out by it */
};

/* Whether it can be told whose hooks a definition has. To be called before all that takes a definition. Calls Ruby. */
bool targeted_known(void);

/* tracepoint may be nil. */
enum targeted_hooks targeted_hooks(uintptr_t definition, VALUE tracepoint);

/* Whether another one has taken the place of that of an enabled one. Calls nothing of Ruby's. */
bool targeted_is_pushed_out(uintptr_t definition, VALUE tracepoint);

/*
 * Whether targeted TracePoints can be disabled now. Up to 3.1 not while a thread is in a hook: the VM goes on with hooks that
 * it has looked up before, freed or not; and it forgets all global hooks when a thread comes out of the disabled ones of a
 * definition. Calls Ruby, but no other thread runs when it has said yes.
 */
bool targeted_rest(void);

/* Whether this one can be, besides: nobody is in its hooks. */
bool targeted_may_be_disabled(uintptr_t definition, VALUE tracepoint);

/*
 * Disables it, and leaves alone the hooks of one that has pushed it out. What the VM forgets at that, it is reminded of
 * before any other thread runs.
 */
void targeted_disable(uintptr_t definition, VALUE tracepoint);

/*
 * In each job, after all that it disables: for global hooks of the application's that miss events from then on (see
 * event_flags_mend()). That is done in the first job that disables none, as it takes long. True: all code was rewritten.
 */
bool targeted_mend(void);
/* Whether that job is to come. */
bool targeted_mend_waits(void);

/*
 * On 2.7 enabling one makes the instructions fire its events alone, and others that are on for them, or for what is written
 * within, fall silent. Disabling one puts right what is left: this enables one for the line, 0: for all, and disables it. Where
 * one with the same target has just been enabled, at any time; else only while targeted_rest().
 */
void targeted_wake_others(VALUE code, uint32_t line);

#endif
