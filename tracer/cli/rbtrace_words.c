/* The lines of rbtrace on standard error. See rbtrace_words.h. */

#include "tracer/cli/rbtrace_words.h"

#include "tracer/base/message.h"

void rbtrace_say_attached(pid_t pid)
{
	message_bare("*** attached to process %d", (int)pid);
}

void rbtrace_say_detached(pid_t pid)
{
	message_bare("*** detached from process %d", (int)pid);
}

void rbtrace_say_ended(const struct sink_summary *summary)
{
	uint64_t lost = summary->lost + summary->marks_lost;

	if (lost || summary->counted || summary->other_ractors)
		message_bare("*** not shown of process %d: %llu lost, %llu only counted, %llu in other Ractors",
		             (int)summary->pid, (unsigned long long)lost, (unsigned long long)summary->counted,
		             (unsigned long long)summary->other_ractors);
	if (summary->gone)
		message_bare("*** process %d is gone", (int)summary->pid);
	else
		rbtrace_say_detached(summary->pid);
}
