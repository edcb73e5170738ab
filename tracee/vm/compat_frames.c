/* The differences between Rubies, as to the frames of threads. See compat.h. */

#include "tracee/vm/compat.h"

#include "tracee/vm/thread_layout.h"

#include <pthread.h>
#include <ruby/debug.h>
#include <ruby/version.h>
#include <signal.h>

#ifdef HAVE_RB_PROFILE_THREAD_FRAMES

int compat_thread_frames(VALUE thread, int limit, VALUE *frames, int *lines)
{
	return rb_profile_thread_frames(thread, 0, limit, frames, lines);
}

#else

/*
 * Before 3.3 rb_profile_frames() only knows the current thread: the one whose context the VM has noted as running. So that is
 * another thread's for this call, which reads the context's frames and nothing else. Signals are kept off meanwhile: a handler
 * may ask for the current context, too.
 */
#ifdef HAVE_RUBY_CURRENT_EC
extern __thread void *ruby_current_ec;
#define CURRENT_CONTEXT ruby_current_ec
#else
extern void *ruby_current_execution_context_ptr;
#define CURRENT_CONTEXT ruby_current_execution_context_ptr
#define CONTEXT_TAG_WORDS 8
#endif

int compat_thread_frames(VALUE thread, int limit, VALUE *frames, int *lines)
{
	void *context, *own = CURRENT_CONTEXT;
	sigset_t all, before;
	int count;

	if (thread == rb_thread_current())
		return rb_profile_frames(0, limit, frames, lines);
	context = thread_context(thread);
	if (!context || thread_running_context(rb_thread_current()) != own)
		return -1;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	CURRENT_CONTEXT = context;
	count = rb_profile_frames(0, limit, frames, lines);
	CURRENT_CONTEXT = own;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return count;
}

#endif

bool compat_thread_frames_with_c(void)
{
	return RUBY_API_VERSION_MAJOR >= 3;
}

#if defined(HAVE_RB_ISEQW_NEW) && defined(HAVE_RB_ISEQW_TO_ISEQ)

VALUE rb_iseqw_new(const void *instructions);
const void *rb_iseqw_to_iseq(VALUE code);

/* An object's type and, of an internal object, its kind: the four flags behind the general ones. */
#define KIND_MASK ((VALUE)RUBY_T_MASK | (VALUE)0xf << RUBY_FL_USHIFT)

VALUE compat_frame_instructions(VALUE frame, VALUE any)
{
	VALUE sample = (VALUE)rb_iseqw_to_iseq(any);

	if (!frame || RB_SPECIAL_CONST_P(frame) || !RB_TYPE_P(sample, T_IMEMO) ||
	    ((RBASIC(frame)->flags ^ RBASIC(sample)->flags) & KIND_MASK))
		return Qnil;
	return rb_iseqw_new((const void *)frame);
}

#else

VALUE compat_frame_instructions(VALUE frame, VALUE any)
{
	(void)frame;
	(void)any;
	return Qnil;
}

#endif

#if defined(HAVE_RUBY_THREAD_HAS_GVL_P) && (defined(HAVE_RB_PROFILE_THREAD_FRAMES) || defined(HAVE_RUBY_CURRENT_EC))

int ruby_thread_has_gvl_p(void);

bool compat_may_look_in_handler(void)
{
	return ruby_thread_has_gvl_p();
}

#else

bool compat_may_look_in_handler(void)
{
	return false;
}

#endif

#ifdef HAVE_RUBY_THREAD_HAS_GVL_P

bool compat_may_look_stopped(uintptr_t stack_low, uintptr_t stack_high)
{
	if (!ruby_thread_has_gvl_p())
		return false;
#if defined(HAVE_RB_PROFILE_THREAD_FRAMES) || defined(HAVE_RUBY_CURRENT_EC)
	(void)stack_low;
	(void)stack_high;
	return true;
#else
	/*
	 * The running context is the process's, not the thread's: it is ours if its jump tag, in one of its first words, is on
	 * our stack.
	 */
	for (int i = 0; CURRENT_CONTEXT && i < CONTEXT_TAG_WORDS; i++) {
		uintptr_t word = ((const uintptr_t *)CURRENT_CONTEXT)[i];

		if (word > stack_low && word < stack_high)
			return true;
	}
	return false;
#endif
}

#else

bool compat_may_look_stopped(uintptr_t stack_low, uintptr_t stack_high)
{
	(void)stack_low;
	(void)stack_high;
	return false;
}

#endif

#ifdef HAVE_RB_PROFILE_THREAD_FRAMES

int compat_stopped_frames(VALUE thread, void *context, int limit, VALUE *frames, int *lines)
{
	(void)context;
	return rb_profile_thread_frames(thread, 0, limit, frames, lines);
}

void *compat_stopped_context(void)
{
	return NULL;
}

#else

int compat_stopped_frames(VALUE thread, void *context, int limit, VALUE *frames, int *lines)
{
	void *own = CURRENT_CONTEXT;
	int count;

	(void)thread;
	CURRENT_CONTEXT = context;
	count = rb_profile_frames(0, limit, frames, lines);
	CURRENT_CONTEXT = own;
	return count;
}

void *compat_stopped_context(void)
{
	return CURRENT_CONTEXT;
}

#endif

#ifdef HAVE_RUBY_SINGLE_MAIN_RACTOR

/* Weak: a Ruby that is linked statically has it, and hides it from what it loads. */
extern void *ruby_single_main_ractor __attribute__((weak));

bool compat_names_need_no_lock(void)
{
	return &ruby_single_main_ractor && ruby_single_main_ractor;
}

#else

bool compat_names_need_no_lock(void)
{
	return false;
}

#endif
