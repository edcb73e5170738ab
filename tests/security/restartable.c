/*
 * restartable DIRECTORY ABI: a process that looks like Ruby, and of which the main thread is in restartable sequences (rseq)
 * most of the time. For a line of input it says how many went to their end, how many were aborted by the kernel, and how many
 * went on as if nothing had happened although they were interrupted.
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__) && __has_include(<sys/rseq.h>)
#include <sys/rseq.h>

static atomic_ulong done, aborted, broken;

static void *tell(void *nothing)
{
	char line[16];

	while (fgets(line, sizeof(line), stdin))
		printf("%lu done, %s aborted, %lu broken\n", done, aborted ? "some" : "none", broken);
	_exit(0);
	return nothing;
}

/* The kernel forgets the sequence when it finds the thread anywhere else: then an abort would have been due. */
static void run(struct rseq *area)
{
	__asm__ volatile goto(".pushsection __rseq_cs, \"aw\"\n\t"
	                      ".balign 32\n"
	                      "3:\n\t"
	                      ".long 0, 0\n\t"
	                      ".quad 1f, 2f - 1f, 4f\n\t"
	                      ".popsection\n\t"
	                      "leaq 3b(%%rip), %%rax\n\t"
	                      "movq %%rax, 8(%[area])\n"
	                      "1:\n\t"
	                      "movl $200000, %%ecx\n"
	                      "5:\n\t"
	                      "decl %%ecx\n\t"
	                      "jnz 5b\n\t"
	                      "cmpq %%rax, 8(%[area])\n"
	                      "2:\n\t"
	                      "jne %l[was_broken]\n\t"
	                      "jmp %l[was_done]\n\t"
	                      ".pushsection __rseq_abort, \"ax\"\n\t"
	                      ".byte 0x0f, 0xb9, 0x3d\n\t"
	                      ".long 0x53053053\n"
	                      "4:\n\t"
	                      "jmp %l[was_aborted]\n\t"
	                      ".popsection"
	                      :
	                      : [area] "r"(area)
	                      : "rax", "rcx", "memory", "cc"
	                      : was_broken, was_done, was_aborted);
was_done:
	done++;
	return;
was_aborted:
	aborted++;
	return;
was_broken:
	broken++;
}

/* Below what the loader has left on the stack, so that nobody takes it for being there. */
static _Noreturn void run_for_ever(void)
{
	volatile char empty[8192];

	for (size_t i = 0; i < sizeof(empty); i++)
		empty[i] = 0;
	for (;;) {
		run((struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset));
		for (volatile int i = 0; i < 20000; i++)
			;
	}
}

int main(int argc, char **argv)
{
	char path[PATH_MAX];
	pthread_t thread;
	int library;

	if (argc != 3)
		return 2;
	if (__rseq_size == 0) {
		puts("none");
		return 0;
	}
	snprintf(path, sizeof(path), "%s/ruby/%s/libruby.so", argv[1], argv[2]);
	library = open(path, O_RDWR | O_CREAT, 0644);
	if (library < 0 || ftruncate(library, 4096) != 0 || mmap(NULL, 4096, PROT_READ, MAP_SHARED, library, 0) == MAP_FAILED ||
	    pthread_create(&thread, NULL, tell, NULL) != 0)
		return 1;
	setbuf(stdout, NULL);
	puts("ready");
	run_for_ever();
}

#else

int main(void)
{
	puts("none");
	return 0;
}

#endif
