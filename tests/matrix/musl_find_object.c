/*
 * Debian's compiler has one libgcc, which is for glibc: its unwinder asks glibc's _dl_find_object() where the unwind tables of an
 * address are. musl has none. On a system of musl's own, libgcc asks dl_iterate_phdr(), as this does. tests/matrix/musl puts it
 * into a copy of that library.
 */

#define _GNU_SOURCE
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct found {
	unsigned long long flags;
	void *start;
	void *end;
	void *link_map;
	const void *tables;
};

struct search {
	uintptr_t address;
	struct found *found;
};

int _dl_find_object(void *address, struct found *found);

static int look_at(struct dl_phdr_info *info, size_t size, void *argument)
{
	struct search *search = argument;
	bool has_it = false;

	(void)size;
	search->found->tables = NULL;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type == PT_LOAD && search->address >= start && search->address - start < segment->p_memsz) {
			has_it = true;
			search->found->start = (void *)start;
			search->found->end = (void *)(start + segment->p_memsz);
		}
		if (segment->p_type == PT_GNU_EH_FRAME)
			search->found->tables = (const void *)start;
	}
	return has_it;
}

int _dl_find_object(void *address, struct found *found)
{
	struct search search = {.address = (uintptr_t)address, .found = found};

	found->flags = 0;
	found->link_map = NULL;
	return dl_iterate_phdr(look_at, &search) && found->tables ? 0 : -1;
}
