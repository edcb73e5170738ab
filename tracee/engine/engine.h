#ifndef RBPROBE_ENGINE_H
#define RBPROBE_ENGINE_H

#include "proto/error.h"
#include "proto/wire.h"
#include "tracee/base/text.h"

#include <ruby.h>

#include <stdbool.h>

/*
 * A way of observing methods. Its events end in observe_call() and observe_return(). Job context, GVL held; may raise, so that
 * callers are under rb_protect.
 */

struct probe;
struct match;

struct engine {
	enum engine_id id;
	/* Whether it can observe this method. If not, says why not. */
	bool (*can)(const struct match *match, struct text *reason);
	/* Whether it observes this very definition for the probe already. NULL: never asked for; arming again does no harm. */
	bool (*serves)(const struct probe *probe, VALUE method);
	/* Starts events for a probe. 0, or negative and err. */
	int (*arm)(struct probe *probe, VALUE method, struct error *err);
	/*
	 * Ends them; also for a probe whose arming failed. NULL: ended by engine_hook_stop(). Events that have begun may still be
	 * under way in other threads.
	 */
	void (*disarm)(struct probe *probe);
	/* Frees what arming made, when no event is under way any more. Calls no Ruby function. NULL: nothing to free. */
	void (*release)(struct probe *probe);
};

extern const struct engine engine_target;
extern const struct engine engine_patch;
extern const struct engine engine_hook;

/* The engine for a method: the wanted one, or with ENGINE_AUTO the cheapest that can. NULL, and the reason, where none can. */
const struct engine *engine_choose(enum engine_id wanted, const struct match *match, struct text *reason);

/* For the GC: nothing of it moves while it is marked by these. */
void engine_target_mark(const struct probe *probe);
void engine_target_mark_left_over(void);
/* Disables what could not be disabled before. True: some of it cannot be now either. Job context. */
bool engine_target_sweep(void);
/* Calls of a probe's method in other Ractors, which are not followed, as far as this Ruby shows them (before 4.0). */
uint64_t engine_target_foreign_calls(const struct probe *probe);

/*
 * Whether a TracePoint of the application's own has taken the place of one of the probe's, which sees nothing since: up to 3.1,
 * on a define_method method. Calls nothing of Ruby's.
 */
bool engine_target_is_pushed_out(const struct probe *probe);

void engine_patch_mark_all(void);
uint64_t engine_patch_foreign_calls(const struct probe *probe);

/* The global hook of a session, shared by all its probes of engine hook. */
struct engine_hook_state {
	VALUE tracepoint;      /* nil: off */
	bool whole;            /* sees every call, and leaves the process slower; else C calls only, and leaves nothing */
	struct probe *aliases; /* whose calls the VM may tell of as those of a module that their class has prepended */
	bool over;             /* its trace has ended: it may not be started any more */
	/*
	 * The probe for a method, or NULL. Event context; may allocate. *jump is set to a state as aside_protect() returns it, or
	 * stays.
	 */
	struct probe *(*find)(struct engine_hook_state *hook, VALUE owner, VALUE name, int *jump);
	void *owner; /* whose hook it is: for find */
};

/* Starting one that is on is harmless, and makes it whole where that is wanted. */
void engine_hook_start(struct engine_hook_state *hook, bool whole);
void engine_hook_stop(struct engine_hook_state *hook);
/* attr_reader, attr_writer and their like: the VM does them itself. Asks Ruby: may raise. */
bool engine_hook_is_attribute(VALUE method);
/* Whether a method needs the whole hook. */
bool engine_hook_stays(VALUE method, VALUE owner, VALUE name);
/* frame_calibrate(FRAME_GLOBAL) without consequences for the process. event_flags_ready() first. */
int engine_hook_calibrate(struct error *err);
/*
 * rb_protect for a trial that compiles code, and enables and disables a global TracePoint of calls: the process's other code is
 * not rewritten for it. event_flags_ready() first.
 */
VALUE engine_hook_protect(VALUE (*run)(VALUE), VALUE argument, int *failed);

#endif
