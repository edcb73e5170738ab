#ifndef RBPROBE_ENGINE_TARGET_PARTS_H
#define RBPROBE_ENGINE_TARGET_PARTS_H

#include "tracee/frame/frame_layout.h"
#include "tracee/observe/probe.h"

#include <ruby.h>
#include <ruby/st.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What engine_target.c arms, and engine_target_event.c is called for. */

/*
 * A TracePoint and the probes that it serves: all of those whose methods run the same instructions, in any session and under any
 * name. A `def` that runs for each of ten thousand classes makes ten thousand methods of one instruction sequence. With a
 * TracePoint for each method every call of one would fire them all.
 */
struct site {
	struct probe *only; /* its probe, where it has but one; NULL: any number of them */
	struct frame_places places;
	uint32_t wanted; /* links whose probes are armed */
	uint32_t link_count;
	uint32_t aliases;               /* links of aliases */
	_Atomic uint64_t foreign_calls; /* in other Ractors */
	const void *counted_for;        /* see engine_target_foreign_calls() */
	VALUE tracepoint;               /* engine_target_mark() pins it: nobody but us knows where it is */
	VALUE method;                   /* pinned, too */
	VALUE code;                     /* and its InstructionSequence, whose address may be the key */
	bool calls_only;                /* its TracePoint does not see how they end */
	st_data_t key;                  /* in shared_sites; 0: not shared */
	st_data_t block;                /* in block_sites; 0: it is not for a method that is made of a block */
	uintptr_t definition;           /* see targeted.h */
	struct oneshot_kept *kept;      /* while its TracePoint is on */
	struct engine_target_site *links;
	bool left_over;    /* its TracePoint is on, and nobody wants it */
	struct site *next; /* of those that are left over */
};

/* A probe's site. */
struct engine_target_site {
	struct site *site;
	struct probe *probe;
	uint64_t foreign_before;
	bool wanted;
	bool aliased;         /* its probe's method is an alias */
	st_data_t nested_key; /* of code that is written within the site's; 0: it is the site's own */
	VALUE nested_method;  /* pinned, as the site's */
	VALUE nested_code;
	struct engine_target_site *next; /* of the probe */
	struct engine_target_site *next_of_site, **previous_of_site;
};

/* Where the probe is among those that the site serves; NULL: it is not. */
static inline struct engine_target_site *engine_target_link_of(const struct site *site, const struct probe *probe)
{
	struct engine_target_site *link = probe->sites;

	while (link && link->site != site)
		link = link->next;
	return link;
}

/* A TracePoint's callback; data: its site. */
void engine_target_event(VALUE tracepoint, void *data);

#endif
