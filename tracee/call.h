#ifndef RBPROBE_CALL_H
#define RBPROBE_CALL_H

#include <ruby.h>
#include <ruby/debug.h>

#include <stdint.h>

/* A call as it begins, whichever engine saw it. On the machine stack of the one who saw it. */
struct seen_call {
	uintptr_t frame;           /* its identity, comparable with frame_of_call()'s; 0: not known */
	rb_trace_arg_t *trace_arg; /* of the event; NULL: engine patch, then: */
	rb_event_flag_t event;
	VALUE receiver;
	int arity;         /* as given to rb_define_method */
	int argc;          /* arguments as the method has them; arity -2: */
	const VALUE *argv; /* one, the Array of them */
};

#endif
