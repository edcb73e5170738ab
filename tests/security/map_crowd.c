/*
 * map_crowd PROCESSES LINES: so many processes that share one memory, whose map has so many lines. Says "ready"; ends with its
 * input, or as soon as somebody kills its process group.
 */

#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define STACK_SIZE 8192

static int idle(void *nothing)
{
	(void)nothing;
	while (pause() != 0)
		;
	return 0;
}

int main(int argc, char **argv)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), lines;
	char *area, line[16];

	if (argc < 3)
		return 2;
	lines = strtoul(argv[2], NULL, 10);
	area = mmap(NULL, 2 * lines * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (area == MAP_FAILED)
		return 1;
	/* Neighbours that differ are not joined. */
	for (size_t i = 0; i + 100 < lines; i += 2)
		if (mprotect(area + i * page, page, PROT_READ) != 0)
			break;
	for (int i = 0; i < atoi(argv[1]); i++) {
		char *stack = malloc(STACK_SIZE);

		if (!stack || clone(idle, stack + STACK_SIZE, CLONE_VM | SIGCHLD, NULL) < 0)
			return 1;
	}
	setbuf(stdout, NULL);
	puts("ready");
	while (fgets(line, sizeof(line), stdin))
		;
	kill(0, SIGKILL);
	return 0;
}
