/*
 * Where the main thread waits. See waiting.h.
 *
 * The kernel says in which system call a thread is, with its arguments, program counter and stack pointer; of its own threads a
 * process may always know (/proc/self/task). libc's unwind tables tell which function of libc made it, and who called that: the
 * VM (or its socket library), or C code of somebody else, which is left alone. Where there are no tables (musl), or they do not
 * tell, return addresses on the stack do, by what was called there.
 *
 * It has to be a function that makes the call and nothing else. What libc does by others (fwrite, getaddrinfo, syscall) is left
 * alone, be it for the VM: nobody begins that again. So is what the VM only does for others (is_own).
 *
 * Of the VM's own calls those are in the list that Ruby begins again on every version: seen on 2.7, 3.1, 3.3 and 4.0
 * (tests/live/blocking_test.rb). Not in it: open (up to 3.3 EINTR is raised), fcntl (F_SETLKW), connect on a UNIX socket (taken
 * for connected). IO#sysread and IO#syswrite make the same system calls as all other reads and writes and do not begin again:
 * they are known by their functions' being on the stack.
 *
 * Where none of this tells (no /proc in a chroot; a libc without tables on other processors; a sanitizer in between), a thread
 * may be woken out of anything that is in the list.
 */

#define _GNU_SOURCE
#include "tracee/session/waiting.h"

#include "proto/call_code.h"
#include "proto/task_file.h"
#include "proto/terminal.h"
#include "tracee/base/safe_read.h"
#include "tracee/session/unwind.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/method_definition.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <ruby.h>
#include <ruby/debug.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#define STEPS_MAX 32      /* of functions of libc one inside the other: fgets() has 10 in glibc 2.41 */
#define STEPS_IN_VM 6     /* from the wait to the function of the VM that others call */
#define CALLER_WORDS 64   /* how far up the stack the caller is looked for where there are no unwind tables */
#define DOUBTFUL_WORDS 24 /* and how much further, where the first one found may not be the one */
#define STACK_WORDS 512   /* how far up the stack IO#sysread and IO#syswrite are looked for */
#define STACK_WIPED (32u << 10)
#ifdef __GLIBC__
#define LIBC_HAS_TABLES true
#else
#define LIBC_HAS_TABLES false /* of its functions; some of what the compiler adds may have one */
#endif
#define SOCKET_LIBRARY "/socket.so"
#define ANY_LIBRARY ""

struct call {
	long number;
	unsigned long long arguments[6], sp, pc;
};

static struct {
	struct unwind_image vm, libc, threads; /* threads: libpthread, where that is a library of its own */
	struct unwind_image own;               /* this extension */
	uintptr_t plain[2];                    /* functions of IO#sysread and IO#syswrite; 0: not known */
	bool interposed;      /* another library's functions stand between libc's and their callers: a sanitizer's */
	bool plain_hidden;    /* one of them was not found */
	bool plain_at_start;  /* the main thread was in one of them before they were known */
	struct call at_start; /* it may be, in this call: another thread has begun; number -1: no such */
} known = {.at_start = {.number = -1}};

/* Who makes it. */
enum maker { BY_VM = 1, BY_SOCKET_LIBRARY = 2, BY_BOTH = 3 };

#define FUNCTIONS_MAX 5

static const struct {
	long number;
	enum maker makers;
	bool plain_too; /* IO#sysread or IO#syswrite may have made it */
	bool connects;  /* not out of a UNIX socket's */
	/* Of libc, that are called for it; glibc's __..._chk are those of _FORTIFY_SOURCE. */
	const char *functions[FUNCTIONS_MAX];
} wakeable[] = {
	{SYS_futex, BY_VM, false, false, {"pthread_cond_wait", "pthread_cond_timedwait", "pthread_mutex_lock", "pthread_join"}},
	{SYS_ppoll, BY_VM, true, false, {"ppoll", "poll", "__ppoll_chk", "__poll_chk"}},
	{SYS_pselect6, BY_VM, false, false, {"pselect", "select"}},
#ifdef SYS_poll
	{SYS_poll, BY_VM, true, false, {"poll", "__poll_chk"}},
	{SYS_select, BY_VM, false, false, {"select"}},
#endif
	/* What the kernel calls a wait that was stopped (by a debugger, by rbprobe's loader) and goes on. */
	{SYS_restart_syscall, BY_VM, true, false, {"poll", "ppoll", "select", "pthread_cond_timedwait", "__poll_chk"}},
	{SYS_read, BY_VM, true, false, {"read", "__read_chk"}},
	{SYS_readv, BY_VM, true, false, {"readv"}},
	{SYS_write, BY_VM, true, false, {"write"}},
	{SYS_writev, BY_VM, true, false, {"writev"}},
	{SYS_wait4, BY_VM, false, false, {"waitpid", "wait4", "wait", "wait3"}},
	{SYS_waitid, BY_VM, false, false, {"waitid"}},
	{SYS_flock, BY_VM, false, false, {"flock"}},
	{SYS_accept, BY_BOTH, false, false, {"accept"}},
	{SYS_accept4, BY_BOTH, false, false, {"accept4"}},
	{SYS_recvfrom, BY_BOTH, false, false, {"recv", "recvfrom", "__recv_chk", "__recvfrom_chk"}},
	{SYS_recvmsg, BY_BOTH, false, false, {"recvmsg"}},
	{SYS_connect, BY_BOTH, false, true, {"connect"}},
};

#define WAKEABLE (sizeof(wakeable) / sizeof(*wakeable))

/* Where these functions are; 0: nowhere. */
static uintptr_t functions[WAKEABLE][FUNCTIONS_MAX];

/*
 * Functions of the VM that wait for others. They call what they were given, which may end in a call of libc's without a trace on
 * the stack (a tail call): IO_REGIONS call functions of IO and its kin, REGIONS those of any extension. CONDITIONS are called by
 * extensions, too, whose wait is cancelled if its thread is interrupted (the lookup of a name, since 3.3). Where TIMED ones have
 * a timeout, and it is over, who called them looks at errno (since 3.2, for an IO with a timeout): an interrupt leaves EINTR.
 */
enum region {
	IO_REGIONS,
	REGIONS = IO_REGIONS + 2,
	CONDITIONS = REGIONS + 3,
	TIMED = CONDITIONS + 2,
	SYSTEM_CALL = TIMED + 3,
	REGION_COUNT
};

static const char *const region_names[REGION_COUNT] = {
	"rb_thread_io_blocking_region",
	"rb_thread_io_blocking_call",
	"rb_nogvl",
	"rb_thread_call_without_gvl",
	"rb_thread_call_without_gvl2",
	"rb_native_cond_wait",
	"rb_native_cond_timedwait",
	"rb_io_maybe_wait",
	"rb_io_maybe_wait_readable",
	"rb_io_maybe_wait_writable",
	"syscall", /* of libc */
};

static uintptr_t regions[REGION_COUNT];
static uintptr_t polls[2]; /* poll, and its other name */

static void functions_find(void)
{
	for (size_t i = 0; i < WAKEABLE; i++)
		for (size_t k = 0; k < FUNCTIONS_MAX && wakeable[i].functions[k]; k++)
			functions[i][k] = (uintptr_t)dlsym(RTLD_DEFAULT, wakeable[i].functions[k]);
	for (size_t i = 0; i < REGION_COUNT; i++)
		regions[i] = (uintptr_t)dlsym(RTLD_DEFAULT, region_names[i]);
	polls[0] = (uintptr_t)dlsym(RTLD_DEFAULT, "poll");
	polls[1] = (uintptr_t)dlsym(RTLD_DEFAULT, "__poll_chk");
}

void waiting_init(void)
{
	const void *proper = dlsym(RTLD_DEFAULT, "gnu_get_libc_version"); /* nobody has one of these */

	if (known.vm.end)
		return;
	unwind_image_find(&known.libc, dlsym(RTLD_DEFAULT, "poll"));
	unwind_image_find(&known.threads, dlsym(RTLD_DEFAULT, "pthread_cond_wait"));
	unwind_image_find(&known.own, functions);
	known.interposed = proper && !unwind_image_has(&known.libc, (uintptr_t)proper);
	functions_find();
	unwind_image_find(&known.vm, dlsym(RTLD_DEFAULT, "rb_define_method"));
}

/* --- The system call */

/* 1; 0: the thread is in none; -1: not known. */
static int call_read(struct call *call)
{
	char text[256];
	unsigned long long *of = call->arguments;
	int fields;

	if (task_file_read_own(getpid(), "syscall", text, sizeof(text)) <= 0)
		return -1;
	fields = sscanf(text, "%ld %llx %llx %llx %llx %llx %llx %llx %llx", &call->number, &of[0], &of[1], &of[2], &of[3],
	                &of[4], &of[5], &call->sp, &call->pc);
	return fields == 9; /* else "running", or stopped elsewhere than in a system call */
}

static bool is_same_call(const struct call *one, const struct call *other)
{
	return one->number == other->number && one->sp == other->sp && one->pc == other->pc;
}

/* --- IO#sysread, IO#syswrite */

static VALUE learn(VALUE unused)
{
	static const enum builtin_method plain[] = {BUILTIN_IO_SYSREAD, BUILTIN_IO_SYSWRITE};

	(void)unused;
	for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++) {
		VALUE method = Qnil;
		struct method_target target;

		/* The application has taken it away, but may have kept it somewhere. */
		if (!builtin_is_found(plain[i]))
			known.plain_hidden = true;
		else if (method_definition_function(method = builtin_method(plain[i]), &target))
			known.plain[i] = target.function;
		RB_GC_GUARD(method);
	}
	return Qnil;
}

/* What was on the stack while these were looked for would be found there later, by is_plain(). */
static __attribute__((noinline)) void wipe_stack(void)
{
	char room[STACK_WIPED];

	explicit_bzero(room, sizeof(room));
}

void waiting_learn(void)
{
	int failed = 0;

	rb_protect(learn, Qnil, &failed);
	if (failed)
		exception_drop(Qnil);
	wipe_stack();
}

static bool is_plain(const struct call *call, uintptr_t sp)
{
	uintptr_t words[STACK_WORDS];
	size_t count = STACK_WORDS;

	if (known.plain_hidden)
		return true;
	/* A stack may end before. */
	while (count > 8 && !safe_read(sp, words, count * sizeof(*words)))
		count /= 2;
	if (!known.plain[0] && !known.plain[1])
		return known.plain_at_start || is_same_call(call, &known.at_start);
	for (size_t i = 0; count > 8 && i < count; i++) {
		uintptr_t function = unwind_function(&known.vm, words[i]);

		/* No call returns to a function's first byte: that is left over from where somebody looked the method up. */
		if (function && words[i] != function && (function == known.plain[0] || function == known.plain[1]))
			return true;
	}
	return false;
}

/*
 * The innermost method's name tells as well, on the thread itself. The names of methods written in C are needed without the GVL,
 * for a moment. Where the extension starts on another thread, nobody knows: the main one is left alone in what it is in now.
 */
void waiting_note_start(void)
{
	VALUE frame, name;
	int line;

	if (known.plain[0] || known.plain[1])
		return;
	if (syscall(SYS_gettid) != getpid()) {
		if (call_read(&known.at_start) != 1)
			known.at_start.number = -1;
		return;
	}
	if (!compat_names_need_no_lock() || rb_profile_frames(0, 1, &frame, &line) != 1 || !NIL_P(rb_profile_frame_path(frame)))
		return;
	name = rb_profile_frame_method_name(frame);
	known.plain_at_start = !RB_SPECIAL_CONST_P(name) && RB_BUILTIN_TYPE(name) == T_STRING && RSTRING_LEN(name) >= 7 &&
	                       (memcmp(RSTRING_PTR(name), "sysread", 7) == 0 || memcmp(RSTRING_PTR(name), "syswrit", 7) == 0);
}

/* --- The caller */

/* The place in the first function outside of libc, and the function of libc that it called. False: the tables do not tell. */
static bool leave_libc(struct unwind_place *place, uintptr_t *called)
{
	for (int i = 0; i < STEPS_MAX; i++) {
		const struct unwind_image *image = unwind_image_has(&known.libc, place->pc)      ? &known.libc
		                                   : unwind_image_has(&known.threads, place->pc) ? &known.threads
		                                                                                 : NULL;

		if (!image)
			return true;
		*called = unwind_function(image, place->pc - place->is_return);
		if (!unwind_step(image, place, safe_read))
			return false;
	}
	return true;
}

static bool line_has(const char *line, uintptr_t address)
{
	char *end;
	uintptr_t start = strtoull(line, &end, 16);

	return *end == '-' && address >= start && address < strtoull(end + 1, NULL, 16);
}

/* Whether that line is of a file's code, whose name ends so. */
static bool is_code(const char *line, const char *name)
{
	const char *access = strchr(line, ' '), *path = strchr(line, '/');
	size_t length = strlen(name), size = path ? strlen(path) : 0;

	return access && access[3] == 'x' && size > length && strcmp(path + size - length, name) == 0;
}

/* Whether an address is in the code of a library of that name, by the kernel's map: the loader's own takes its lock. */
static bool is_in_library(uintptr_t address, const char *name)
{
	static char text[8192]; /* one native thread looks */
	size_t filled = 0;
	bool found = false, over = false;
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	while (fd >= 0 && !over) {
		ssize_t got = read(fd, text + filled, sizeof(text) - 1 - filled);
		char *line = text, *end;

		if (got <= 0)
			break;
		filled += (size_t)got;
		text[filled] = '\0';
		while (!over && (end = strchr(line, '\n'))) {
			*end = '\0';
			over = line_has(line, address);
			found = over && is_code(line, name);
			line = end + 1;
		}
		filled -= (size_t)(line - text);
		memmove(text, line, filled);
		if (filled >= sizeof(text) - 1)
			filled = 0; /* a path that long is not the one */
	}
	if (fd >= 0)
		close(fd);
	return found;
}

static bool read_word(const void *unused, uint64_t address, uint64_t *word)
{
	(void)unused;
	return safe_read(address, word, sizeof(*word));
}

static const struct code_reader reader = {.word = read_word};

static bool makes(size_t call, uintptr_t function)
{
	for (size_t i = 0; function && i < FUNCTIONS_MAX; i++)
		if (functions[call][i] == function)
			return true;
	return false;
}

/*
 * The same without unwind tables. In the VM a return address behind a call of another function of libc is left over from before.
 * A tail call leaves nothing on the stack: instead of the function that made it there is its caller, which has called something
 * outside of libc, or by a pointer. That may be left over, too: then somebody else's return address comes soon behind it.
 * Somebody else's code, perhaps: false.
 */
static bool find_caller(size_t call, struct unwind_place *place, uintptr_t *called)
{
	uintptr_t words[CALLER_WORDS], sp = place->sp;
	size_t count = safe_read_some(sp, words, CALLER_WORDS), found = count;

	for (size_t i = 0; i < count && (found == count || i <= found + DOUBTFUL_WORDS); i++) {
		bool in_vm = unwind_image_has(&known.vm, words[i]), other;
		uintptr_t target;

		/* A job that the thread has taken before may have left ours. */
		if (unwind_image_has(&known.libc, words[i]) || unwind_image_has(&known.own, words[i]) ||
		    !call_code_is_return(&reader, words[i]))
			continue;
		/* Data may look like code; and what a JIT has made is the VM's. */
		if (!in_vm && !is_in_library(words[i], ANY_LIBRARY))
			continue;
		target = call_code_target(&reader, words[i]);
		other = unwind_image_has(&known.libc, target) && !makes(call, target);
		/* The system call of a syscall() has no frame. */
		if ((!in_vm && (other || found < count)) || (i == 0 && target && target == regions[SYSTEM_CALL]))
			return false;
		if (other || found < count)
			continue;
		found = i;
		*called = target;
		*place = (struct unwind_place){.pc = words[i], .sp = sp + (i + 1) * sizeof(*words), .is_return = true};
		if (!in_vm || makes(call, target))
			return true;
	}
	return found < count;
}

/* Who called a function of the VM that waits there: by the tables, or else by what is called at the return address. */
static uintptr_t caller_of(uintptr_t function, struct unwind_place place)
{
	uintptr_t words[CALLER_WORDS];
	size_t count;

	if (unwind_step(&known.vm, &place, safe_read))
		return place.pc;
	count = CALL_CODE_KNOWN ? safe_read_some(place.sp, words, CALLER_WORDS) : 0;
	for (size_t i = 0; i < count; i++)
		if (call_code_is_return(&reader, words[i]) && call_code_target(&reader, words[i]) == function)
			return words[i];
	return 0;
}

static bool is_among(uintptr_t function, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		if (function && regions[i] == function)
			return true;
	return false;
}

/* Whether the VM waits there in one of CONDITIONS that somebody else has called, or in a TIMED one. */
static bool is_for_others(struct unwind_place place, bool has_timeout)
{
	for (int i = 0; i < STEPS_IN_VM && unwind_image_has(&known.vm, place.pc); i++) {
		uintptr_t function = unwind_function(&known.vm, place.pc - 1);

		if (is_among(function, CONDITIONS, TIMED))
			return !unwind_image_has(&known.vm, caller_of(function, place));
		if (has_timeout && is_among(function, TIMED, SYSTEM_CALL))
			return true;
		if (!unwind_step(&known.vm, &place, safe_read))
			break;
	}
	return false;
}

/* Whether the VM, which called there, waits for itself. */
static bool is_own(const struct unwind_place *place, bool has_timeout)
{
	uintptr_t function = unwind_function(&known.vm, place->pc - 1);

	if (is_among(function, IO_REGIONS, REGIONS))
		return true;
	/* By a pointer, as in REGIONS: what was called is not what waits. A part of them may be a function of its own. */
	if (is_among(function, REGIONS, CONDITIONS) ||
	    (CALL_CODE_KNOWN && call_code_is_return(&reader, place->pc) && !call_code_target(&reader, place->pc)))
		return false;
	return !is_for_others(*place, has_timeout);
}

/*
 * The VM waits so, by poll, for an IO with a timeout (IO#timeout=, since 3.2). It does not begin again: up to 3.4 it may end the
 * process with [BUG], and later the whole time begins anew (io_internal_wait in io.c). All its other waits are of ppoll, or for
 * any time.
 */
static bool is_timed_poll(const struct call *call, uintptr_t called)
{
	if (!called || (called != polls[0] && called != polls[1]))
		return false;
	return call->number == SYS_ppoll ? call->arguments[2] != 0 : (int)call->arguments[2] != -1;
}

static bool is_unix_socket(int descriptor)
{
	int domain = AF_UNIX;
	socklen_t size = sizeof(domain);

	return getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain == AF_UNIX;
}

static bool is_long_read(const struct call *call)
{
	struct termios settings;

	return (call->number == SYS_read || call->number == SYS_readv) && tcgetattr((int)call->arguments[0], &settings) == 0 &&
	       terminal_waits_for_more(&settings);
}

static enum waiting judge(const struct call *call)
{
	struct unwind_place place = {.pc = call->pc, .sp = call->sp};
	enum waiting wake = call->number == SYS_futex ? WAITING_WAKE_LOCK : WAITING_WAKE;
	uintptr_t called = 0;
	size_t i = 0;

	while (i < WAKEABLE && wakeable[i].number != call->number)
		i++;
	if (i == WAKEABLE || (wakeable[i].connects && is_unix_socket((int)call->arguments[0])) || is_long_read(call))
		return WAITING_ALONE;
	if (!LIBC_HAS_TABLES || !known.libc.table || !leave_libc(&place, &called)) {
		place = (struct unwind_place){.pc = call->pc, .sp = call->sp};
		if (!CALL_CODE_KNOWN || !known.libc.end || known.interposed)
			return wake;
		if (!find_caller(i, &place, &called))
			return WAITING_ALONE;
	} else if (!known.interposed && !makes(i, called)) {
		return WAITING_ALONE;
	}
	if (is_timed_poll(call, called))
		return WAITING_ALONE;
	if (unwind_image_has(&known.vm, place.pc)
	            ? !is_own(&place, call->number == SYS_ppoll && call->arguments[2])
	            : !(wakeable[i].makers & BY_SOCKET_LIBRARY) || !is_in_library(place.pc, SOCKET_LIBRARY))
		return WAITING_ALONE;
	return wakeable[i].plain_too && is_plain(call, place.sp) ? WAITING_ALONE : wake;
}

enum waiting waiting_where(void)
{
	struct call before, after;
	int status = call_read(&before);
	enum waiting where;

	if (status <= 0)
		return status < 0 ? WAITING_WAKE : WAITING_NOT;
	where = judge(&before);
	/* What was read belongs together only if the thread stood still. */
	return call_read(&after) == 1 && is_same_call(&before, &after) ? where : WAITING_NOT;
}
