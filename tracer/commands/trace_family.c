/* Workers, and when they join. See trace_family.h. */

#include "tracer/commands/trace_family.h"

#include "proto/clock.h"
#include "tracer/base/buffer.h"
#include "tracer/base/message.h"
#include "tracer/base/proc_file.h"
#include "tracer/process/children.h"
#include "tracer/process/target.h"

#include <stdlib.h>

#define UNDECIDED_NS (10 * NS_PER_S) /* for so long what is not Ruby may become Ruby, by exec */

struct master {
	struct target target;
	bool known; /* it could be looked at */
};

struct member {
	pid_t pid;
	uint64_t start_ticks;
	uint64_t seen_ns; /* for the first time */
	bool was_ruby;    /* at the last look */
	bool decided;     /* it was taken, or is none */
};

struct family {
	struct master *masters;
	size_t master_count;
	struct member *members;
	size_t count;
	uint64_t look_ns;
	bool looked; /* once at least: who is there then is taken at once */
	bool verbose;
};

struct family *family_open(const struct options *options)
{
	struct family *family;
	struct error err;

	if (!options->children)
		return NULL;
	family = memory_zeroed(sizeof(*family));
	family->verbose = options->verbose;
	family->master_count = options->pids.count;
	family->masters = memory_zeroed((family->master_count + 1) * sizeof(*family->masters));
	for (size_t i = 0; i < family->master_count; i++)
		family->masters[i].known =
			target_describe(&family->masters[i].target, options->pids.items[i], TARGET_BASIC, &err) == 0;
	return family;
}

void family_free(struct family *family)
{
	if (!family)
		return;
	free(family->masters);
	free(family->members);
	free(family);
}

static bool master_lives(const struct master *master)
{
	char state = master->known ? target_state(&master->target) : 0;

	return state && state != 'Z' && state != 'X';
}

bool family_is_alive(const struct family *family)
{
	for (size_t i = 0; family && i < family->master_count; i++)
		if (master_lives(&family->masters[i]))
			return true;
	return false;
}

uint64_t family_wake_ns(const struct family *family)
{
	return family ? family->look_ns : UINT64_MAX;
}

static struct member *member_of(struct family *family, pid_t pid, uint64_t start_ticks, uint64_t now_ns)
{
	for (size_t i = 0; i < family->count; i++)
		if (family->members[i].pid == pid && family->members[i].start_ticks == start_ticks)
			return &family->members[i];
	family->members = memory_resize(family->members, (family->count + 1) * sizeof(*family->members));
	family->members[family->count] = (struct member){.pid = pid, .start_ticks = start_ticks, .seen_ns = now_ns};
	return &family->members[family->count++];
}

static void forget_ended(struct family *family)
{
	size_t kept = 0;

	for (size_t i = 0; i < family->count; i++) {
		uint64_t start_ticks;
		char state;

		if (proc_stat_read(family->members[i].pid, &state, &start_ticks) == 0 &&
		    start_ticks == family->members[i].start_ticks)
			family->members[kept++] = family->members[i];
	}
	family->count = kept;
}

/* True: it joins now. */
static bool decide(struct family *family, struct member *member, uint64_t now_ns)
{
	uint64_t start_ticks;
	bool is_ruby = process_is_worker(member->pid, &start_ticks) && start_ticks == member->start_ticks;
	bool twice = member->was_ruby || !family->looked;

	member->was_ruby = is_ruby;
	if (is_ruby)
		return member->decided = twice;
	if (now_ns - member->seen_ns < UNDECIDED_NS)
		return false;
	member->decided = true;
	if (family->verbose)
		message_often("process %d is left out: it is not Ruby, or may not be looked at", (int)member->pid);
	return false;
}

static void look_below(struct family *family, pid_t master, uint64_t now_ns, void (*join)(void *owner, pid_t pid), void *owner)
{
	pid_t *pids;
	size_t count = descendants_find(master, &pids);

	for (size_t i = 0; i < count; i++) {
		uint64_t start_ticks;
		struct member *member;
		char state;

		if (proc_stat_read(pids[i], &state, &start_ticks) != 0 || state == 'Z')
			continue;
		member = member_of(family, pids[i], start_ticks, now_ns);
		if (!member->decided && decide(family, member, now_ns))
			join(owner, pids[i]);
	}
	free(pids);
}

void family_step(struct family *family, uint64_t now_ns, void (*join)(void *owner, pid_t pid), void *owner)
{
	if (!family || now_ns < family->look_ns)
		return;
	for (size_t i = 0; i < family->master_count; i++)
		if (master_lives(&family->masters[i]))
			look_below(family, family->masters[i].target.pid, now_ns, join, owner);
	forget_ended(family);
	family->looked = true;
	family->look_ns = now_ns + FAMILY_LOOK_NS;
}

void family_knows(struct family *family, pid_t pid)
{
	uint64_t start_ticks;
	char state;

	if (family && proc_stat_read(pid, &state, &start_ticks) == 0)
		member_of(family, pid, start_ticks, clock_now_ns())->decided = true;
}
