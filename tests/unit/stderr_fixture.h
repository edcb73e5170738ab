#ifndef RBPROBE_TESTS_STDERR_FIXTURE_H
#define RBPROBE_TESTS_STDERR_FIXTURE_H

/* Standard error as a file in memory, for tests of what is said there. Includes <sys/mman.h>: _GNU_SOURCE comes first. */

#include <sys/mman.h>
#include <unistd.h>

static char stderr_bytes[64 << 10];
static int stderr_saved = -1, stderr_file = -1;

static inline int stderr_begin(void)
{
	stderr_saved = dup(STDERR_FILENO);
	stderr_file = memfd_create("stderr", 0);
	return stderr_saved >= 0 && stderr_file >= 0 && dup2(stderr_file, STDERR_FILENO) == STDERR_FILENO ? 0 : -1;
}

static inline void stderr_end(void)
{
	dup2(stderr_saved, STDERR_FILENO);
	close(stderr_saved);
	close(stderr_file);
}

/* What was written since the last time. */
static inline const char *stderr_take(void)
{
	ssize_t size = pread(stderr_file, stderr_bytes, sizeof(stderr_bytes) - 1, 0);

	stderr_bytes[size > 0 ? size : 0] = '\0';
	if (ftruncate(stderr_file, 0) == 0)
		lseek(stderr_file, 0, SEEK_SET);
	return stderr_bytes;
}

#endif
