#ifndef RBPROBE_REQUESTS_H
#define RBPROBE_REQUESTS_H

/*
 * All requests: X(NUMBER, NAME, kind). NUMBER is the command's on the wire, COMMAND_NAME its enumerator, and
 * request_kind the struct request_kind by which the extension answers it (tracee/session/request.h). A new request is a
 * line at the end, with the next number, and a file in tracee/requests/.
 */
#define REQUESTS(X)                                                                                                              \
	X(5, EVAL, eval)                                                                                                         \
	X(7, COMPLETE, complete)                                                                                                 \
	X(8, BACKTRACE, backtrace)                                                                                               \
	X(9, HEAP_DUMP, heap_dump)                                                                                               \
	X(10, FORK, fork)                                                                                                        \
	X(11, MEMORY, memory)                                                                                                    \
	X(12, LIST, list)                                                                                                        \
	X(13, ENTER, enter)                                                                                                      \
	X(14, SOURCE, source)                                                                                                    \
	X(15, SELFTEST, selftest)                                                                                                \
	X(16, STATISTICS, statistics)                                                                                            \
	X(17, VERSIONS, versions)                                                                                                \
	X(18, PROFILE, profile)                                                                                                  \
	X(19, FRAMES, frames)

#endif
