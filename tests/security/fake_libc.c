/*
 * fake_libc DIRECTORY ABI DEED FILE: a process that looks like Ruby and has put functions of its own into the place of its
 * libc's. When a library is loaded into it, by dlopen(), it does what it is told:
 *   descriptor   as if it had made a file in memory, it names a descriptor of FILE
 *   exec         it becomes the program FILE
 *   thread       the same by another thread, which takes the place of the one that was called
 *   spin         it computes for ever
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *deed, *file;

static atomic_bool called;

static void *become(void *nothing)
{
	while (!called)
		usleep(100);
	execl(file, file, (char *)NULL);
	return nothing;
}

static void *fake_dlopen(const char *path, int flags)
{
	(void)path;
	(void)flags;
	if (strcmp(deed, "exec") == 0)
		execl(file, file, (char *)NULL);
	called = true;
	while (strcmp(deed, "spin") == 0 || strcmp(deed, "thread") == 0)
		;
	return NULL;
}

static char *fake_dlerror(void)
{
	return (char *)"cannot open shared object file";
}

/* Of a file that it may only read, and of which root may have more. */
static long fake_syscall(long number, long one, long two, long three)
{
	static char answer[] = "?\n";

	if (number == SYS_memfd_create)
		return open(file, O_RDONLY);
	if (number == SYS_write) {
		answer[0] = 'w';
		return write(STDOUT_FILENO, answer, 2) == 2 ? three : -1;
	}
	(void)one;
	(void)two;
	return 0;
}

static int replace(const char *name, void *by)
{
	uint8_t *function = dlsym(dlopen("libc.so.6", RTLD_LAZY), name);
	uintptr_t page = (uintptr_t)function & ~(uintptr_t)4095;
#if defined(__x86_64__)
	uint8_t code[12] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0}; /* mov by, %rax; jmp *%rax */

	memcpy(code + 2, &by, sizeof(by));
#else
	uint8_t code[16] = {0x50, 0x00, 0x00, 0x58, 0x00, 0x02, 0x1f, 0xd6}; /* ldr x16, by; br x16 */

	memcpy(code + 8, &by, sizeof(by));
#endif
	if (!function || mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
		return -1;
	memcpy(function, code, sizeof(code));
	__builtin___clear_cache((char *)function, (char *)function + sizeof(code));
	return 0;
}

int main(int argc, char **argv)
{
	char path[PATH_MAX];
	pthread_t thread;
	int library;

	if (argc != 5)
		return 2;
	deed = argv[3];
	file = argv[4];
	snprintf(path, sizeof(path), "%s/ruby/%s/libruby.so", argv[1], argv[2]);
	library = open(path, O_RDWR | O_CREAT, 0644);
	if (library < 0 || ftruncate(library, 4096) != 0 || mmap(NULL, 4096, PROT_READ, MAP_SHARED, library, 0) == MAP_FAILED)
		return 1;
	if (strcmp(deed, "thread") == 0 && pthread_create(&thread, NULL, become, NULL) != 0)
		return 1;
	setbuf(stdout, NULL);
	puts("ready");
	/* Those that replace() needs come last. */
	if (replace("syscall", (void *)fake_syscall) != 0 || replace("dlerror", (void *)fake_dlerror) != 0 ||
	    replace("dlopen", (void *)fake_dlopen) != 0)
		return 1;
	/* Where it may be used: it cannot be within the loader here. */
	while (poll(&(struct pollfd){.fd = STDIN_FILENO, .events = POLLIN}, 1, -1) < 0 && errno == EINTR)
		;
	return 0;
}
