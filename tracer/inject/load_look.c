/*
 * Ruby frames of a process that is stopped. See load.h, and tracee/session/stuck_look.c for what is called. It takes no
 * lock and allocates nothing, so the thread may stand anywhere. Only while the garbage collector works it gives no frames:
 * then the thread goes on and is stopped again.
 */

#define _GNU_SOURCE
#include "tracer/inject/load.h"

#include "proto/clock.h"
#include "tracer/process/arch.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

#define PATIENCE_NS (2 * NS_PER_S)
#define TRIES_MAX 10 /* to meet it at work */
#define PAUSE_NS (2 * NS_PER_MS)
#define STOP_MAX_NS (20 * NS_PER_MS) /* that the process stands still for the others' frames */

static int take(struct load *load, uint64_t address, struct stuck_look *look)
{
	static const uint8_t no_nonce[NONCE_SIZE];
	size_t header = offsetof(struct stuck_look, answer) + STUCK_HEADER_SIZE;

	if (!remote_read(&load->remote, address, look, header) || look->answer.bytes_used > STUCK_BYTES_MAX ||
	    !remote_read(&load->remote, address + header, look->answer.bytes, look->answer.bytes_used))
		return error_set(load->err, -EPROTO, "the answer of the extension in process %d cannot be read",
		                 (int)load->target->pid);
	return stuck_check(&look->answer, STUCK_HEADER_SIZE + look->answer.bytes_used, no_nonce, load->err);
}

/* What threads wait for the GVL in, on all Rubies, or pass the time in without it. */
static const long idle_calls[] = {
	SYS_futex,     SYS_ppoll,           SYS_pselect6,    SYS_epoll_pwait,
	SYS_nanosleep, SYS_clock_nanosleep, SYS_sched_yield, SYS_restart_syscall,
#ifdef SYS_poll /* and the others that newer architectures do without */
	SYS_poll,      SYS_select,          SYS_epoll_wait,  SYS_pause,
#endif
};

/* Not while waiting for the GVL: then the other threads may run. */
static bool computes(const struct load *load)
{
	for (size_t i = 0; i < sizeof(idle_calls) / sizeof(*idle_calls); i++)
		if (load->injection.registers.system_call == idle_calls[i])
			return false;
	return true;
}

/* The thread stands still. */
static int look_stopped(struct load *load, uint64_t function)
{
	uint64_t stack_end, began_ns = clock_now_ns(), address;
	const struct remote_mapping *stack = remote_mapping_at(&load->remote, arch.sp(&load->injection.registers));
	struct loader_look *look = load->look;
	bool others = look->others && computes(load);
	int status;

	if (!stack)
		return error_set(load->err, -EAGAIN, "its stack is new");
	stack_end = stack->end;
	look->count = 0;
	look->cut = false;
	for (unsigned which = 0; which < STUCK_THREADS_MAX && (which == 0 || others); which++) {
		if (clock_now_ns() - began_ns > STOP_MAX_NS) {
			look->cut = true;
			break;
		}
		status = load_call(load, function, which, stack_end, &address);
		if (status == -EFAULT && which > 0)
			continue;
		if (status < 0 || address == 0)
			return status;
		status = take(load, address, &look->looks[look->count]);
		if (status < 0)
			return status;
		look->count++;
		if (which == 0 && look->looks[0].answer.code != STUCK_FRAMES)
			break;
	}
	return 0;
}

int load_look(struct load *load, const struct remote_module *extension)
{
	uint64_t deadline_ns = clock_now_ns() + PATIENCE_NS, function;
	unsigned tries = 0;
	int pid = (int)load->target->pid;

	if (!extension)
		return error_set(load->err, -ENOENT, "the extension could not be loaded into it");
	if (!remote_symbol(&load->remote, extension, "rbprobe_stuck_look", &function))
		return error_set(load->err, -ENOSYS, "the extension in it is of another version");
	for (;;) {
		int status = load_stop(load, true, LOAD_LOOK_PATIENCE_NS);

		if (status == 0)
			status = look_stopped(load, function);
		if (status < 0)
			return status;
		if (load->look->count == 0)
			return error_set(load->err, -EPROTO, "the extension in it gave no answer");
		if (load->look->looks[0].answer.code == STUCK_REFUSED)
			return 0;
		if (load->look->looks[0].answer.code == STUCK_NO_GVL)
			return error_set(load->err, -EAGAIN, "the thread that was looked at has not the GVL");
		/* Collecting garbage, or an idle call, may be over in a moment. */
		if (load->look->looks[0].answer.code == STUCK_IN_GC
		            ? clock_now_ns() >= deadline_ns
		            : computes(load) || !load->look->others || ++tries == TRIES_MAX)
			return 0;
		inject_resume(&load->injection);
		if (inject_wait(&load->injection, PAUSE_NS) < 0)
			return error_set(load->err, -ESRCH, "process %d ended while rbprobe was looking at it", pid);
	}
}
