/*
 * The safety checks. See stop_check.h.
 *
 * Each was found necessary, or kept as it costs nothing: without them processes that allocate were corrupted after 2 to 50
 * loads, and processes with 8 threads were deadlocked after 60. A stop that is refused costs the process some 50 us, and
 * there will be another: what is refused are moments, not states in which a program stays.
 */

#define _GNU_SOURCE
#include "tracer/inject/stop_check.h"

#include "tracer/process/arch.h"

#include <errno.h>
#include <link.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

const char stop_check_new_stack[] = "its stack is new";

#define STACK_WORDS 160              /* how far up the stack a caller inside the loader or malloc is looked for */
#define MUSL_STACK_WORDS 512         /* the same for musl's dlopen, which has room for paths and headers of files on the stack */
#define FRAME_REACH 8192             /* bytes; how far up a signal frame of a handler that is running is looked for */
#define STACK_ROOM 65536             /* bytes that the loader may need of the thread's stack */
#define ARENA_ALIGNMENT 0x3ffffffull /* malloc's secondary heaps are aligned to 64 MiB, their arena's lock is in the first page */

/*
 * System calls in which a thread waits for something from outside: whoever makes them holds no lock of malloc's or the
 * loader's. All others are taken for ones that malloc or the loader may be in the middle of: mmap, munmap, brk, madvise,
 * mprotect, futex wake-ups, ...; they do not last.
 *
 * WAIT_SAFE are those that neither malloc nor the loader itself ever makes, with a lock or without. A thread in one of these is
 * inside neither, and what lies on its stack of either is left over. It would mislead: the thread may stay there for days
 * (Puma's main thread in Thread#join), with the same stack, so that trying again would not help. (A library's initialiser,
 * which the loader calls, may well wait there; it may also call dlopen.)
 */
enum closeness { CLOSE, WAIT_SAFE };

static const struct {
	long system_call;
	enum closeness closeness;
} waits[] = {
	/* Sockets, and only sockets: malloc has none, and libraries come from files. */
	{SYS_accept, WAIT_SAFE},
	{SYS_accept4, WAIT_SAFE},
	{SYS_recvfrom, WAIT_SAFE},
	{SYS_recvmsg, WAIT_SAFE},
	{SYS_recvmmsg, WAIT_SAFE},
	/*
	 * Several descriptors at once, or a time: the loader reads one file after the other, and does not ask before whether
	 * it can.
	 */
	{SYS_ppoll, WAIT_SAFE},
	{SYS_pselect6, WAIT_SAFE},
	{SYS_epoll_pwait, WAIT_SAFE},
#ifdef SYS_epoll_pwait2
	{SYS_epoll_pwait2, WAIT_SAFE},
#endif
#ifdef SYS_poll /* and the others that newer architectures do without */
	{SYS_poll, WAIT_SAFE},
	{SYS_select, WAIT_SAFE},
	{SYS_epoll_wait, WAIT_SAFE},
	{SYS_pause, WAIT_SAFE},
#endif
	/* Children and signals: neither of the two has any. */
	{SYS_wait4, WAIT_SAFE},
	{SYS_waitid, WAIT_SAFE},
	{SYS_rt_sigtimedwait, WAIT_SAFE},
	{SYS_rt_sigsuspend, WAIT_SAFE},

/* Opening a FIFO, or a file on a slow server: malloc and the loader open files as well. */
#ifdef SYS_open
	{SYS_open, CLOSE},
#endif
	{SYS_openat, CLOSE},
	/* Files: the loader reads libraries, malloc libraries their settings and the kernel's, and both may write messages. */
	{SYS_read, CLOSE},
	{SYS_pread64, CLOSE},
	{SYS_readv, CLOSE},
	{SYS_preadv, CLOSE},
	{SYS_write, CLOSE},
	{SYS_pwrite64, CLOSE},
	{SYS_writev, CLOSE},
	{SYS_pwritev, CLOSE},
	/* Pauses: malloc libraries make them between two tries for a spin lock. A restarted call may be one. */
	{SYS_nanosleep, CLOSE},
	{SYS_clock_nanosleep, CLOSE},
	{SYS_restart_syscall, CLOSE},
	/* Neither of the two makes these, but few programs stay there for long: the stack may be looked at as well. */
	{SYS_sendto, CLOSE},
	{SYS_sendmsg, CLOSE},
	{SYS_sendmmsg, CLOSE},
	{SYS_connect, CLOSE},
	{SYS_sendfile, CLOSE},
	{SYS_splice, CLOSE},
	{SYS_copy_file_range, CLOSE},
	{SYS_flock, CLOSE},
	{SYS_fcntl, CLOSE},
	{SYS_fsync, CLOSE},
	{SYS_fdatasync, CLOSE},
	{SYS_msgrcv, CLOSE},
	{SYS_msgsnd, CLOSE},
#ifdef SYS_semop /* elsewhere a form of another */
	{SYS_semop, CLOSE},
#endif
	{SYS_semtimedop, CLOSE},
	{SYS_io_getevents, CLOSE},
#ifdef SYS_io_uring_enter
	{SYS_io_uring_enter, CLOSE},
#endif
};

static bool is_blocking(long system_call)
{
	for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++)
		if (waits[i].system_call == system_call)
			return true;
	return false;
}

static int futex_operation(const struct arch_registers *registers)
{
	return (int)arch.system_call_argument(registers, 1) & FUTEX_CMD_MASK;
}

static bool is_wait_safe(const struct stop_check *check, const struct arch_registers *registers)
{
	for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++)
		if (waits[i].system_call == registers->system_call)
			return waits[i].closeness == WAIT_SAFE;
	/*
	 * Condition variables, semaphores, timed locks. Those that belong to one of the two have been refused
	 * (futex_objection).
	 */
	return registers->system_call == SYS_futex && (futex_operation(registers) == FUTEX_WAIT_BITSET || !check->loader);
}

/*
 * In a read of a pipe, a socket or a terminal: neither malloc nor the loader reads there (the loader would of a library that is a
 * FIFO, and nothing of it is in any list by then), and a thread may stay as long as in the calls that are WAIT_SAFE. The link is
 * read, as to ask what is behind it could wait for a server of files.
 */
static bool waits_for_input(const struct stop_check *check, const struct arch_registers *registers)
{
	static const char *const inputs[] = {"pipe:", "socket:", "/dev/pts/", "/dev/tty", "/dev/console"};
	char path[64], target[64] = "";

	if (registers->system_call != SYS_read && registers->system_call != SYS_readv)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", check->remote->pid, (int)arch.system_call_argument(registers, 0));
	if (readlink(path, target, sizeof(target) - 1) < 0)
		return false;
	for (size_t i = 0; i < sizeof(inputs) / sizeof(*inputs); i++)
		if (strncmp(target, inputs[i], strlen(inputs[i])) == 0)
			return true;
	return false;
}

static bool in_allocator(const struct stop_check *check, uint64_t address)
{
	for (size_t i = 0; i < check->allocator_count; i++)
		if (remote_module_has(check->allocators[i], address))
			return true;
	return false;
}

/* Return addresses are in program text; pointers to the loader's data are all over the place. */
static bool is_text(const struct stop_check *check, uint64_t address)
{
	const struct remote_mapping *mapping = remote_mapping_at(check->remote, address);

	return mapping && mapping->executable;
}

static bool in_libc(const struct stop_check *check, uint64_t address)
{
	return remote_module_has(check->libc, address) || remote_module_has(check->libpthread, address);
}

static void allocators_find(struct stop_check *check)
{
	const struct remote *remote = check->remote;
	uint64_t ignored;

	for (size_t i = 0; i < remote->module_count && check->allocator_count < STOP_CHECK_MODULES_MAX; i++) {
		const struct remote_module *module = &remote->modules[i];

		if (module != check->libc && module != check->libpthread && module != check->loader &&
		    remote_symbol(remote, module, "malloc", &ignored))
			check->allocators[check->allocator_count++] = module;
	}
}

/*
 * musl has a pointer to what is _r_debug elsewhere. Its file is called libc.so or ld-musl-x86_64.so.1. Before version 1.2.4 the
 * state there is always that nothing is being loaded.
 */
static bool musl_find(struct stop_check *check, uint64_t *debug)
{
	const struct remote *remote = check->remote;
	uint64_t pointer;

	for (size_t i = 0; i < remote->module_count; i++) {
		const struct remote_module *module = &remote->modules[i];

		if (remote_symbol(remote, module, "_dl_debug_addr", &pointer) &&
		    remote_function(remote, module, "dlopen", &check->dlopen_start, &check->dlopen_end) &&
		    remote_read(remote, pointer, debug, sizeof(*debug))) {
			check->libc = module;
			return true;
		}
	}
	return false;
}

bool stop_check_init(struct stop_check *check, const struct remote *remote)
{
	uint64_t debug = 0;

	memset(check, 0, sizeof(*check));
	check->remote = remote;
	check->libc = remote_module_named(remote, "libc");
	check->libpthread = remote_module_named(remote, "libpthread");
	for (size_t i = 0; i < remote->module_count && !check->loader; i++)
		if (remote_symbol(remote, &remote->modules[i], "_r_debug", &debug))
			check->loader = &remote->modules[i];
	if ((!check->libc || !check->loader) && !musl_find(check, &debug))
		return false;
	check->loader_state = debug + offsetof(struct r_debug, r_state);
	if (arch.find_restorer) {
		check->restorers[0] = remote_text_find(remote, check->libc, arch.find_restorer);
		check->restorers[1] = remote_text_find(remote, check->libpthread, arch.find_restorer);
	}
	allocators_find(check);
	return true;
}

/* A thread that waits for a lock of malloc's will get it, and goes on inside malloc. */
static const char *futex_objection(const struct stop_check *check, const struct arch_registers *registers)
{
	uint64_t address = arch.system_call_argument(registers, 0);
	int operation = futex_operation(registers);
	const struct remote_mapping *mapping;

	if (operation != FUTEX_WAIT && operation != FUTEX_WAIT_BITSET)
		return "it was releasing a lock";
	if (in_libc(check, address) || remote_module_has(check->loader, address))
		return "it was waiting for a lock of libc";
	if (in_allocator(check, address))
		return "it was waiting for a lock of malloc";
	/* Condition variables, semaphores and timed locks; those of malloc's arenas are not timed. musl has no arenas. */
	if (operation == FUTEX_WAIT_BITSET || !check->loader)
		return NULL;
	mapping = remote_mapping_at(check->remote, address);
	/* Memory that was mapped after we looked is taken for anonymous. */
	if ((!mapping || mapping->path[0] != '/') && (address & ARENA_ALIGNMENT) < 0x1000)
		return "it was waiting for a lock of malloc";
	return NULL;
}

static const char *place_objection(const struct stop_check *check, const struct arch_registers *registers)
{
	uint64_t pc = arch.pc(registers);
	int32_t state;

	/* Something is being loaded or unloaded, by this thread or another: the list of libraries is in between. */
	if (!remote_read(check->remote, check->loader_state, &state, sizeof(state)))
		return "its memory could not be read";
	if (state != RT_CONSISTENT)
		return "it was loading a library";
	if (remote_module_has(check->loader, pc))
		return "it was in the dynamic loader";
	if (in_allocator(check, pc))
		return "it was allocating memory";
	if (registers->system_call >= 0) {
		if (registers->system_call == SYS_futex)
			return futex_objection(check, registers);
		return is_blocking(registers->system_call) ? NULL : "it was in a short system call, perhaps allocating memory";
	}
	/* It may be malloc, or something that holds a lock which malloc needs; what libc does by itself does not last. */
	return in_libc(check, pc) ? "it was in libc, perhaps allocating memory" : NULL;
}

/*
 * A caller inside the loader or malloc: it waits for a lock or has called back, and is not done. Stale addresses on the stack
 * cost a retry.
 */
static const char *stack_objection(const struct stop_check *check, const struct injection *injection)
{
	uint64_t sp = arch.sp(&injection->registers), words[MUSL_STACK_WORDS];
	const struct remote_mapping *mapping = remote_mapping_at(check->remote, sp);
	size_t count = STACK_WORDS;

	if (!mapping)
		return stop_check_new_stack;
	if (strcmp(mapping->path, "[stack]") != 0 && sp - mapping->start < STACK_ROOM)
		return "its stack has too little room (a fiber's?)";
	if (is_wait_safe(check, &injection->registers) || waits_for_input(check, &injection->registers))
		return NULL;
	if (!check->loader)
		count = MUSL_STACK_WORDS;
	if ((mapping->end - sp) / sizeof(*words) < count)
		count = (mapping->end - sp) / sizeof(*words);
	if (!remote_read(check->remote, sp, words, count * sizeof(*words)))
		return "its memory could not be read";
	for (size_t i = 0; i < count; i++) {
		if ((remote_module_has(check->loader, words[i]) && is_text(check, words[i])) ||
		    (words[i] > check->dlopen_start && words[i] <= check->dlopen_end))
			return "it was in the dynamic loader";
		if (in_allocator(check, words[i]) && is_text(check, words[i]))
			return "it was allocating memory";
	}
	return NULL;
}

/*
 * A signal handler that is running may have interrupted malloc: its frame shows where. It is that of a running handler, and
 * not what is left of one, if the signal is blocked now and was not before (handlers run with their own signal blocked).
 * Having interrupted a blocking system call it is harmless: that is at the call's instruction, to begin again, or after it
 * with EINTR; with any other result it was one that had ended, say, malloc's brk.
 */
static bool frame_objectionable(const struct stop_check *check, uint64_t address, uint64_t mask_now)
{
	uint8_t bytes[ARCH_SIGNAL_FRAME_SIZE], code[2 * ARCH_CODE_AROUND];
	struct arch_signal_frame frame;
	uint64_t bit;

	if (!remote_read(check->remote, address, bytes, sizeof(bytes)))
		return false;
	arch.signal_frame_decode(bytes, &frame);
	if (frame.signal < 1 || frame.signal > 64)
		return false;
	bit = (uint64_t)1 << (frame.signal - 1);
	if (!(mask_now & bit) || (frame.mask & bit))
		return false;
	if (remote_module_has(check->loader, frame.pc) || in_allocator(check, frame.pc))
		return true;
	if (!in_libc(check, frame.pc))
		return false;
	if (!remote_read(check->remote, frame.pc - ARCH_CODE_AROUND, code, sizeof(code)))
		return true;
	arch.signal_frame_judge(&frame, code);
	if (!frame.at_system_call)
		return true;
	return frame.restarts ? !is_blocking((long)frame.number) : frame.result != (uint64_t)-EINTR;
}

/* Whether such a word of the stack is one that frames of handlers are known by. */
static bool is_of_frame(const struct stop_check *check, uint64_t word)
{
	if (arch.signal_frame_word)
		return word == arch.signal_frame_word;
	for (size_t i = 0; i < sizeof(check->restorers) / sizeof(*check->restorers); i++)
		if (check->restorers[i] && word == check->restorers[i])
			return true;
	return false;
}

static const char *handler_objection(const struct stop_check *check, const struct injection *injection)
{
	uint64_t words[FRAME_REACH / sizeof(uint64_t)], sp = arch.sp(&injection->registers);
	const struct remote_mapping *mapping = remote_mapping_at(check->remote, sp);
	size_t count = sizeof(words) / sizeof(*words);

	if (mapping && (mapping->end - sp) / sizeof(*words) < count)
		count = (mapping->end - sp) / sizeof(*words);
	if (!remote_read(check->remote, sp, words, count * sizeof(*words)))
		return "its memory could not be read";
	for (size_t i = arch.signal_frame_word_at / sizeof(*words); i < count; i++)
		if (is_of_frame(check, words[i]) &&
		    frame_objectionable(check, sp + i * sizeof(*words) - arch.signal_frame_word_at, injection->mask))
			return "it was handling a signal that had interrupted libc";
	return NULL;
}

const char *stop_check_objection(const struct stop_check *check, const struct injection *injection)
{
	const char *objection = place_objection(check, &injection->registers);

	if (!objection)
		objection = stack_objection(check, injection);
	if (!objection)
		objection = handler_objection(check, injection);
	return objection;
}
