/*
 * hung_mount PID DIRECTORY: where that process lives, puts a file system upon a directory that never answers. It goes with
 * this program.
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int fuse = open("/dev/fuse", O_RDWR), namespace;
	char path[64], options[128];

	if (argc != 3 || fuse < 0)
		return 2;
	snprintf(path, sizeof(path), "/proc/%s/ns/mnt", argv[1]);
	namespace = open(path, O_RDONLY);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fuse);
	if (namespace < 0 || setns(namespace, CLONE_NEWNS) != 0 || mount("hung", argv[2], "fuse", 0, options) != 0) {
		perror("hung_mount");
		return 1;
	}
	puts("ready");
	fflush(stdout);
	return getchar() == EOF ? 0 : 1;
}
