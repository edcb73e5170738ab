/*
 * What a thread that lets go of the GVL is about to do. See blocked_in.h. A thread tells that it lets go of the GVL while it
 * still has it, from 3.3 on (thread_sched_to_waiting_common() and the others of thread_pthread.c in 3.3 and 4.0 call the hook
 * before they wake the next one). So its innermost frame stands still, and the frame's method may be read: two loads, and
 * nothing is allocated, called or locked. What it is doing is the owner's business: IO#read, TCPServer#accept and IO.select all
 * wait for input or output; of Kernel's methods the names say it.
 */

#include "tracee/vm/blocked_in.h"

#include "tracee/vm/constant.h"
#include "tracee/vm/gvl_events.h"

#include <ruby.h>
#include <ruby/debug.h>
#include <stdbool.h>
#include <string.h>

#define ANY_METHOD NULL

/* Methods of a class or module, and those of the object itself. */
static const struct known {
	const char *owner, *method;
	enum blocked_in in;
} known[] = {
	{"Kernel", "sleep", BLOCKED_IN_SLEEP},
	{"Kernel", "select", BLOCKED_IN_IO},
	{"Kernel", "gets", BLOCKED_IN_IO},
	{"Kernel", "readline", BLOCKED_IN_IO},
	{"Kernel", "readlines", BLOCKED_IN_IO},
	{"Kernel", "open", BLOCKED_IN_IO},
	{"Kernel", "puts", BLOCKED_IN_IO},
	{"Kernel", "print", BLOCKED_IN_IO},
	{"Kernel", "p", BLOCKED_IN_IO},
	{"Kernel", "system", BLOCKED_IN_PROCESS},
	{"IO", ANY_METHOD, BLOCKED_IN_IO},
	{"File", ANY_METHOD, BLOCKED_IN_IO},
	{"BasicSocket", ANY_METHOD, BLOCKED_IN_IO},
	{"Socket", ANY_METHOD, BLOCKED_IN_IO},
	{"IPSocket", ANY_METHOD, BLOCKED_IN_IO},
	{"TCPSocket", ANY_METHOD, BLOCKED_IN_IO},
	{"TCPServer", ANY_METHOD, BLOCKED_IN_IO},
	{"UDPSocket", ANY_METHOD, BLOCKED_IN_IO},
	{"UNIXSocket", ANY_METHOD, BLOCKED_IN_IO},
	{"UNIXServer", ANY_METHOD, BLOCKED_IN_IO},
	{"Addrinfo", ANY_METHOD, BLOCKED_IN_IO},
	{"OpenSSL::SSL::SSLSocket", ANY_METHOD, BLOCKED_IN_IO},
	{"Process", "wait", BLOCKED_IN_PROCESS},
	{"Process", "wait2", BLOCKED_IN_PROCESS},
	{"Process", "waitpid", BLOCKED_IN_PROCESS},
	{"Process", "waitpid2", BLOCKED_IN_PROCESS},
	{"Process", "waitall", BLOCKED_IN_PROCESS},
	{"Process::Status", "wait", BLOCKED_IN_PROCESS},
	{"Thread", "join", BLOCKED_IN_LOCK},
	{"Thread", "value", BLOCKED_IN_LOCK},
	{"Thread", "stop", BLOCKED_IN_LOCK},
	{"Thread::Mutex", ANY_METHOD, BLOCKED_IN_LOCK},
	{"Thread::Queue", ANY_METHOD, BLOCKED_IN_LOCK},
	{"Thread::SizedQueue", ANY_METHOD, BLOCKED_IN_LOCK},
	{"Thread::ConditionVariable", ANY_METHOD, BLOCKED_IN_LOCK},
	{"Monitor", ANY_METHOD, BLOCKED_IN_LOCK},
};

#define KNOWN (sizeof(known) / sizeof(known[0]))

/* owner: Qfalse until it is known. Registered with the GC, so they neither move nor go. */
static struct {
	VALUE owner, singleton;
	ID method; /* 0: any */
} places[KNOWN];

/* A class has one from the beginning, a module where it has methods of its own. rb_singleton_class() would make more. */
static VALUE singleton_of(VALUE owner)
{
	VALUE class = rb_class_of(owner);

	return class == rb_cModule || class == rb_cClass ? Qfalse : class;
}

void blocked_in_prepare(void)
{
	static bool registered;

	for (size_t i = 0; i < KNOWN && !registered; i++) {
		rb_gc_register_address(&places[i].owner);
		rb_gc_register_address(&places[i].singleton);
	}
	registered = true;
	for (size_t i = 0; i < KNOWN; i++) {
		VALUE owner = places[i].owner ? Qnil : constant_module((struct slice){known[i].owner, strlen(known[i].owner)});

		if (NIL_P(owner))
			continue;
		places[i].method = known[i].method ? rb_intern(known[i].method) : 0;
		places[i].singleton = singleton_of(owner);
		places[i].owner = owner;
	}
}

enum blocked_in blocked_in_method(VALUE owner, ID method)
{
	for (size_t i = 0; owner && i < KNOWN; i++)
		if ((places[i].owner == owner || places[i].singleton == owner) &&
		    (!places[i].method || places[i].method == method))
			return known[i].in;
	return BLOCKED_IN_OTHER;
}

enum blocked_in blocked_in(void)
{
	VALUE frame, owner;
	int line;
	ID method;

	/* A thread that begins or ends has no frames. */
	if (!gvl_released_with_gvl() || rb_profile_frames(0, 1, &frame, &line) < 1 ||
	    !rb_frame_method_id_and_class(&method, &owner) || !owner)
		return BLOCKED_IN_OTHER;
	return blocked_in_method(owner, method);
}
