/* The dynamic symbols of a 64-bit ELF file of this machine's byte order. See elf_symbols.h. */

#define _GNU_SOURCE
#include "tracer/process/elf_symbols.h"

#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECTIONS_MAX 4096u
#define TABLES_MAX 2u /* of a kind: a linker makes one */
#define TABLE_SIZE_MAX (64u << 20)

struct elf_file {
	int fd;
	uint64_t size;
	Elf64_Ehdr header;
};

/* A part of the file in memory of its own, or NULL. */
static void *part_read(const struct elf_file *file, uint64_t offset, uint64_t size)
{
	void *part;

	if (size == 0 || size > TABLE_SIZE_MAX || offset > file->size || size > file->size - offset)
		return NULL;
	part = malloc(size);
	if (part && pread(file->fd, part, size, (off_t)offset) != (ssize_t)size) {
		free(part);
		part = NULL;
	}
	return part;
}

static bool header_read(struct elf_file *file)
{
	const Elf64_Ehdr *header = &file->header;

	return pread(file->fd, &file->header, sizeof(file->header), 0) == (ssize_t)sizeof(file->header) &&
	       memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 && header->e_ident[EI_CLASS] == ELFCLASS64 &&
	       header->e_ident[EI_DATA] == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB) &&
	       header->e_shentsize == sizeof(Elf64_Shdr) && header->e_phentsize == sizeof(Elf64_Phdr) && header->e_shnum > 0 &&
	       header->e_shnum <= SECTIONS_MAX;
}

/* Where in the file the byte lies that is loaded at `address`. */
static bool offset_of_address(const struct elf_file *file, uint64_t address, uint64_t *offset)
{
	Elf64_Phdr *segments = part_read(file, file->header.e_phoff, (uint64_t)file->header.e_phnum * sizeof(Elf64_Phdr));
	bool found = false;

	for (unsigned i = 0; segments && i < file->header.e_phnum && !found; i++) {
		const Elf64_Phdr *segment = &segments[i];

		if (segment->p_type == PT_LOAD && address >= segment->p_vaddr && address - segment->p_vaddr < segment->p_filesz) {
			*offset = segment->p_offset + (address - segment->p_vaddr);
			found = true;
		}
	}
	free(segments);
	return found;
}

static void value_read(const struct elf_file *file, const Elf64_Sym *entry, struct elf_symbol *symbol)
{
	uint64_t offset, size = entry->st_size < symbol->size ? entry->st_size : symbol->size;

	memset(symbol->bytes, 0, symbol->size);
	if (offset_of_address(file, entry->st_value, &offset) &&
	    pread(file->fd, symbol->bytes, size, (off_t)offset) != (ssize_t)size)
		memset(symbol->bytes, 0, symbol->size);
}

static size_t table_search(const struct elf_file *file, const Elf64_Shdr *table, const Elf64_Shdr *names,
                           struct elf_symbol *symbols, size_t count)
{
	Elf64_Sym *entries = part_read(file, table->sh_offset, table->sh_size);
	char *text = part_read(file, names->sh_offset, names->sh_size);
	size_t found = 0;

	if (entries && text && text[names->sh_size - 1] == '\0') {
		for (uint64_t i = 0; i < table->sh_size / sizeof(*entries) && found < count; i++) {
			if (entries[i].st_shndx == SHN_UNDEF || entries[i].st_name >= names->sh_size)
				continue;
			for (size_t s = 0; s < count; s++) {
				if (symbols[s].found || strcmp(text + entries[i].st_name, symbols[s].name) != 0)
					continue;
				symbols[s].found = true;
				found++;
				if (symbols[s].bytes)
					value_read(file, &entries[i], &symbols[s]);
			}
		}
	}
	free(entries);
	free(text);
	return found;
}

/* A static program has no dynamic symbols; the others are for debuggers, and may have been stripped. */
static size_t sections_search(const struct elf_file *file, const Elf64_Shdr *sections, struct elf_symbol *symbols, size_t count)
{
	static const uint32_t kinds[] = {SHT_DYNSYM, SHT_SYMTAB};
	size_t found = 0;

	for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
		unsigned tables = 0;

		for (unsigned i = 0; i < file->header.e_shnum && found < count && tables < TABLES_MAX; i++) {
			if (sections[i].sh_type != kinds[k] || sections[i].sh_link >= file->header.e_shnum)
				continue;
			tables++;
			found += table_search(file, &sections[i], &sections[sections[i].sh_link], symbols, count);
		}
	}
	return found;
}

size_t elf_symbols_find(int fd, struct elf_symbol *symbols, size_t count)
{
	struct elf_file file = {.fd = fd};
	Elf64_Shdr *sections = NULL;
	struct stat status;
	size_t found = 0;

	for (size_t i = 0; i < count; i++)
		symbols[i].found = false;
	if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
		return 0;
	file.size = (uint64_t)status.st_size;
	if (header_read(&file))
		sections = part_read(&file, file.header.e_shoff, (uint64_t)file.header.e_shnum * sizeof(*sections));
	if (sections)
		found = sections_search(&file, sections, symbols, count);
	free(sections);
	return found;
}
