#ifndef RBPROBE_GVL_SLICE_H
#define RBPROBE_GVL_SLICE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Sharing the GVL during long work of a job: thousands of methods take a tenth of a second to arm, in which an application's
 * other threads would stand still. Job context. Between gvl_slice_begin() and the end everything else may happen: events,
 * definitions of methods, fork in another thread; but no other job of ours, and nothing of the application's is raised, since
 * jobs hold interrupts back.
 *
 * Work for a client is also given up where that has left, or where it takes more of the process than a command may.
 *
 * Handing over the GVL helps no thread but others. So that the one in which the job runs goes on, too, work that can be left and
 * taken up again goes over several jobs: a part in each (gvl_slice_part(), gvl_slice_part_is_over()).
 */

struct gvl_slice {
	uint64_t began_ns;
	uint64_t length_ns;
	const _Atomic bool *client_gone; /* NULL: the work is nobody's, and goes on to its end */
	uint64_t cpu_ns;                 /* of the thread, as the slice began */
	uint64_t worked_ns;              /* CPU time of earlier turns */
	uint64_t limit_ns;
	uint64_t part_ns; /* CPU time of this job's part so far */
	uint64_t part_length_ns;
	uint64_t over_ns; /* when the last part was; 0: there was none */
	char gave_up[96]; /* why; "": it did not */
};

void gvl_slice_begin(struct gvl_slice *slice);

/*
 * The same for work that is given up when it has taken limit_ms of CPU time, or *client_gone is true. gvl_slice_end() has to
 * come, whatever way it ends.
 */
void gvl_slice_begin_for(struct gvl_slice *slice, const _Atomic bool *client_gone, unsigned limit_ms);
void gvl_slice_end(void);

/* A part of the same work begins, in another job; gvl_slice_end() has to come then, too. */
void gvl_slice_part(struct gvl_slice *slice);
/*
 * Between two pieces of it: whether the job has done enough for now, going by CPU time. Raises a RuntimeError where the work is
 * to be given up.
 */
#define GVL_PART_MS 4u  /* at least; as long as other threads computed before, where that was longer */
#define GVL_PAUSE_MS 2u /* after one that is over; a shorter part has a shorter pause */
bool gvl_slice_part_is_over(struct gvl_slice *slice);
/*
 * Whether the application has had time since the last part. Not as much as that took: what it defines in the meantime has to be
 * armed as well, and should not be more than what is armed.
 */
bool gvl_part_is_due(void);

/*
 * Between two pieces of the work: lets the other threads run, if this one has used its slice. Where they compute it will get as
 * much as they had. Raises a RuntimeError where the work is to be given up.
 */
void gvl_slice_pass(struct gvl_slice *slice);
/* The same for what does not know whose work it does: that of gvl_slice_begin_for(), if this is its thread. */
void gvl_slice_pass_current(void);

/* Lets the other threads run now, those that wait for it. Each may compute for as long as Ruby gives a thread. */
void gvl_slice_yield(void);

#endif
