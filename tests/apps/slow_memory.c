/* To be preloaded: pieces of memory come slowly, and so a VM boots for a second or two. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <stddef.h>

#define SLOW_PIECES 30000
#define PIECES_A_MS 20

/* glibc's, whose dlsym may need memory itself; musl has none, and needs none. */
extern void *__libc_malloc(size_t size) __attribute__((weak));

/* Waits in poll: into one that does, an extension can be loaded wherever it was called. */
void *malloc(size_t size)
{
	static void *(*next)(size_t size);
	static unsigned count;

	if (count < SLOW_PIECES && ++count % PIECES_A_MS == 0)
		poll(NULL, 0, 1);
	if (!next && !(next = __libc_malloc))
		next = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
	return next(size);
}

/* Where malloc alone is replaced, musl's gives none. */
void *aligned_alloc(size_t alignment, size_t size)
{
	static void *(*next)(size_t alignment, size_t size);

	if (!next)
		next = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "aligned_alloc");
	return next(alignment, size);
}
