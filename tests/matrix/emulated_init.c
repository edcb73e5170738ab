/*
 * The first program of the emulated machine (tests/matrix/emulated): it loads what its kernel needs for the root's disk, in the
 * order of the names in /modules, goes there, and becomes /rbprobe-init. Debian's own takes ten minutes to make, emulated, and
 * one to run.
 */

#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int fail(const char *what)
{
	perror(what);
	return 1;
}

static int modules_load(void)
{
	struct dirent **entries;
	int count = scandir("/modules", &entries, NULL, alphasort);

	for (int i = 0; i < count; i++) {
		char path[300];
		int fd;

		if (entries[i]->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/modules/%s", entries[i]->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || syscall(SYS_finit_module, fd, "", 0) != 0)
			return fail(path);
		close(fd);
	}
	return 0;
}

int main(void)
{
	char *const arguments[] = {"/rbprobe-init", NULL};

	mkdir("/dev", 0755);
	mkdir("/root", 0755);
	if (modules_load() != 0)
		return 1;
	mount("dev", "/dev", "devtmpfs", 0, NULL);
	if (mount("/dev/vda", "/root", "ext4", 0, NULL) != 0)
		return fail("/dev/vda");
	if (mount("dev", "/root/dev", "devtmpfs", 0, NULL) != 0 || chdir("/root") != 0 ||
	    mount(".", "/", NULL, MS_MOVE, NULL) != 0 || chroot(".") != 0 || chdir("/") != 0)
		return fail("/root");
	dup2(open("/dev/console", O_RDWR), 0);
	dup2(0, 1);
	dup2(0, 2);
	execv(arguments[0], arguments);
	return fail(arguments[0]);
}
