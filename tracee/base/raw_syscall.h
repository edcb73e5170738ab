#ifndef RBPROBE_RAW_SYSCALL_H
#define RBPROBE_RAW_SYSCALL_H

#include <stdbool.h>

/*
 * System calls that touch no thread-local memory: libc's write errno, which two tasks that share a thread's memory
 * (silent_fork.c) would do to each other. Returns the result, or -errno. Any context.
 */

#if defined(__x86_64__)

#define RAW_SYSCALLS 1

static inline long raw_syscall(long number, long a, long b, long c, long d, long e)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	long result;

	__asm__ volatile("syscall"
	                 : "=a"(result)
	                 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
	                 : "rcx", "r11", "memory");
	return result;
}

#elif defined(__aarch64__)

#define RAW_SYSCALLS 1

static inline long raw_syscall(long number, long a, long b, long c, long d, long e)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
	return x0;
}

#elif defined(__riscv) && __riscv_xlen == 64

#define RAW_SYSCALLS 1

static inline long raw_syscall(long number, long a, long b, long c, long d, long e)
{
	register long a7 __asm__("a7") = number;
	register long a0 __asm__("a0") = a;
	register long a1 __asm__("a1") = b;
	register long a2 __asm__("a2") = c;
	register long a3 __asm__("a3") = d;
	register long a4 __asm__("a4") = e;

	__asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4) : "memory");
	return a0;
}

#elif defined(__powerpc64__) && defined(__LITTLE_ENDIAN__)

#define RAW_SYSCALLS 1

/* The kernel gives errno, and sets the summary overflow bit where it is one. */
static inline long raw_syscall(long number, long a, long b, long c, long d, long e)
{
	register long r0 __asm__("r0") = number;
	register long r3 __asm__("r3") = a;
	register long r4 __asm__("r4") = b;
	register long r5 __asm__("r5") = c;
	register long r6 __asm__("r6") = d;
	register long r7 __asm__("r7") = e;

	__asm__ volatile("sc\n\tbns+ 1f\n\tneg 3, 3\n1:"
	                 : "+r"(r0), "+r"(r3), "+r"(r4), "+r"(r5), "+r"(r6), "+r"(r7)
	                 :
	                 : "r8", "r9", "r10", "r11", "r12", "cr0", "ctr", "xer", "memory");
	return r3;
}

#else

#define RAW_SYSCALLS 0

static inline long raw_syscall(long number, long a, long b, long c, long d, long e)
{
	(void)number;
	(void)a;
	(void)b;
	(void)c;
	(void)d;
	(void)e;
	return -38; /* ENOSYS */
}

#endif

#endif
