/*
 * To be preloaded: pieces of memory come slowly, and so a VM boots for a second or two. -DBY_DLSYM: into a program with musl, or
 * with an allocator that is not libc's.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <stddef.h>

#define SLOW_PIECES 30000
#define PIECES_A_MS 20

#ifdef BY_DLSYM
static void *next(size_t size)
{
	static void *(*own)(size_t size);

	if (!own)
		own = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
	return own(size);
}

/* Where malloc alone is replaced, musl's gives none. */
void *aligned_alloc(size_t alignment, size_t size)
{
	static void *(*own)(size_t alignment, size_t size);

	if (!own)
		own = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "aligned_alloc");
	return own(alignment, size);
}
#else
/* Not by dlsym, which may need memory itself, and has a version that an older glibc has not. */
extern void *__libc_malloc(size_t size);
#define next __libc_malloc
#endif

/* Waits in poll: into one that does, an extension can be loaded wherever it was called. */
void *malloc(size_t size)
{
	static unsigned count;

	if (count < SLOW_PIECES && ++count % PIECES_A_MS == 0)
		poll(NULL, 0, 1);
	return next(size);
}
