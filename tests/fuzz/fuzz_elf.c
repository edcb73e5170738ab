/* A file's symbol tables, the file being anything. */

#define _GNU_SOURCE
#include "tracer/process/elf_symbols.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	char version[32];
	int api[3];
	struct elf_symbol symbols[] = {
		{.name = "ruby_version", .bytes = version, .size = sizeof(version) - 1},
		{.name = "ruby_api_version", .bytes = api, .size = sizeof(api)},
		{.name = "ruby_init"},
	};

	if (fd < 0)
		fd = memfd_create("elf", 0);
	if (ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
		return 0;
	elf_symbols_find(fd, symbols, 3);
	return 0;
}
