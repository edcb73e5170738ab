/*
 * Events of the GVL. See gvl_events.h. From 3.3 on an event names its thread, and one that others wake is told as waiting by
 * them; on 3.2 every event comes on its own native thread (thread_pthread.c of 3.2 and 4.0).
 */

#include "tracee/vm/gvl_events.h"

#include "tracee/vm/gvl_layout.h"

#include <ruby.h>
#include <stddef.h>

#define GVL_HOOKS 3 /* marks, a profile, a timeline */

#ifdef HAVE_RB_INTERNAL_THREAD_ADD_EVENT_HOOK
#include <pthread.h>
#include <ruby/thread.h>
#include <ruby/version.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

typedef void gvl_hook(enum gvl_event event, uintptr_t thread);

/*
 * One hook of the VM's for all of ours. The VM's lock around its hooks is held by a thread that runs one, and before 4.0.4 a
 * forked child has it as it was at the fork, without that thread: to add or remove a hook there could wait for ever. So a child
 * leaves the one that it has where it is, and it does nothing while nobody wants it. From 4.0.4 on the VM renews the lock in the
 * child (thread_sched_atfork() of thread_pthread.c), and the hook goes as everywhere.
 */
static struct {
	gvl_hook *_Atomic hooks[GVL_HOOKS];
	rb_internal_thread_event_hook_t *registered; /* NULL: it is not */
	bool lock_is_renewed;                        /* by the VM, in a forked child */
	_Atomic bool inherited;                      /* else: it is, and was when this process was forked */
	_Atomic uint32_t inside;                     /* where it is inherited: threads that run it */
	_Atomic uintptr_t holder;                    /* who has it; 0: nobody */
} gvl;

static int place_of(gvl_hook *hook)
{
	for (int i = 0; i < GVL_HOOKS; i++)
		if (gvl.hooks[i] == hook)
			return i;
	return -1;
}

static bool any_hook(void)
{
	for (int i = 0; i < GVL_HOOKS; i++)
		if (gvl.hooks[i])
			return true;
	return false;
}

static void tell(enum gvl_event event, uintptr_t thread)
{
	for (int i = 0; i < GVL_HOOKS; i++) {
		gvl_hook *hook = atomic_load_explicit(&gvl.hooks[i], memory_order_seq_cst);

		if (hook)
			hook(event, thread);
	}
}

/* On 3.2 another thread may have it before the one that had it says so. */
static void note_holder(enum gvl_event event, uintptr_t thread)
{
	uintptr_t expected = thread;

	if (event == GVL_TAKEN)
		atomic_store(&gvl.holder, thread);
	else
		atomic_compare_exchange_strong(&gvl.holder, &expected, 0);
}

static void on_event(rb_event_flag_t event, const rb_internal_thread_event_data_t *data, void *user_data)
{
	static const struct {
		rb_event_flag_t flag;
		enum gvl_event event;
	} events[] = {
		{RUBY_INTERNAL_THREAD_EVENT_STARTED, GVL_THREAD_STARTED}, {RUBY_INTERNAL_THREAD_EVENT_READY, GVL_WANTED},
		{RUBY_INTERNAL_THREAD_EVENT_RESUMED, GVL_TAKEN},          {RUBY_INTERNAL_THREAD_EVENT_SUSPENDED, GVL_RELEASED},
		{RUBY_INTERNAL_THREAD_EVENT_EXITED, GVL_THREAD_EXITED},
	};
	bool counted = atomic_load_explicit(&gvl.inherited, memory_order_relaxed);
	uintptr_t thread;

	(void)user_data;
#ifdef HAVE_RB_INTERNAL_THREAD_EVENT_DATA_T_THREAD
	thread = (uintptr_t)data->thread;
#else
	(void)data;
	thread = (uintptr_t)pthread_self();
#endif
	if (counted)
		atomic_fetch_add(&gvl.inside, 1);
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		if (events[i].flag == event) {
			note_holder(events[i].event, thread);
			tell(events[i].event, thread);
		}
	if (counted)
		atomic_fetch_sub(&gvl.inside, 1);
}

bool gvl_events_possible(void)
{
	return true;
}

bool gvl_released_with_gvl(void)
{
#ifdef HAVE_RB_INTERNAL_THREAD_EVENT_DATA_T_THREAD
	return true;
#else
	return false;
#endif
}

uintptr_t gvl_current_thread(void)
{
#ifdef HAVE_RB_INTERNAL_THREAD_EVENT_DATA_T_THREAD
	return (uintptr_t)rb_thread_current();
#else
	return (uintptr_t)pthread_self();
#endif
}

static void do_nothing(rb_event_flag_t event, const rb_internal_thread_event_data_t *data, void *user_data)
{
	(void)event;
	(void)data;
	(void)user_data;
}

/* Nobody runs any more what has been taken out. */
static void wait_until_nobody_runs_it(void)
{
	while (gvl.inherited && atomic_load(&gvl.inside))
		sched_yield();
	/* Adding a hook waits for those that run. */
	if (!gvl.inherited)
		rb_internal_thread_remove_event_hook(
			rb_internal_thread_add_event_hook(do_nothing, RUBY_INTERNAL_THREAD_EVENT_EXITED, NULL));
}

/* Of the VM that runs: the extension may have been built for an older one of the same series. */
static bool vm_renews_lock(void)
{
	int major = 0, minor = 0, teeny = 0;

	sscanf(ruby_version, "%d.%d.%d", &major, &minor, &teeny);
	return major > 4 || (major == 4 && (minor > 0 || teeny >= 4));
}

void gvl_events_on(gvl_hook *hook)
{
	int place = place_of(NULL);

	if (place_of(hook) >= 0 || place < 0)
		return;
	gvl.lock_is_renewed = vm_renews_lock();
	if (!gvl.registered)
		gvl.registered = rb_internal_thread_add_event_hook(on_event, RUBY_INTERNAL_THREAD_EVENT_MASK, NULL);
	if (!any_hook())
		atomic_store(&gvl.holder, gvl_current_thread());
	gvl.hooks[place] = hook;
}

bool gvl_is_held(void)
{
	return any_hook() && atomic_load(&gvl.holder);
}

void gvl_events_off(gvl_hook *hook)
{
	int place = place_of(hook);

	if (place < 0)
		return;
	gvl.hooks[place] = NULL;
	if (any_hook() || gvl.inherited) {
		wait_until_nobody_runs_it();
		return;
	}
	rb_internal_thread_remove_event_hook(gvl.registered);
	gvl.registered = NULL;
}

void gvl_events_fork_child(void)
{
	gvl.inside = 0;
	if (gvl.registered && !gvl.lock_is_renewed)
		gvl.inherited = true;
}

#else

bool gvl_is_held(void)
{
	return gvl_layout_is_known() && gvl_layout_owner();
}

bool gvl_events_possible(void)
{
	return false;
}

bool gvl_released_with_gvl(void)
{
	return false;
}

uintptr_t gvl_current_thread(void)
{
	return 0;
}

void gvl_events_on(void (*hook)(enum gvl_event event, uintptr_t thread))
{
	(void)hook;
}

void gvl_events_off(void (*hook)(enum gvl_event event, uintptr_t thread))
{
	(void)hook;
}

void gvl_events_fork_child(void)
{
}

#endif
