/*
 * Unwinding with elfutils' libdw. See native_stack.h.
 *
 * libdw could stop the threads itself, but would keep each stopped while it reads tables and symbols, for the first one a good many milliseconds. So all are copied
 * first (thread_snapshot.c), and libdw is given the copies. Files are opened in the process's own root, be that a container's.
 */

#define _GNU_SOURCE
#include "native_stack.h"

#include "buffer.h"
#include "proto/clock.h"
#include "thread_snapshot.h"
#include "trace_permission.h"

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES_MAX 256
#define STOP_NS (2 * NS_PER_S)
#define STOP_UNINTERRUPTIBLE_NS (20 * NS_PER_MS)
#define GAP_SIZE_MAX 4096 /* bytes of stack */
#define GAP_TRIES_MAX 24

struct names {
	char **items;
	size_t count;
};

struct unwinding {
	pid_t pid;
	Dwfl *dwfl;
	const struct snapshot *snapshot; /* the thread that is being unwound, */
	uint64_t pc, sp;                 /* from here; its own, or those of an outer frame */
	struct native_thread *thread;
	struct names *names;
};

/* --- What libdw asks for */

static int find_elf(Dwfl_Module *module, void **user_data, const char *name, Dwarf_Addr base, char **file_name, Elf **elf)
{
	char path[4096 + 32];
	int fd;

	if (name[0] != '/')
		return dwfl_linux_proc_find_elf(module, user_data, name, base, file_name, elf);
	snprintf(path, sizeof(path), "/proc/%d/root%s", (int)(intptr_t)*user_data, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	/* It was replaced or removed since it was mapped: libdw then looks into the process's memory. */
	if (fd < 0)
		return dwfl_linux_proc_find_elf(module, user_data, name, base, file_name, elf);
	*file_name = strdup(path);
	return fd;
}

/* Separate files with debug information are not looked for: they may be on a server, and what they add is lines, not frames. */
static int find_debuginfo(Dwfl_Module *module, void **user_data, const char *name, Dwarf_Addr base, const char *file_name,
                          const char *link, GElf_Word crc, char **debuginfo_name)
{
	(void)module;
	(void)user_data;
	(void)name;
	(void)base;
	(void)file_name;
	(void)link;
	(void)crc;
	(void)debuginfo_name;
	return -1;
}

static const Dwfl_Callbacks file_callbacks = {.find_elf = find_elf, .find_debuginfo = find_debuginfo};

static pid_t next_thread(Dwfl *dwfl, void *argument, void **thread_argument)
{
	const struct unwinding *unwinding = argument;

	(void)dwfl;
	if (*thread_argument)
		return 0;
	*thread_argument = argument;
	return unwinding->snapshot->tid;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *argument, void **thread_argument)
{
	const struct unwinding *unwinding = argument;

	(void)dwfl;
	*thread_argument = argument;
	return unwinding->snapshot->tid == tid;
}

static bool memory_read(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *result, void *argument)
{
	const struct unwinding *unwinding = argument;
	uint64_t word;

	(void)dwfl;
	if (!snapshot_read(unwinding->snapshot, unwinding->pid, address, &word))
		return false;
	*result = word;
	return true;
}

static bool set_registers(Dwfl_Thread *thread, void *argument)
{
	const struct unwinding *unwinding = argument;
	const struct snapshot *snapshot = unwinding->snapshot;
	Dwarf_Word words[SNAPSHOT_REGISTERS_MAX];

	for (unsigned i = 0; i < snapshot->register_count; i++)
		words[i] = snapshot->registers[i];
	words[SNAPSHOT_STACK_POINTER] = unwinding->sp;
	if (unwinding->pc != snapshot->pc)
		words[snapshot->register_count - 1] = unwinding->pc;
	dwfl_thread_state_register_pc(thread, unwinding->pc);
	return dwfl_thread_state_registers(thread, 0, snapshot->register_count, words);
}

static const Dwfl_Thread_Callbacks thread_callbacks = {
	.next_thread = next_thread, .get_thread = get_thread, .memory_read = memory_read, .set_initial_registers = set_registers};

/* --- Frames */

/* A copy that lives as long as the stacks. There are few different ones. */
static const char *keep(struct names *names, const char *name)
{
	for (size_t i = names->count; i > 0; i--)
		if (strcmp(names->items[i - 1], name) == 0)
			return names->items[i - 1];
	names->items = memory_resize(names->items, (names->count + 1) * sizeof(*names->items));
	names->items[names->count] = strdup(name);
	return names->items[names->count++];
}

static int add_frame(Dwfl_Frame *state, void *argument)
{
	struct unwinding *unwinding = argument;
	struct native_thread *thread = unwinding->thread;
	struct native_frame frame = {0};
	const char *name, *slash;
	Dwfl_Module *module;
	Dwarf_Addr pc, start = 0;
	GElf_Off offset = 0;
	GElf_Sym symbol;
	bool exact;

	if (thread->count == FRAMES_MAX) {
		thread->cut = true;
		return DWARF_CB_ABORT;
	}
	if (!dwfl_frame_pc(state, &pc, &exact))
		return DWARF_CB_ABORT;
	frame.pc = pc;
	/* A return address may be the first byte of the next function. */
	module = dwfl_addrmodule(unwinding->dwfl, exact ? pc : pc - 1);
	if (module) {
		name = dwfl_module_info(module, NULL, &start, NULL, NULL, NULL, NULL, NULL);
		slash = name ? strrchr(name, '/') : NULL;
		frame.module = name ? keep(unwinding->names, slash ? slash + 1 : name) : NULL;
		frame.offset = pc - start;
		name = dwfl_module_addrinfo(module, exact ? pc : pc - 1, &offset, &symbol, NULL, NULL, NULL);
		/* The nearest symbol before is a guess where it does not say how far it reaches. */
		if (name && symbol.st_size > 0) {
			frame.function = keep(unwinding->names, name);
			frame.offset = offset + (exact ? 0 : 1);
		}
	}
	thread->frames = memory_resize(thread->frames, (thread->count + 1) * sizeof(frame));
	thread->frames[thread->count++] = frame;
	return DWARF_CB_OK;
}

/*
 * Beyond a function without unwind information, such as GMP's in assembler, the nearest word on the stack is looked for that can be a return address, and from which
 * everything unwinds up to the thread's beginning. What lies in between is a gap.
 */
static void bridge(struct unwinding *unwinding)
{
	const struct snapshot *snapshot = unwinding->snapshot;
	struct native_thread *thread = unwinding->thread, inner = *thread;
	unsigned tried = 0;

	for (uint64_t at = snapshot->sp; at < snapshot->sp + GAP_SIZE_MAX && tried < GAP_TRIES_MAX; at += sizeof(uint64_t)) {
		uint64_t word;

		if (!snapshot_read(snapshot, unwinding->pid, at, &word) || !dwfl_addrmodule(unwinding->dwfl, word) ||
		    !snapshot_is_return_address(snapshot, unwinding->pid, word))
			continue;
		tried++;
		thread->frames = NULL;
		thread->count = 0;
		unwinding->pc = word;
		unwinding->sp = at + sizeof(word);
		if (dwfl_getthread_frames(unwinding->dwfl, snapshot->tid, add_frame, unwinding) == 0 && thread->count > 1) {
			thread->frames[0].after_gap = true;
			inner.frames = memory_resize(inner.frames, (inner.count + thread->count) * sizeof(*inner.frames));
			memcpy(inner.frames + inner.count, thread->frames, thread->count * sizeof(*inner.frames));
			inner.count += thread->count;
			free(thread->frames);
			*thread = inner;
			return;
		}
		free(thread->frames);
	}
	*thread = inner;
}

static void unwind(struct unwinding *unwinding)
{
	unwinding->pc = unwinding->snapshot->pc;
	unwinding->sp = unwinding->snapshot->sp;
	if (dwfl_getthread_frames(unwinding->dwfl, unwinding->snapshot->tid, add_frame, unwinding) == -1 &&
	    unwinding->thread->count <= 1)
		bridge(unwinding);
}

static int report_modules(Dwfl *dwfl, pid_t pid)
{
	int status;

	dwfl_report_begin(dwfl);
	status = dwfl_linux_proc_report(dwfl, pid);
	dwfl_report_end(dwfl, NULL, NULL);
	return status;
}

static int give_pid(Dwfl_Module *module, void **user_data, const char *name, Dwarf_Addr start, void *argument)
{
	(void)module;
	(void)name;
	(void)start;
	*user_data = argument;
	return DWARF_CB_OK;
}

static void unwind_all(struct native_stacks *stacks, const struct snapshot *snapshots, const struct target *target)
{
	struct unwinding unwinding = {.pid = target->pid, .names = stacks->names};
	bool attached = false;

	unwinding.dwfl = dwfl_begin(&file_callbacks);
	if (!unwinding.dwfl)
		return;
	if (report_modules(unwinding.dwfl, target->pid) == 0) {
		// NOLINTNEXTLINE(performance-no-int-to-ptr): an opaque word for find_elf
		dwfl_getmodules(unwinding.dwfl, give_pid, (void *)(intptr_t)target->pid, 0);
		for (size_t i = 0; i < stacks->count; i++) {
			unwinding.snapshot = &snapshots[i];
			unwinding.thread = &stacks->threads[i];
			if (stacks->threads[i].code != 0)
				continue;
			attached =
				attached || dwfl_attach_state(unwinding.dwfl, NULL, target->pid, &thread_callbacks, &unwinding);
			if (attached)
				unwind(&unwinding);
		}
	}
	dwfl_end(unwinding.dwfl);
	/* At least where it was. */
	for (size_t i = 0; i < stacks->count; i++)
		if (stacks->threads[i].code == 0 && stacks->threads[i].count == 0) {
			stacks->threads[i].frames = memory_zeroed(sizeof(struct native_frame));
			stacks->threads[i].frames[0].pc = snapshots[i].pc;
			stacks->threads[i].count = 1;
		}
}

struct taking {
	struct native_stacks *stacks;
	struct snapshot *snapshots;
	const struct target *target;
	const struct tasks *tasks;
	pid_t own;
	uint64_t deadline_ns;
	int refused; /* the last failure */
	bool any;
};

/* Where the machine is busy a thread stops when it gets a processor; in an uninterruptible system call perhaps never. */
static uint64_t stop_deadline(const struct taking *taking, char state)
{
	uint64_t at_ns = clock_now_ns() + (state == 'D' ? STOP_UNINTERRUPTIBLE_NS : STOP_NS);

	return at_ns < taking->deadline_ns ? at_ns : taking->deadline_ns;
}

static void *take(void *argument)
{
	struct taking *taking = argument;

	for (size_t i = 0; i < taking->tasks->count; i++) {
		size_t index = taking->stacks->count;
		struct native_thread *thread = &taking->stacks->threads[index];

		if (taking->own && taking->tasks->items[i].own_tid != taking->own)
			continue;
		taking->stacks->count++;
		thread->task = taking->tasks->items[i];
		thread->code = -ETIMEDOUT;
		if (clock_now_ns() < taking->deadline_ns)
			thread->code = snapshot_take(&taking->snapshots[index], taking->target->pid, thread->task.tid,
			                             stop_deadline(taking, thread->task.state));
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

int native_stacks_take(struct native_stacks *stacks, const struct target *target, pid_t own, uint64_t budget_ns,
                       struct error *err)
{
	struct taking taking = {
		.stacks = stacks, .target = target, .own = own, .deadline_ns = clock_now_ns() + budget_ns, .refused = -ESRCH};
	struct tasks tasks;
	pthread_t thread;
	int status;

	memset(stacks, 0, sizeof(*stacks));
	tasks_read(&tasks, target->pid);
	stacks->names = memory_zeroed(sizeof(struct names));
	stacks->threads = memory_zeroed(tasks.count * sizeof(*stacks->threads) + 1);
	taking.tasks = &tasks;
	taking.snapshots = memory_zeroed(tasks.count * sizeof(*taking.snapshots) + 1);
	/* With the end of our thread the kernel lets go of all that it traces, also of what did not stop in time. */
	status = pthread_create(&thread, NULL, take, &taking);
	if (status == 0)
		pthread_join(thread, NULL);
	if (taking.any)
		unwind_all(stacks, taking.snapshots, target);
	for (size_t i = 0; i < stacks->count; i++)
		snapshot_free(&taking.snapshots[i]);
	free(taking.snapshots);
	tasks_free(&tasks);
	if (status != 0)
		return error_set(err, -status, "no thread could be made to look at process %d: %s", (int)target->pid,
		                 strerror(status));
	return taking.any ? 0 : trace_permission_explain(target, taking.refused, err);
}

void native_stacks_free(struct native_stacks *stacks)
{
	struct names *names = stacks->names;

	for (size_t i = 0; i < stacks->count; i++)
		free(stacks->threads[i].frames);
	free(stacks->threads);
	for (size_t i = 0; names && i < names->count; i++)
		free(names->items[i]);
	if (names)
		free(names->items);
	free(names);
	memset(stacks, 0, sizeof(*stacks));
}
