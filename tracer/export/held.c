/* Who held the GVL during a wait for it. See held.h. */

#include "tracer/export/held.h"

static struct held_sink *held_of(struct sink *sink)
{
	return (struct held_sink *)sink;
}

static void write_span(void *owner, const struct stream *stream, const struct thread_span *span, const struct waits_cause *cause)
{
	held_of(owner)->write(owner, stream, span, cause);
}

static void take(struct sink *sink, pid_t pid)
{
	waits_take(held_of(sink)->waits, pid, &(struct waits_reader){.span = write_span, .owner = sink});
}

void held_thread(struct sink *sink, struct stream *stream, const struct thread_span *span)
{
	struct waits *waits = held_of(sink)->waits;

	if (waits && waits_span(waits, stream, span))
		return;
	if (waits)
		take(sink, stream->pid);
	if (!waits || !waits_span(waits, stream, span))
		held_of(sink)->write(sink, stream, span, &(struct waits_cause){.call = {"", 0}});
}

void held_call(struct sink *sink, const struct fiber *fiber, const struct method *method, uint64_t start_ns, uint64_t duration_ns)
{
	if (held_of(sink)->waits)
		waits_call(held_of(sink)->waits, fiber, method, start_ns, duration_ns);
}

void held_summary(struct sink *sink, const struct sink_summary *summary)
{
	if (!held_of(sink)->waits)
		return;
	take(sink, summary->pid);
	waits_end(held_of(sink)->waits, summary->pid);
}
