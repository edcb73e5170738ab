#ifndef RBPROBE_PROFILE_GVL_H
#define RBPROBE_PROFILE_GVL_H

#include "tracee/base/msgpack_builder.h"
#include "tracee/requests/profile_threads.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Who waits for the GVL, and who has it meanwhile. From Ruby 3.2 on the VM's events tell; before that samples do, which see
 * threads that could run and do not. One profile at a time has this. Context: job, GVL held, where nothing else is said.
 */

struct profile_gvl;

/* NULL: no memory. May raise. */
struct profile_gvl *profile_gvl_start(void);
/* Also where no Ruby function may be called. */
void profile_gvl_stop(struct profile_gvl *gvl);
/* Async-signal-safe. */
void profile_gvl_fork_child(void);
void profile_gvl_free(struct profile_gvl *gvl);
/* The VM's events are heard, and nothing has to be guessed. */
bool profile_gvl_by_events(const struct profile_gvl *gvl);

/* What a thread has had since the last sample. */
struct profile_gvl_times {
	uint64_t waits;     /* that are over */
	uint64_t waited_ns; /* of those, and of one that goes on */
	uint64_t held_ns;   /* for so long others waited while it had the GVL, added up over these */
};

/* A sample begins: what is going on is split here. */
void profile_gvl_begin(struct profile_gvl *gvl);
/* Once for each thread and sample. The first time the thread becomes known to the events. */
struct profile_gvl_times profile_gvl_take(struct profile_gvl *gvl, const struct profile_thread *thread);
/*
 * The same where there are no events: whether this thread could run and did not, while holder (0: nobody is known) did. May
 * raise.
 */
struct profile_gvl_times profile_gvl_guess(struct profile_gvl *gvl, const struct profile_thread *thread, uint32_t holder,
                                           uint64_t passed_ns);
/* Adds "gvl_pairs" to the map that is open, and empties them. */
void profile_gvl_tell(struct profile_gvl *gvl, struct msgpack_builder *answer);

#endif
