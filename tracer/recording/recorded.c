/* Which processes a recording has. See recorded.h. */

#include "tracer/recording/recorded.h"

#include "tracer/base/buffer.h"

#include <stdlib.h>
#include <string.h>

void recorded_add(struct recorded *recorded, pid_t pid, uint64_t duration_ns)
{
	const struct slice name = {(const char *)&pid, sizeof(pid)};
	uint32_t number = words_find(&recorded->pids, name);
	uint64_t time_ns = duration_ns;

	if (number != NO_WORD) {
		time_ns = recorded->times_ns[number] += duration_ns;
	} else if (recorded->pids.memory >= RECORDED_MEMORY_MAX) {
		recorded->others++;
	} else {
		number = words_number(&recorded->pids, name);
		if (number == recorded->room) {
			recorded->room = recorded->room ? 2 * recorded->room : 16;
			recorded->times_ns = memory_resize(recorded->times_ns, recorded->room * sizeof(*recorded->times_ns));
		}
		recorded->times_ns[number] = duration_ns;
	}
	if (time_ns > recorded->longest_ns)
		recorded->longest_ns = time_ns;
}

uint32_t recorded_count(const struct recorded *recorded)
{
	return recorded->pids.count + recorded->others;
}

pid_t recorded_pid(const struct recorded *recorded)
{
	pid_t pid = 0;

	if (recorded_count(recorded) == 1)
		memcpy(&pid, recorded->pids.texts[0].bytes, sizeof(pid));
	return pid;
}

void recorded_free(struct recorded *recorded)
{
	words_free(&recorded->pids);
	free(recorded->times_ns);
	*recorded = (struct recorded){0};
}
