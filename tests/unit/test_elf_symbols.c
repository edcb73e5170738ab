/* Symbols of files that anybody may have made: what is there is found, and what is endless is not searched to its end. */

#define _GNU_SOURCE
#include "tracer/process/elf_symbols.h"
#include "unit.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SECTIONS 4000u
#define NAMES "\0ruby_init"

/* A file of so many tables of symbols, of which the one with that number defines ruby_init, the others nothing. */
static int file_with_symbol_in(unsigned table)
{
	static struct {
		Elf64_Ehdr header;
		Elf64_Shdr sections[SECTIONS];
		Elf64_Sym nothing, something;
		char names[sizeof(NAMES)];
	} file;
	int fd = memfd_create("elf", 0);

	memset(&file, 0, sizeof(file));
	memcpy(file.header.e_ident, ELFMAG, SELFMAG);
	file.header.e_ident[EI_CLASS] = ELFCLASS64;
	file.header.e_ident[EI_DATA] = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
	file.header.e_shentsize = sizeof(Elf64_Shdr);
	file.header.e_phentsize = sizeof(Elf64_Phdr);
	file.header.e_shnum = SECTIONS;
	file.header.e_shoff = sizeof(Elf64_Ehdr);
	memcpy(file.names, NAMES, sizeof(NAMES));
	file.something = (Elf64_Sym){.st_name = 1, .st_shndx = 1};
	file.sections[0] = (Elf64_Shdr){
		.sh_type = SHT_STRTAB, .sh_offset = (Elf64_Off)(file.names - (char *)&file), .sh_size = sizeof(NAMES)};
	for (unsigned i = 1; i < SECTIONS; i++) {
		const Elf64_Sym *symbol = i == table ? &file.something : &file.nothing;

		file.sections[i] = (Elf64_Shdr){.sh_type = SHT_DYNSYM,
		                                .sh_offset = (Elf64_Off)((const char *)symbol - (char *)&file),
		                                .sh_size = sizeof(Elf64_Sym)};
	}
	assert_int_equal(write(fd, &file, sizeof(file)), sizeof(file));
	return fd;
}

static bool is_found_in(unsigned table)
{
	struct elf_symbol symbol = {.name = "ruby_init"};
	int fd = file_with_symbol_in(table);
	size_t found = elf_symbols_find(fd, &symbol, 1);

	close(fd);
	assert_int_equal(found, symbol.found);
	return symbol.found;
}

static void a_symbol_is_found(void **state)
{
	(void)state;
	assert_true(is_found_in(1));
	assert_true(is_found_in(2));
}

static void thousands_of_tables_are_not_searched(void **state)
{
	(void)state;
	assert_false(is_found_in(3));
	assert_false(is_found_in(SECTIONS - 1));
}

static void what_is_no_regular_file_defines_nothing(void **state)
{
	struct elf_symbol symbol = {.name = "ruby_init"};
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(elf_symbols_find(ends[0], &symbol, 1), 0);
	assert_int_equal(elf_symbols_find(-1, &symbol, 1), 0);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_symbol_is_found),
		cmocka_unit_test(thousands_of_tables_are_not_searched),
		cmocka_unit_test(what_is_no_regular_file_defines_nothing),
	};

	return cmocka_run_group_tests_name("elf symbols", tests, NULL, NULL);
}
