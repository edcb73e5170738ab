#ifndef RBPROBE_ENGINE_TARGET_SITES_H
#define RBPROBE_ENGINE_TARGET_SITES_H

#include "proto/error.h"
#include "tracee/engine/watched_code.h"
#include "tracee/frame/frame_layout.h"
#include "tracee/observe/probe.h"

#include <ruby.h>
#include <ruby/st.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The sites of engine target: which methods share a TracePoint, which probes it serves, and what is left when no probe wants it.
 * Job context, GVL held, except where said. engine_target.c arms them, engine_target_event.c is called for them.
 */

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
	VALUE method;                   /* site_mark() pins it: it keeps the definition, whose address may be the key */
	struct watched_code watched;
	bool calls_only; /* its TracePoint does not see how they end */
	st_data_t key;   /* of what shares it; 0: it is not shared */
	st_data_t block; /* the code's key; 0: it is not for a method that is made of a block */
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
static inline struct engine_target_site *site_link_of(const struct site *site, const struct probe *probe)
{
	struct engine_target_site *link = probe->sites;

	while (link && link->site != site)
		link = link->next;
	return link;
}

/* A TracePoint's callback; data: its site. Event context. */
void engine_target_event(VALUE tracepoint, void *data);

/* Whether the method has room for the hooks of but one TracePoint: up to 3.1, where define_method made it. */
bool site_must_be_shared(VALUE method);

/*
 * What methods have in common that share a TracePoint; 0: this one has none to share. A method that define_method makes of a
 * block has hooks of its own, with its definition. Whoever keeps a key keeps method and code, so that nothing else gets their
 * addresses. calls_only: where nothing but calls is counted, the TracePoint is one for them alone, which costs less. It is
 * another than that of those who want to see the ends as well.
 */
st_data_t site_key(VALUE method, VALUE code, bool calls_only);

/* The one with the key that is armed, about to be, or still on; NULL: there is none. */
struct site *site_shared(st_data_t key);

/*
 * How many sites there are for methods of this one's block. The VM has the hooks of all of them in one list, which it walks to
 * its end for each that is disabled (rb_hook_list_remove_tracepoint() of 2.7 to 4.0), with the GVL held: 2,000 take some 20 ms
 * together, 50,000 minutes.
 */
uint32_t sites_of_block(VALUE method, VALUE code);
#define SITES_OF_BLOCK_MAX 2000

/* A new one that serves the probe, without a TracePoint; NULL: no memory. probe->sites->site is it. */
struct site *site_new(struct probe *probe, VALUE method, VALUE code, st_data_t key);

/* Gives the probe one more link to a site that is there, as probe->sites. False: no memory, and nothing has changed. */
bool site_add(struct site *site, struct probe *probe);

/* Has the probe served by a site that is there: again, or as well. 0, or -ENOMEM with err, and nothing has changed. */
int site_join(struct site *site, struct probe *probe, struct error *err);

/* The link's probe does not want it any more: the last one disables the TracePoint, or leaves that to engine_target_sweep(). */
void site_unwant(struct engine_target_site *link);

/* The probe is freed. Calls no Ruby function. */
void sites_leave(struct probe *probe);

/* In GC. */
void site_mark(const struct site *site);

#endif
