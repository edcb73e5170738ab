/*
 * Native stacks. See native_stack.h.
 *
 * libdw could stop the threads itself, but would keep each stopped while it reads tables and symbols, for the first one a
 * good many milliseconds. So all are copied first (thread_snapshot.c), and a child that has none of our rights unwinds the
 * copies (native_unwind.c): what it reads is the process's.
 */

#define _GNU_SOURCE
#include "tracer/backtrace/native_stack.h"

#include "proto/clock.h"
#include "tracer/backtrace/native_unwind.h"
#include "tracer/backtrace/thread_snapshot.h"
#include "tracer/base/library.h"
#include "tracer/process/trace_permission.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STOP_NS (2 * NS_PER_S)
#define STOP_UNINTERRUPTIBLE_NS (20 * NS_PER_MS)
#define HANG_NS (2 * NS_PER_S) /* beyond the budget: memory that lies on a file system which hangs */
#define UNWIND_NS (10 * NS_PER_S)
#define UNWIND_MEMORY (1u << 30)
#define UNWIND_ANSWER (32u << 20)
#define STACKS_MAX (64u << 20) /* bytes of all threads' stacks */
#define STACK_LEAST 4096u      /* of each, however much those before it took */

void native_stacks_unwind(struct native_stacks *stacks, const struct snapshot *snapshots, const struct target *target)
{
	const struct native_unwind_order order = {.pid = target->pid, .snapshots = snapshots, .count = stacks->count};
	const struct confined_job job = {.target = target,
	                                 .work = native_unwind,
	                                 .argument = &order,
	                                 .budget_ns = UNWIND_NS,
	                                 .memory_max = UNWIND_MEMORY,
	                                 .answer_max = UNWIND_ANSWER};

	stacks->unwound = confined_run(&job, &stacks->answer);
	native_stacks_understand(stacks);
	for (size_t i = 0; i < stacks->count; i++)
		if (snapshots[i].stack_cut && stacks->threads[i].cut && stacks->threads[i].count < NATIVE_FRAMES_MAX)
			stacks->stacks_cut++;
	/* At least where it was. */
	for (size_t i = 0; i < stacks->count; i++)
		if (stacks->threads[i].code == 0 && stacks->threads[i].count == 0) {
			free(stacks->threads[i].frames);
			stacks->threads[i].frames = memory_zeroed(sizeof(struct native_frame));
			stacks->threads[i].frames[0].pc = snapshots[i].pc;
			stacks->threads[i].count = 1;
		}
}

struct taking {
	struct native_stacks stacks;
	struct snapshot *snapshots;
	struct tasks tasks;
	pid_t pid;
	pid_t own;
	uint64_t deadline_ns;
	int refused; /* the last failure */
	bool any;
};

/*
 * The stack of a thread is as large as the process says, and threads may share one: so all of them have a limit. Who comes
 * first gets all that it needs, as long as each of those after it still gets a little.
 */
static size_t stack_allowance(size_t left, size_t threads_after)
{
	size_t reserved = threads_after < STACKS_MAX / STACK_LEAST ? threads_after * STACK_LEAST : STACKS_MAX;
	size_t most = left > reserved ? left - reserved : left / (threads_after + 1);

	return most < SNAPSHOT_STACK_MAX ? most : SNAPSHOT_STACK_MAX;
}

/* Where the machine is busy a thread stops when it gets a processor; in an uninterruptible system call perhaps never. */
static uint64_t stop_deadline(const struct taking *taking, char state)
{
	uint64_t at_ns = clock_now_ns() + (state == 'D' ? STOP_UNINTERRUPTIBLE_NS : STOP_NS);

	return at_ns < taking->deadline_ns ? at_ns : taking->deadline_ns;
}

static void *take(void *argument)
{
	struct taking *taking = argument;
	size_t left = STACKS_MAX;

	for (size_t i = 0; i < taking->tasks.count; i++) {
		size_t index = taking->stacks.count;
		struct native_thread *thread = &taking->stacks.threads[index];

		if (taking->own && taking->tasks.items[i].own_tid != taking->own)
			continue;
		taking->stacks.count++;
		thread->task = taking->tasks.items[i];
		thread->code = -ETIMEDOUT;
		if (clock_now_ns() < taking->deadline_ns)
			thread->code = snapshot_take(&taking->snapshots[index], taking->pid, thread->task.tid,
			                             stack_allowance(left, taking->tasks.count - i - 1),
			                             stop_deadline(taking, thread->task.state));
		left -= taking->snapshots[index].stack_size;
		thread->stopped_ns = taking->snapshots[index].stopped_ns;
		if (thread->code == 0)
			taking->any = true;
		else
			taking->refused = thread->code;
		if (thread->code == -EPERM)
			break; /* nor will the others be allowed */
	}
	return NULL;
}

/*
 * Our thread's end makes the kernel let go of all that it traces, also of what did not stop in time. False: it hangs, and
 * only our own end will end it.
 */
static bool taken(pthread_t thread, uint64_t budget_ns)
{
	struct timespec until;
	uint64_t ns;

	clock_gettime(CLOCK_REALTIME, &until);
	ns = (uint64_t)until.tv_nsec + budget_ns + HANG_NS;
	until.tv_sec += (time_t)(ns / NS_PER_S);
	until.tv_nsec = (long)(ns % NS_PER_S);
	if (pthread_timedjoin_np(thread, NULL, &until) == 0)
		return true;
	pthread_detach(thread);
	return false;
}

static void taking_free(struct taking *taking)
{
	for (size_t i = 0; i < taking->tasks.count; i++)
		snapshot_free(&taking->snapshots[i]);
	free(taking->snapshots);
	tasks_free(&taking->tasks);
	free(taking);
}

int native_stacks_take(struct native_stacks *stacks, const struct target *target, pid_t own, uint64_t budget_ns,
                       struct error *err)
{
	struct taking *taking = memory_zeroed(sizeof(*taking));
	pthread_t thread;
	int status;

	memset(stacks, 0, sizeof(*stacks));
	tasks_read(&taking->tasks, target->pid);
	taking->stacks.threads = memory_zeroed(taking->tasks.count * sizeof(*stacks->threads) + 1);
	taking->snapshots = memory_zeroed(taking->tasks.count * sizeof(*taking->snapshots) + 1);
	taking->pid = target->pid;
	taking->own = own;
	taking->deadline_ns = clock_now_ns() + budget_ns;
	taking->refused = -ESRCH;
	status = pthread_create(&thread, NULL, take, taking);
	if (status == 0 && !taken(thread, budget_ns))
		return error_set(
			err, -ETIMEDOUT,
			"the memory of process %d cannot be read: it lies in files on a file system that does not answer",
			(int)target->pid); /* and what the thread uses stays */
	*stacks = taking->stacks;
	if (taking->any)
		native_stacks_unwind(stacks, taking->snapshots, target);
	if (status != 0)
		status = error_set(err, -status, "no thread could be made to look at process %d: %s", (int)target->pid,
		                   strerror(status));
	else
		status = taking->any ? 0 : trace_permission_explain(target, taking->refused, err);
	taking_free(taking);
	return status;
}

bool native_module_is_musl(const char *name, size_t size)
{
	return (size == strlen("libc.so") && memcmp(name, "libc.so", size) == 0) ||
	       (size > strlen("ld-musl-") && memcmp(name, "ld-musl-", strlen("ld-musl-")) == 0);
}

const char *native_stacks_gap(const struct native_stacks *stacks)
{
	if (!library_is_there(LIBRARY_DW))
		return "this rbprobe was built without libdw (Debian: libdw-dev): of native frames only the innermost is shown";
	switch (stacks->unwound) {
	case 0:
		return stacks->stacks_cut ? "some frames are missing: its threads' stacks are larger than 64 MiB in all" : NULL;
	case -ETIMEDOUT:
		return "some frames are missing: its files could not be read in time (a file system that does not answer, or "
		       "enormous tables)";
	case -EPERM:
		return "some frames are missing: its user may not read its files from here";
	default:
		return "some frames are missing: its files or tables are malformed";
	}
}

void native_stacks_free(struct native_stacks *stacks)
{
	for (size_t i = 0; i < stacks->count; i++)
		free(stacks->threads[i].frames);
	free(stacks->threads);
	buffer_free(&stacks->answer);
	memset(stacks, 0, sizeof(*stacks));
}
