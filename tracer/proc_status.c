/* One number of /proc/PID/status. See proc_status.h. */

#define _GNU_SOURCE
#include "proc_status.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

unsigned long long proc_status_number(pid_t pid, const char *field, int base, unsigned long long missing)
{
	char path[64], text[8192], name[32], *at;
	ssize_t size;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	snprintf(name, sizeof(name), "\n%s:", field);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return missing;
	size = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[size > 0 ? size : 0] = '\0';
	at = strstr(text, name);
	return at ? strtoull(at + strlen(name), NULL, base) : missing;
}
