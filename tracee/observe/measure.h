#ifndef RBPROBE_MEASURE_H
#define RBPROBE_MEASURE_H

#include "proto/wire.h"
#include "tracee/observe/application_span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What is measured of a call beside its time (--measure): the CPU time of its thread, the objects that the process allocates
 * meanwhile, without those of rbprobe's work (own_objects.h), and the time its thread spends in the garbage collector. Each
 * number is a difference between the call's end and its start. With them come the application's own span, as it is at the end,
 * and who called.
 */

struct fiber_state;
struct open_call;
struct session;
struct session_part;

/* What measure_append() takes at most. */
#define MEASURE_SIZE_MAX 67u

/* What a session's trace command needs: GC is followed, where it is measured, until measure_part ends that. Job; may raise. */
void measure_open(struct session *session);
extern const struct session_part measure_part;

/* The numbers at the start of a call. flags: of the trace command. Event context. Runs no Ruby code and allocates nothing. */
void measure_start(const struct fiber_state *fiber, struct open_call *call, uint32_t flags);

/* Those at its end, minus those at its start. The same context, not in GC. */
struct measured {
	uint64_t cpu_ns;
	uint64_t objects;
	uint64_t gc_ns;
	uint64_t stack; /* callers.h; the caller's to fill in, when it is known that the call is shown */
	struct application_span span;
	bool has_span;
	bool moved;      /* the call ended in another native thread than it began in: cpu_ns and gc_ns mean nothing */
	bool gc_unknown; /* hooks for GC may not be on; gc_hook.h */
};
void measure_end(struct measured *measured, const struct fiber_state *fiber, const struct open_call *call, uint32_t flags);

/*
 * Appends them, and the number of the stack, to a msgpack array of texts as expression_render_result() makes it, or to none
 * (size 0). Returns the new size.
 */
size_t measure_append(const struct measured *measured, uint32_t flags, char *buffer, size_t size);

#endif
