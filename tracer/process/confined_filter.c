/* The system calls of a confined child. See confined_filter.h. */

#define _GNU_SOURCE
#include "tracer/process/confined_filter.h"

#include "tracer/process/arch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/*
 * What malloc, stdio, libelf and libdw use to read files, and what ends a process. No call of these changes anything outside
 * of it.
 */
static const long allowed[] = {
	SYS_read,         SYS_pread64,      SYS_readv,          SYS_lseek,     SYS_fstat,         SYS_newfstatat,
	SYS_close,        SYS_write, /* the answer */
	SYS_mmap,         SYS_munmap,       SYS_mremap,         SYS_mprotect,  SYS_madvise,       SYS_brk,
	SYS_futex,        SYS_getpid,       SYS_gettid,         SYS_getrandom, SYS_clock_gettime, SYS_readlinkat,
	SYS_rt_sigreturn, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_exit,      SYS_exit_group,    SYS_sched_yield,
	SYS_getuid,       SYS_geteuid,      SYS_getgid,         SYS_getegid,   SYS_sigaltstack, /* AddressSanitizer, at _exit() */
#ifdef SYS_statx
	SYS_statx,
#endif
#ifdef SYS_stat
	SYS_stat,         SYS_lstat,
#endif
};
#define ALLOWED_COUNT (sizeof(allowed) / sizeof(*allowed))

#define STATEMENT(...) ((struct sock_filter)BPF_STMT(__VA_ARGS__))
#define JUMP(...) ((struct sock_filter)BPF_JUMP(__VA_ARGS__))
#define REFUSE STATEMENT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
#define ALLOW STATEMENT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define WRITES (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND)
#define DESCRIPTOR_COMMANDS F_GETFL /* F_DUPFD, F_GETFD, F_SETFD are below it; those above can have signals sent */

struct program {
	struct sock_filter items[2 * ALLOWED_COUNT + 32];
	unsigned short size;
};

static void add(struct program *program, struct sock_filter statement)
{
	program->items[program->size++] = statement;
}

static void load(struct program *program, size_t offset)
{
	add(program, STATEMENT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

/* The lower half of an argument. */
static void load_argument(struct program *program, unsigned number)
{
	load(program, offsetof(struct seccomp_data, args[number]) + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 4 : 0));
}

bool confined_filter_set(bool has_root)
{
	struct program program = {.size = 0};
	struct sock_fprog given = {.filter = program.items};

	if (arch.audit_machine) {
		load(&program, offsetof(struct seccomp_data, arch));
		add(&program, JUMP(BPF_JMP | BPF_JEQ | BPF_K, arch.audit_machine, 1, 0));
		add(&program, REFUSE);
	}
	load(&program, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < ALLOWED_COUNT; i++) {
		add(&program, JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)allowed[i], 0, 1));
		add(&program, ALLOW);
	}
	if (!has_root) {
		add(&program, JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_openat2, 0, 1));
		add(&program, ALLOW);
	}
	add(&program, JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 4));
	load_argument(&program, 2);
	add(&program, JUMP(BPF_JMP | BPF_JSET | BPF_K, WRITES, 0, 1));
	add(&program, REFUSE);
	add(&program, ALLOW);
	add(&program, JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 3));
	load_argument(&program, 1);
	add(&program, JUMP(BPF_JMP | BPF_JGT | BPF_K, DESCRIPTOR_COMMANDS, 1, 0));
	add(&program, ALLOW);
	add(&program, REFUSE);
	given.len = program.size;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &given, 0, 0) == 0 || errno == EINVAL;
}
