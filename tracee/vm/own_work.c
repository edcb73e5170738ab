/* Frames of rbprobe's own work. See own_work.h. */

#include "tracee/vm/own_work.h"

#include "tracee/vm/thread_layout.h"

#include <ruby/debug.h>

#define COUNTED_MAX 600

#define FUNCTIONS_MAX 8u

static struct own_work *newest; /* under the GVL */
static uintptr_t functions_met[FUNCTIONS_MAX];

void own_work_note(uintptr_t function)
{
	unsigned i = 0;

	while (i < FUNCTIONS_MAX && functions_met[i] && functions_met[i] != function)
		i++;
	if (i < FUNCTIONS_MAX)
		functions_met[i] = function;
}

unsigned own_work_functions(uintptr_t *functions, unsigned max)
{
	unsigned count = 0;

	while (count < FUNCTIONS_MAX && count < max && functions_met[count]) {
		functions[count] = functions_met[count];
		count++;
	}
	return count;
}

void own_work_begin(struct own_work *work, uintptr_t function)
{
	static VALUE frames[COUNTED_MAX];
	static int lines[COUNTED_MAX];
	int count = rb_profile_frames(0, COUNTED_MAX, frames, lines);

	*work = (struct own_work){.thread = rb_thread_current(), .next = newest, .frames = count < COUNTED_MAX ? count : -1};
	work->context = (uintptr_t)thread_running_context(work->thread);
	work->innermost = count > 0 ? frames[0] : 0;
	work->line = count > 0 ? lines[0] : 0;
	newest = work;
	own_work_note(function);
}

/* Work of other threads may have begun since. */
void own_work_end(struct own_work *work)
{
	struct own_work **place = &newest;

	while (*place && *place != work)
		place = &(*place)->next;
	if (*place)
		*place = work->next;
}

/* The first one of this fiber: whatever began in it later is work within that work. */
static const struct own_work *oldest_of(VALUE thread)
{
	uintptr_t context = (uintptr_t)thread_running_context(thread);
	const struct own_work *found = NULL;

	for (const struct own_work *work = newest; work; work = work->next)
		if (work->thread == thread && work->context == context)
			found = work;
	return found;
}

int own_work_frames(VALUE thread, const VALUE *frames, const int *lines, int count, int limit)
{
	const struct own_work *work = newest ? oldest_of(thread) : NULL;

	if (!work || count <= 0)
		return 0;
	if (work->frames >= 0 && count < limit)
		return count > work->frames ? count - work->frames : 0;
	/* The outermost frames are missing. Compaction may have moved what is looked for. */
	for (int i = 0; i < count; i++)
		if (frames[i] == work->innermost && lines[i] == work->line)
			return i;
	return -1;
}

void own_work_fork_child(void)
{
	newest = NULL;
}
