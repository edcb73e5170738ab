/* Objects of rbprobe's own work. See own_objects.h. */

#include "tracee/vm/own_objects.h"

#include <ruby.h>

unsigned own_objects_followers;

/* Work that is under way, of the fiber that began some last; what a fiber that it has run began later ends it. */
static struct {
	const struct fiber_state *fiber;
	unsigned depth;    /* 0: none is */
	uint64_t began_at; /* of all objects */
} work;

static uint64_t own; /* objects of work that is over */

static uint64_t all_objects(void)
{
	static ID id;

	if (!id)
		id = rb_intern("total_allocated_objects");
	return rb_gc_stat(ID2SYM(id));
}

void own_objects_follow(void)
{
	all_objects();
	own_objects_followers++;
}

void own_objects_unfollow(void)
{
	if (--own_objects_followers == 0)
		work.depth = 0;
}

static void end_work(void)
{
	own += all_objects() - work.began_at;
	work.depth = 0;
}

void own_objects_work(const struct fiber_state *fiber)
{
	if (work.depth && work.fiber == fiber) {
		work.depth++;
		return;
	}
	if (work.depth)
		end_work();
	work.fiber = fiber;
	work.depth = 1;
	work.began_at = all_objects();
}

void own_objects_rest(const struct fiber_state *fiber)
{
	if (!work.depth || work.fiber != fiber)
		return;
	if (work.depth == 1)
		end_work();
	else
		work.depth--;
}

uint64_t own_objects_without(const struct fiber_state *fiber)
{
	if (work.depth && work.fiber != fiber)
		end_work();
	return (work.depth ? work.began_at : all_objects()) - own;
}
