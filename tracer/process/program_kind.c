/*
 * Recognising programs that nothing can be loaded into. See program_kind.h. The kernel gives the program an auxiliary vector
 * when it begins, and shows us the same one. The program's file may be anything and is not read.
 */

#define _GNU_SOURCE
#include "tracer/process/program_kind.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TYPE_MAX 1000 /* far above those that exist */

/*
 * AT_BASE is where the program's interpreter was loaded, its dynamic loader. A vector of 32-bit words, read as one of 64-bit
 * words, has a value in the upper half of the first type, or soon.
 */
enum program_kind program_kind_of_auxv(const void *bytes, size_t size)
{
	Elf64_auxv_t entry;

	for (size_t at = 0; at + sizeof(entry) <= size; at += sizeof(entry)) {
		memcpy(&entry, (const char *)bytes + at, sizeof(entry));
		if (entry.a_type > TYPE_MAX)
			return PROGRAM_OTHER_MACHINE;
		if (entry.a_type == AT_NULL)
			return PROGRAM_STATIC;
		if (entry.a_type == AT_BASE)
			return entry.a_un.a_val ? PROGRAM_OURS : PROGRAM_STATIC;
	}
	return PROGRAM_OURS; /* not known */
}

enum program_kind program_kind(pid_t pid)
{
	char path[64], vector[4096];
	ssize_t size;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/auxv", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return PROGRAM_OURS;
	size = read(fd, vector, sizeof(vector));
	close(fd);
	return program_kind_of_auxv(vector, size > 0 ? (size_t)size : 0);
}
