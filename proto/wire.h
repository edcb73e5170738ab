#ifndef RBPROBE_WIRE_H
#define RBPROBE_WIRE_H

#include "proto/requests.h"

/*
 * The numbers of the protocol; PROTOCOL.md says what they mean. A value that goes out of use stays here as
 * "unused" and is never given to something else.
 */

#define REQUEST_NUMBER(number, name, kind) COMMAND_##name = (number),

/* Commands: client to target, through the System V queue. */
enum command_kind {
	COMMAND_ATTACH = 1,
	COMMAND_TRACE = 2,
	COMMAND_METHODS = 3,
	COMMAND_DETACH = 4,
	COMMAND_CANCEL = 6,
	REQUESTS(REQUEST_NUMBER) /* each is answered by REPLY when it begins and by DONE when it is over */
	COMMAND_COUNT,
};

/* Records: target to client, through the socket. */
enum record_kind {
	RECORD_HELLO = 1,
	RECORD_REPLY = 2,
	RECORD_METHOD = 3,
	RECORD_FIBER = 4,
	RECORD_EVENTS = 5,
	RECORD_LOST = 6,
	RECORD_NOTE = 7,
	RECORD_MATCH = 8,
	RECORD_END = 9,
	RECORD_FIBER_GONE = 10,
	RECORD_OUTPUT = 11,
	RECORD_DATA = 12,
	RECORD_DONE = 13,
	RECORD_FOUND = 14,
	RECORD_RETRIED = 15,
	RECORD_DEBUG = 16,
	RECORD_TOTALS = 17,
	RECORD_CALLER = 18,
	RECORD_STATES = 19,
};

/* What an event tells of a call. */
enum event_kind {
	EVENT_START = 0,
	EVENT_END = 1,
	EVENT_CALL = 2, /* both: nothing else happened in between */
	EVENT_MARK = 3, /* neither: something else that happened in the fiber; marks.h */
};

/* How a call ended. */
enum ending {
	ENDING_RETURNED = 0, /* control went back to the caller with a value, be it by break or by return in a block */
	ENDING_RAISED = 1,   /* an exception left it */
	ENDING_THROWN = 2,   /* throw, or a return or break meant for an outer frame, went through it */
	ENDING_KILLED = 3,   /* its thread or fiber was killed */
	ENDING_UNKNOWN = 4,  /* it is over, and this Ruby does not tell how */
	ENDING_COUNT,
};

enum engine_id {
	ENGINE_AUTO = 0,
	ENGINE_TARGET = 1,
	ENGINE_HOOK = 2,
	ENGINE_NONE = 3, /* only in answers: the method cannot be traced */
	ENGINE_PATCH = 4,
	ENGINE_COUNT,
};

enum overflow_policy {
	OVERFLOW_DROP = 0,
	OVERFLOW_BLOCK = 1,
};

/* Bits of a trace command's flags. */
enum trace_flag {
	TRACE_FIREHOSE = 1 << 0,
	TRACE_ARGUMENTS = 1 << 1,
	TRACE_RESULT = 1 << 2,
	TRACE_INSPECT = 1 << 3,
	TRACE_IVARS = 1 << 4,         /* objects are shown with their instance variables */
	TRACE_HOOK = 1 << 5,          /* engine hook may be used: without it or the next, the target asks (EACCES) */
	TRACE_WITHOUT_HOOK = 1 << 6,  /* methods for which engine hook would leave the process slower are left out */
	TRACE_ATTRIBUTES = 1 << 7,    /* attributes are traced also where no selector names them exactly */
	TRACE_NO_HOOK = 1 << 8,       /* engine hook is not used at all */
	TRACE_TREE = 1 << 9,          /* with a call that meets the conditions, the calls inside it */
	TRACE_COUNT = 1 << 10,        /* calls are counted in the target, and none is streamed */
	TRACE_NO_TIMES = 1 << 11,     /* with TRACE_COUNT: only counted, no clock is read */
	TRACE_CPU = 1 << 12,          /* measured of each call: its thread's CPU time, */
	TRACE_OBJECTS = 1 << 13,      /* objects that were allocated, */
	TRACE_GC = 1 << 14,           /* and time that passed in the garbage collector */
	TRACE_LOCALS = 1 << 15,       /* local variables, at the end of a call or at a line */
	TRACE_STACK = 1 << 16,        /* who called */
	TRACE_BY_THREAD = 1 << 17,    /* with TRACE_COUNT: the calls of each thread apart, */
	TRACE_BY_CLASS = 1 << 18,     /* or those on each class of receivers, */
	TRACE_BY_CALLER = 1 << 19,    /* or those from each caller, */
	TRACE_FOLLOW_FORKS = 1 << 20, /* forked children are traced, too */
	TRACE_BY_VALUE = 1 << 21,     /* or by the value of the first expression of the method's selector, if it has any */
	TRACE_SPAN = 1 << 22,         /* the application's own span in which a call ends */
	TRACE_ENDS = 1 << 23,         /* expressions that read result, error or elapsed are evaluated when a call ends */
	TRACE_AT_RANDOM = 1 << 24,    /* of the condition `every`: any one of so many calls, and not every so many'th */
};

#define TRACE_BY_KEYS ((unsigned)(TRACE_BY_THREAD | TRACE_BY_CLASS | TRACE_BY_CALLER)) /* one of them at most */

#define TRACE_MEASURES ((unsigned)(TRACE_CPU | TRACE_OBJECTS | TRACE_GC | TRACE_SPAN | TRACE_STACK))

/* Bits of a selector's flags. */
enum selector_flag {
	SELECTOR_OPTIONAL = 1 << 0,  /* nothing is said where it matches nothing */
	SELECTOR_OUTERMOST = 1 << 1, /* calls inside of a call of its set are not shown */
	SELECTOR_ALWAYS = 1 << 2,    /* its calls are shown whatever is asked of the end of calls */
};

/* Bits of a method's flags. */
enum method_flag {
	METHOD_ALWAYS = 1 << 0, /* a selector with SELECTOR_ALWAYS has matched it */
};

/* Bits of an eval command's flags. */
enum eval_flag {
	EVAL_MAIN = 1 << 0,    /* in the main thread, not in one of its own */
	EVAL_RAW = 1 << 1,     /* a String is sent whole, as output, not as its inspect */
	EVAL_CONSOLE = 1 << 2, /* with the session's own binding, which keeps its local variables and self */
	EVAL_PARTIAL = 1 << 3, /* code that only lacks its end is no error but "incomplete" */
	EVAL_SUBJECT = 1 << 4, /* the result is not shown: LIST, ENTER and SOURCE may be about it */
};

/* Bits of the flags of LIST, ENTER and SOURCE. Without SUBJECT they are about the console's self. */
enum list_flag {
	LIST_SUBJECT = 1 << 0,
	LIST_ALL = 1 << 1, /* what every object has, too */
};

enum enter_flag {
	ENTER_SUBJECT = 1 << 0,
	ENTER_UP = 1 << 1,  /* back to where we were before */
	ENTER_TOP = 1 << 2, /* back to main */
};

enum source_flag {
	SOURCE_SUBJECT = 1 << 0,
	SOURCE_INSTANCE = 1 << 1, /* an instance method of the subject, a module */
};

/* Bits of a heap dump command's flags. */
enum heap_dump_flag {
	HEAP_DUMP_GC = 1 << 0,          /* collect garbage first */
	HEAP_DUMP_IN_PROCESS = 1 << 1,  /* without a fork: the process stands still until the dump is written */
	HEAP_DUMP_ALLOCATIONS = 1 << 2, /* no dump: where objects are allocated is recorded, until the request is cancelled */
};

/* Bits of a memory command's flags. */
enum memory_flag {
	MEMORY_OBJECTS = 1 << 0, /* count the objects, too */
};

/* Bits of a backtrace command's flags. */
enum backtrace_flag {
	BACKTRACE_FIBERS = 1 << 0, /* also the fibers that do not run */
	BACKTRACE_LOCALS = 1 << 1, /* with the local variables of frames */
};

/* Bits of a profile command's flags; without any, time is sampled. */
enum profile_flag {
	PROFILE_ALLOCATIONS = 1 << 0, /* objects that are made, and not time */
	PROFILE_RETAINED = 1 << 2,    /* of these, those that are still alive at the end */
	PROFILE_GVL = 1 << 1,         /* beside time, who waits for the GVL, and who has it meanwhile */
};

/* What the bytes of an OUTPUT record are. */
enum output_stream {
	OUTPUT_STDOUT = 1, /* what the code wrote to $stdout */
	OUTPUT_STDERR = 2,
	OUTPUT_RESULT = 3, /* the result itself */
	OUTPUT_STREAM_COUNT,
};

enum note_level {
	NOTE_INFO = 0,    /* shown with -v */
	NOTE_WARNING = 1, /* shown unless -q */
};

/* Why a session ended, as the target saw it. */
enum end_reason {
	END_DETACHED = 0, /* the client asked */
	END_EXIT = 1,     /* the process exits */
	END_REFUSED = 2,  /* the target would not go on; the text says why */
};

/* METHODs of marks have these numbers, by enum mark_kind. */
#define MARK_REF(kind) (0xffff00u + (kind))

const char *ending_name(enum ending ending);
const char *engine_name(enum engine_id engine);

#endif
