/* Reading another process. See remote.h. Its ELF tables are looked up in remote_symbols.c. */

#define _GNU_SOURCE
#include "tracer/inject/remote.h"

#include "tracer/base/buffer.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAP_TEXT_MAX (64u << 20)
#define SEGMENTS_MAX 64u
#define MODULE_SIZE_MAX (1ull << 32)
#define TEXT_CHUNK 65536u
#define TEXT_OVERLAP 64u /* more than the longest code that is looked for */

bool remote_read(const struct remote *remote, uint64_t address, void *bytes, size_t size)
{
	return address <= INT64_MAX && pread(remote->memory, bytes, size, (off_t)address) == (ssize_t)size;
}

bool remote_write(const struct remote *remote, uint64_t address, const void *bytes, size_t size)
{
	return address <= INT64_MAX && pwrite(remote->memory, bytes, size, (off_t)address) == (ssize_t)size;
}

bool remote_read_text(const struct remote *remote, uint64_t address, char *text, size_t size)
{
	size_t filled = 0;

	text[0] = '\0';
	while (filled < size - 1) {
		size_t chunk = 64 - address % 64; /* never across a page's end before that is known to be needed */
		char *end;

		if (chunk > size - 1 - filled)
			chunk = size - 1 - filled;
		if (!remote_read(remote, address, text + filled, chunk))
			return false;
		end = memchr(text + filled, '\0', chunk);
		if (end)
			return true;
		filled += chunk;
		address += chunk;
	}
	text[filled] = '\0';
	return true;
}

/* The whole file in one piece of memory. Its size is not known before. */
static int map_text_read(struct remote *remote)
{
	char path[64];
	size_t size = 0, room = 256 << 10;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)remote->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	free(remote->map_text);
	remote->map_text = memory_resize(NULL, room);
	while ((got = read(fd, remote->map_text + size, room - size - 1)) > 0) {
		size += (size_t)got;
		if (size > MAP_TEXT_MAX)
			break;
		if (room - size < 8192)
			remote->map_text = memory_resize(remote->map_text, room *= 2);
	}
	got = got < 0 ? -errno : 0;
	close(fd);
	remote->map_text[size] = '\0';
	if (got < 0)
		return (int)got;
	return size ? 0 : -ESRCH;
}

static bool line_parse(char *line, struct remote_mapping *mapping)
{
	char access[5];
	int path_at = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %n", &mapping->start, &mapping->end, access,
	           &mapping->offset, &path_at) < 4)
		return false;
	mapping->readable = access[0] == 'r';
	mapping->writable = access[1] == 'w';
	mapping->executable = access[2] == 'x';
	mapping->path = path_at ? line + path_at : "";
	return mapping->start < mapping->end;
}

static void map_parse(struct remote *remote)
{
	size_t room = remote->mapping_count;

	remote->mapping_count = 0;
	for (char *line = remote->map_text, *next; line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (remote->mapping_count == room)
			remote->mappings = memory_resize(remote->mappings, (room = room * 2 + 128) * sizeof(*remote->mappings));
		if (line_parse(line, &remote->mappings[remote->mapping_count]))
			remote->mapping_count++;
	}
}

/* Where a file's first bytes are mapped and are an ELF header, there is a module. */
static bool module_parse(const struct remote *remote, const struct remote_mapping *mapping, struct remote_module *module)
{
	uint8_t head[sizeof(Elf64_Ehdr) + 14 * sizeof(Elf64_Phdr)];
	Elf64_Ehdr header;
	Elf64_Phdr segments[SEGMENTS_MAX];
	uint64_t lowest = UINT64_MAX, highest = 0, dynamic = 0;
	size_t size;

	if (!remote_read(remote, mapping->start, head, sizeof(head)))
		return false;
	memcpy(&header, head, sizeof(header));
	size = header.e_phnum * sizeof(Elf64_Phdr);
	if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
	    header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0 || header.e_phnum > SEGMENTS_MAX ||
	    header.e_phoff > mapping->end - mapping->start)
		return false;
	if (header.e_phoff == sizeof(header) && sizeof(header) + size <= sizeof(head))
		memcpy(segments, head + sizeof(header), size);
	else if (!remote_read(remote, mapping->start + header.e_phoff, segments, size))
		return false;
	for (unsigned i = 0; i < header.e_phnum; i++) {
		if (segments[i].p_type == PT_DYNAMIC)
			dynamic = segments[i].p_vaddr;
		if (segments[i].p_type != PT_LOAD)
			continue;
		if (segments[i].p_vaddr < lowest)
			lowest = segments[i].p_vaddr;
		if (segments[i].p_vaddr + segments[i].p_memsz > highest)
			highest = segments[i].p_vaddr + segments[i].p_memsz;
	}
	if (lowest >= highest || highest - lowest > MODULE_SIZE_MAX || !dynamic)
		return false;
	lowest &= ~(uint64_t)0xfff;
	*module = (struct remote_module){
		.path = mapping->path,
		.start = mapping->start,
		.end = mapping->start + (highest - lowest),
		.bias = mapping->start - lowest,
		.dynamic = mapping->start - lowest + dynamic,
	};
	return true;
}

static void modules_find(struct remote *remote)
{
	size_t room = remote->module_count;

	remote->module_count = 0;
	for (size_t i = 0; i < remote->mapping_count; i++) {
		const struct remote_mapping *mapping = &remote->mappings[i];

		if (mapping->offset != 0 || !mapping->readable || mapping->path[0] != '/')
			continue;
		if (remote->module_count == room)
			remote->modules = memory_resize(remote->modules, (room = room * 2 + 32) * sizeof(*remote->modules));
		if (module_parse(remote, mapping, &remote->modules[remote->module_count]))
			remote->module_count++;
	}
}

static int refresh(struct remote *remote, struct error *err)
{
	int status = map_text_read(remote);

	if (status < 0)
		return error_set(err, status, "cannot read the memory map of process %d: %s", (int)remote->pid,
		                 strerror(-status));
	map_parse(remote);
	modules_find(remote);
	return 0;
}

int remote_open(struct remote *remote, pid_t pid, struct error *err)
{
	char path[64];
	int status;

	*remote = REMOTE_CLOSED;
	remote->pid = pid;
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	remote->memory = open(path, O_RDWR | O_CLOEXEC);
	if (remote->memory < 0)
		return error_set(err, -errno, "cannot open the memory of process %d: %s", (int)pid, strerror(errno));
	status = refresh(remote, err);
	if (status < 0)
		remote_close(remote);
	return status;
}

void remote_close(struct remote *remote)
{
	if (remote->memory >= 0)
		close(remote->memory);
	free(remote->map_text);
	free(remote->mappings);
	free(remote->modules);
	*remote = REMOTE_CLOSED;
}

const struct remote_mapping *remote_mapping_at(const struct remote *remote, uint64_t address)
{
	size_t low = 0, high = remote->mapping_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (address >= remote->mappings[middle].end)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == remote->mapping_count || address < remote->mappings[low].start)
		return NULL;
	return &remote->mappings[low];
}

static const char *file_name(const struct remote_module *module)
{
	const char *slash = strrchr(module->path, '/');

	return slash ? slash + 1 : module->path;
}

const struct remote_module *remote_module_named(const struct remote *remote, const char *name)
{
	size_t length = strlen(name);

	for (size_t i = 0; i < remote->module_count; i++) {
		const char *file = file_name(&remote->modules[i]);

		if (strncmp(file, name, length) == 0 && strstr(file, ".so") &&
		    (file[length] == '.' || (file[length] == '-' && isdigit((unsigned char)file[length + 1]))))
			return &remote->modules[i];
	}
	return NULL;
}

const struct remote_module *remote_module_file(const struct remote *remote, const char *name)
{
	size_t length = strlen(name);

	for (size_t i = 0; i < remote->module_count; i++) {
		const char *file = file_name(&remote->modules[i]);

		if (strncmp(file, "memfd:", 6) == 0)
			file += 6;
		if (strncmp(file, name, length) == 0 && (file[length] == '\0' || strcmp(file + length, " (deleted)") == 0))
			return &remote->modules[i];
	}
	return NULL;
}

bool remote_module_has(const struct remote_module *module, uint64_t address)
{
	return module && address >= module->start && address < module->end;
}

uint64_t remote_text_find(const struct remote *remote, const struct remote_module *module,
                          ssize_t (*find)(const uint8_t *text, size_t size))
{
	uint8_t text[TEXT_CHUNK];

	for (size_t i = 0; module && i < remote->mapping_count; i++) {
		const struct remote_mapping *mapping = &remote->mappings[i];

		if (!mapping->executable || !mapping->readable || !remote_module_has(module, mapping->start))
			continue;
		for (uint64_t at = mapping->start; at < mapping->end; at += TEXT_CHUNK - TEXT_OVERLAP) {
			size_t size = mapping->end - at < TEXT_CHUNK ? mapping->end - at : TEXT_CHUNK;
			ssize_t offset = remote_read(remote, at, text, size) ? find(text, size) : -1;

			if (offset >= 0)
				return at + (uint64_t)offset;
		}
	}
	return 0;
}
