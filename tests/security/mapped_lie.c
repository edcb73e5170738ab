/*
 * mapped_lie DIRECTORY: a process that has mapped a file called libruby.so which is gone since, and has put a FIFO into its
 * place. For each line of input it says how often that was opened so far.
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct inotify_event events[64];
	char path[PATH_MAX], line[16];
	int file, watch, opens = 0;

	if (argc < 2)
		return 2;
	snprintf(path, sizeof(path), "%s/libruby.so", argv[1]);
	file = open(path, O_RDWR | O_CREAT, 0644);
	if (file < 0 || ftruncate(file, 4096) != 0 || mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0) == MAP_FAILED)
		return 1;
	unlink(path);
	if (mkfifo(path, 0644) != 0)
		return 1;
	watch = inotify_init1(IN_NONBLOCK);
	if (inotify_add_watch(watch, path, IN_OPEN) < 0)
		return 1;
	setbuf(stdout, NULL);
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		ssize_t size;

		while ((size = read(watch, events, sizeof(events))) > 0)
			opens += (int)(size / (ssize_t)sizeof(*events));
		printf("%d\n", opens);
	}
	return 0;
}
