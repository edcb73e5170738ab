/*
 * Where the main thread waits. See waiting.h.
 *
 * The kernel says in which system call a thread is, with its arguments, program counter and stack pointer; of its own threads a
 * process may always know (/proc/self/task). waiting_caller.h tells who made it: the VM (or its socket library), or C code of
 * somebody else, which is left alone.
 *
 * It has to be a function that makes the call and nothing else. What libc does by others (fwrite, getaddrinfo, syscall) is left
 * alone, be it for the VM: nobody begins that again. So is what the VM only does for others.
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

#include "proto/task_file.h"
#include "proto/terminal.h"
#include "tracee/base/safe_read.h"
#include "tracee/session/waiting_caller.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/method_definition.h"

#include <dlfcn.h>
#include <ruby.h>
#include <ruby/debug.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#define STACK_WORDS 512 /* how far up the stack IO#sysread and IO#syswrite are looked for */
#define STACK_WIPED (32u << 10)

struct call {
	long number;
	unsigned long long arguments[6], sp, pc;
};

static struct {
	uintptr_t plain[2];   /* functions of IO#sysread and IO#syswrite; 0: not known */
	bool plain_hidden;    /* one of them was not found */
	bool plain_at_start;  /* the main thread was in one of them before they were known */
	struct call at_start; /* it may be, in this call: another thread has begun; number -1: no such */
} known = {.at_start = {.number = -1}};

/* Who makes it. */
enum maker { BY_VM = 1, BY_SOCKET_LIBRARY = 2, BY_BOTH = 3 };

static const struct {
	long number;
	enum maker makers;
	bool plain_too; /* IO#sysread or IO#syswrite may have made it */
	bool connects;  /* not out of a UNIX socket's */
	/* Of libc, that are called for it; glibc's __..._chk are those of _FORTIFY_SOURCE. */
	const char *functions[CALLER_FUNCTIONS_MAX];
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
static caller_functions functions[WAKEABLE];
static uintptr_t polls[2]; /* poll, and its other name */

void waiting_init(void)
{
	if (polls[0])
		return;
	caller_init();
	for (size_t i = 0; i < WAKEABLE; i++)
		for (size_t k = 0; k < CALLER_FUNCTIONS_MAX && wakeable[i].functions[k]; k++)
			functions[i][k] = (uintptr_t)dlsym(RTLD_DEFAULT, wakeable[i].functions[k]);
	polls[1] = (uintptr_t)dlsym(RTLD_DEFAULT, "__poll_chk");
	polls[0] = (uintptr_t)dlsym(RTLD_DEFAULT, "poll");
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
		uintptr_t function = caller_vm_function(words[i]);

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

/* --- Whether it may be woken */

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
	enum waiting wake = call->number == SYS_futex ? WAITING_WAKE_LOCK : WAITING_WAKE;
	struct caller caller;
	size_t i = 0;

	while (i < WAKEABLE && wakeable[i].number != call->number)
		i++;
	if (i == WAKEABLE || (wakeable[i].connects && is_unix_socket((int)call->arguments[0])) || is_long_read(call))
		return WAITING_ALONE;
	switch (caller_find(call->pc, call->sp, functions[i], &caller)) {
	case CALLER_UNKNOWN:
		return wake;
	case CALLER_OTHER:
		return WAITING_ALONE;
	case CALLER_KNOWN:
		break;
	}
	if (is_timed_poll(call, caller.called))
		return WAITING_ALONE;
	if (caller_is_vm(&caller) ? !caller_waits_for_itself(&caller, call->number == SYS_ppoll && call->arguments[2])
	                          : !(wakeable[i].makers & BY_SOCKET_LIBRARY) || !caller_is_socket_library(&caller))
		return WAITING_ALONE;
	return wakeable[i].plain_too && is_plain(call, caller.place.sp) ? WAITING_ALONE : wake;
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
