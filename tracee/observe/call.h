#ifndef RBPROBE_CALL_H
#define RBPROBE_CALL_H

#include <ruby.h>
#include <ruby/debug.h>

#include <stdbool.h>
#include <stdint.h>

/* How a call has ended: what conditions know as `result`, `error` and `elapsed`. */
struct call_outcome {
	VALUE result, error; /* or nil */
	double elapsed;      /* s */
};

/* A call as it begins, whichever engine saw it. On the machine stack of the one who saw it. */
struct seen_call {
	uintptr_t frame;           /* its identity, comparable with frame_of_call()'s; 0: not known */
	rb_trace_arg_t *trace_arg; /* of the event; NULL: engine patch, then: */
	rb_event_flag_t event;
	bool hidden;   /* it is followed, and not shown */
	uint64_t made; /* ticks: when its values had been made; 0: it has none */
	VALUE receiver;
	int arity;                          /* as given to rb_define_method */
	int argc;                           /* arguments as the method has them; arity -2: */
	const VALUE *argv;                  /* one, the Array of them */
	const struct call_outcome *outcome; /* NULL: it begins */
	bool ends_in_frame;                 /* it ends, and the event's frame still is its own */
	VALUE binding;                      /* of its frame, made when it began; Qfalse: none */
};

#endif
