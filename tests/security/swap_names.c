/*
 * An attacker's program: two names change places, as fast as the kernel can, until somebody ends it.
 *
 *     swap_names NAME OTHER
 *
 * Says "ready" after the first time.
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	if (argc != 3 || renameat2(AT_FDCWD, argv[1], AT_FDCWD, argv[2], RENAME_EXCHANGE) != 0)
		return 2;
	puts("ready");
	fflush(stdout);
	for (;;)
		renameat2(AT_FDCWD, argv[1], AT_FDCWD, argv[2], RENAME_EXCHANGE);
}
