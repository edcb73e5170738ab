#ifndef RBPROBE_ELF_SYMBOLS_H
#define RBPROBE_ELF_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>

/* One symbol that is looked for in a file's symbol tables. */
struct elf_symbol {
	const char *name;
	void *bytes; /* takes the symbol's initial value; NULL: only whether it is there */
	size_t size; /* of bytes; more than the symbol has are zeroed */
	bool found;
};

/*
 * Looks up what an executable or library *defines*, by reading the file, which may be anything: a malformed one just defines
 * nothing, and its work is bounded. Returns how many of the symbols were found. For files that another user may have made:
 * only in a confined child (confined.h).
 */
size_t elf_symbols_find(int fd, struct elf_symbol *symbols, size_t count);

#endif
