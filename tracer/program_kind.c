/* Telling programs that nothing can be loaded into. See program_kind.h. */

#define _GNU_SOURCE
#include "program_kind.h"

#include "arch.h"

#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool names_interpreter(int fd, const Elf64_Ehdr *header)
{
	Elf64_Phdr segment;

	for (unsigned i = 0; i < header->e_phnum && header->e_phentsize == sizeof(segment); i++)
		if (pread(fd, &segment, sizeof(segment), (off_t)(header->e_phoff + i * sizeof(segment))) ==
		            (ssize_t)sizeof(segment) &&
		    segment.p_type == PT_INTERP)
			return true;
	return false;
}

enum program_kind program_kind_of_file(const char *path)
{
	Elf64_Ehdr header;
	enum program_kind kind = PROGRAM_OURS;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return kind;
	if (pread(fd, &header, sizeof(header), 0) == (ssize_t)sizeof(header) && memcmp(header.e_ident, ELFMAG, SELFMAG) == 0) {
		if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != arch.elf_machine)
			kind = PROGRAM_OTHER_MACHINE;
		else if (!names_interpreter(fd, &header))
			kind = PROGRAM_STATIC;
	}
	close(fd);
	return kind;
}

/* Its dynamic loader is its libc. */
static bool uses_musl(pid_t pid)
{
	char path[64], *line = NULL;
	size_t capacity = 0;
	bool musl = false;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	while (maps && !musl && getline(&line, &capacity, maps) > 0)
		musl = strstr(line, "/ld-musl-") != NULL;
	free(line);
	if (maps)
		fclose(maps);
	return musl;
}

enum program_kind program_kind(pid_t pid)
{
	enum program_kind kind;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	kind = program_kind_of_file(path);
	return kind == PROGRAM_OURS && uses_musl(pid) ? PROGRAM_MUSL : kind;
}
