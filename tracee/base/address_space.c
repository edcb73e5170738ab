/* The limit of the address space. See address_space.h. */

#include "tracee/base/address_space.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

size_t address_space_left(void)
{
	struct rlimit limit;
	char text[32] = "";
	size_t mapped;
	ssize_t size;
	int file;

	if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
		return SIZE_MAX;
	file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	size = file < 0 ? -1 : read(file, text, sizeof(text) - 1); /* pages: the first number */
	if (file >= 0)
		close(file);
	if (size <= 0)
		return SIZE_MAX;
	mapped = strtoull(text, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
	return limit.rlim_cur > mapped ? limit.rlim_cur - mapped : 0;
}
