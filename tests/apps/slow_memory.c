/* To be preloaded: pieces of memory come slowly, and so a VM boots for a second or two. */

#include <poll.h>
#include <stddef.h>

#define SLOW_PIECES 30000
#define PIECES_A_MS 20

extern void *__libc_malloc(size_t size);

/* Waits in poll: into one that does, an extension can be loaded wherever it was called. */
void *malloc(size_t size)
{
	static unsigned count;

	if (count < SLOW_PIECES && ++count % PIECES_A_MS == 0)
		poll(NULL, 0, 1);
	return __libc_malloc(size);
}
