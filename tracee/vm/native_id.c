/* Numbers of native threads. See native_id.h. */

#define _GNU_SOURCE
#include "tracee/vm/native_id.h"

#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/constant.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * The VM asks the kernel when a native thread begins, and not again in a forked child: there its main thread goes on with the
 * number of that thread of the parent that forked (native_thread_native_thread_id() of thread_pthread.c, 3.1 to 4.0).
 */
static uint32_t of_main(uint32_t told)
{
	pid_t pid = getpid();

	return told && syscall(SYS_tgkill, pid, (pid_t)told, 0) == 0 ? told : (uint32_t)pid;
}

bool native_id_of(VALUE thread, uint32_t *native_id)
{
	if (thread == rb_thread_current()) {
		*native_id = (uint32_t)syscall(SYS_gettid);
	} else if (builtin_has(BUILTIN_THREAD_NATIVE_ID)) {
		VALUE told = builtin_call0(BUILTIN_THREAD_NATIVE_ID, thread);

		*native_id = FIXNUM_P(told) ? (uint32_t)FIX2ULONG(told) : 0;
		if (thread == rb_thread_main())
			*native_id = of_main(*native_id);
	} else if (thread == rb_thread_main()) {
		*native_id = (uint32_t)getpid(); /* Ruby's main thread is the process's */
	} else {
		return false;
	}
	return true;
}

static bool shared;

void native_ids_learn(void)
{
#ifdef HAVE_RB_PROFILE_THREAD_FRAMES
	VALUE description = constant_at_hand("RUBY_DESCRIPTION");
	const char *wanted = getenv("RUBY_MN_THREADS");

	/* The environment may be another one since the VM began. A program that embeds Ruby may not have the constant. */
	if (description != Qundef && RB_TYPE_P(description, T_STRING))
		shared = memmem(RSTRING_PTR(description), (size_t)RSTRING_LEN(description), " +MN", 4) != NULL;
	else
		shared = wanted && atoi(wanted) > 0;
#endif
}

bool native_ids_are_shared(void)
{
	return shared;
}
