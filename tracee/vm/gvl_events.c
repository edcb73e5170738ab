/*
 * Events of the GVL. See gvl_events.h. From 3.3 on an event names its thread, and one that others wake is told as waiting by
 * them; on 3.2 every event comes on its own native thread (thread_pthread.c of 3.2 and 4.0).
 */

#include "tracee/vm/gvl_events.h"

#include <ruby.h>
#include <stddef.h>

#define GVL_HOOKS 3 /* marks, a profile, a timeline */

#ifdef HAVE_RB_INTERNAL_THREAD_ADD_EVENT_HOOK
#include <pthread.h>
#include <ruby/thread.h>

static struct {
	void (*hook)(enum gvl_event, uintptr_t);
	rb_internal_thread_event_hook_t *registered;
} hooks[GVL_HOOKS];

static void on_event(rb_event_flag_t event, const rb_internal_thread_event_data_t *data, void *user_data)
{
	void (*hook)(enum gvl_event, uintptr_t) = (void (*)(enum gvl_event, uintptr_t))user_data;
	uintptr_t thread;

#ifdef HAVE_RB_INTERNAL_THREAD_EVENT_DATA_T_THREAD
	thread = (uintptr_t)data->thread;
#else
	(void)data;
	thread = (uintptr_t)pthread_self();
#endif
	switch (event) {
	case RUBY_INTERNAL_THREAD_EVENT_STARTED:
		hook(GVL_THREAD_STARTED, thread);
		return;
	case RUBY_INTERNAL_THREAD_EVENT_READY:
		hook(GVL_WANTED, thread);
		return;
	case RUBY_INTERNAL_THREAD_EVENT_RESUMED:
		hook(GVL_TAKEN, thread);
		return;
	case RUBY_INTERNAL_THREAD_EVENT_SUSPENDED:
		hook(GVL_RELEASED, thread);
		return;
	case RUBY_INTERNAL_THREAD_EVENT_EXITED:
		hook(GVL_THREAD_EXITED, thread);
		return;
	}
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

void gvl_events_on(void (*hook)(enum gvl_event event, uintptr_t thread))
{
	int place = -1;

	for (int i = 0; i < GVL_HOOKS; i++) {
		if (hooks[i].hook == hook)
			return;
		if (!hooks[i].hook)
			place = i;
	}
	if (place < 0)
		return;
	hooks[place].registered = rb_internal_thread_add_event_hook(on_event, RUBY_INTERNAL_THREAD_EVENT_MASK, (void *)hook);
	hooks[place].hook = hook;
}

void gvl_events_off(void (*hook)(enum gvl_event event, uintptr_t thread))
{
	for (int i = 0; i < GVL_HOOKS; i++) {
		if (hooks[i].hook != hook)
			continue;
		rb_internal_thread_remove_event_hook(hooks[i].registered);
		hooks[i].hook = NULL;
	}
}

#else

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

#endif
