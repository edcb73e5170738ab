/*
 * What a module of another process defines, from the tables that its own dynamic loader uses: DT_GNU_HASH, or the older
 * DT_HASH where a linker was told to make only that. See remote.h.
 *
 * glibc's loader adds the load bias to the pointers in a dynamic section when it loads the module; musl's does not, and
 * neither is it done for the vDSO. So a pointer below the bias gets it added here. Of a name with several versions the
 * first is taken: those of the functions that rbprobe calls do the same.
 */

#define _GNU_SOURCE
#include "tracer/inject/remote.h"

#include <elf.h>
#include <string.h>

#define DYNAMIC_ENTRIES_MAX 128u
#define CHAIN_MAX 65536u
#define NAME_MAX_SIZE 128u

struct tables {
	uint64_t hash;     /* DT_GNU_HASH; 0: none */
	uint64_t old_hash; /* DT_HASH; 0: none */
	uint64_t symbols;
	uint64_t names;
	uint64_t names_size;
};

/* The header of a DT_GNU_HASH table; a Bloom filter, the buckets and the chains follow. */
struct gnu_hash {
	uint32_t bucket_count;
	uint32_t first_symbol;
	uint32_t bloom_size; /* words of 64 bits */
	uint32_t bloom_shift;
};

/* The header of a DT_HASH table; the buckets and the chains follow, each an index of a symbol, and 0 at the end. */
struct old_hash {
	uint32_t bucket_count;
	uint32_t chain_count;
};

static uint32_t name_hash(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (unsigned char)*name;
	return hash;
}

static uint32_t name_old_hash(const char *name)
{
	uint32_t hash = 0;

	for (; *name; name++) {
		hash = (hash << 4) + (unsigned char)*name;
		hash ^= hash >> 24 & 0xf0;
		hash &= 0x0fffffff;
	}
	return hash;
}

static bool tables_find(const struct remote *remote, uint64_t bias, uint64_t dynamic, struct tables *tables)
{
	Elf64_Dyn entries[DYNAMIC_ENTRIES_MAX];
	size_t count = DYNAMIC_ENTRIES_MAX;

	memset(tables, 0, sizeof(*tables));
	/* It may end near the end of a mapping. */
	while (count >= 8 && !remote_read(remote, dynamic, entries, count * sizeof(*entries)))
		count /= 2;
	if (count < 8)
		return false;
	for (size_t i = 0; i < count && entries[i].d_tag != DT_NULL; i++) {
		uint64_t address = entries[i].d_un.d_ptr < bias ? entries[i].d_un.d_ptr + bias : entries[i].d_un.d_ptr;

		switch (entries[i].d_tag) {
		case DT_GNU_HASH:
			tables->hash = address;
			break;
		case DT_HASH:
			tables->old_hash = address;
			break;
		case DT_SYMTAB:
			tables->symbols = address;
			break;
		case DT_STRTAB:
			tables->names = address;
			break;
		case DT_STRSZ:
			tables->names_size = entries[i].d_un.d_val;
			break;
		}
	}
	return (tables->hash || tables->old_hash) && tables->symbols && tables->names && tables->names_size;
}

static bool symbol_is(const struct remote *remote, const struct tables *tables, uint32_t index, const char *name,
                      Elf64_Sym *symbol)
{
	char found[NAME_MAX_SIZE];
	size_t size = strlen(name) + 1;

	return remote_read(remote, tables->symbols + index * sizeof(*symbol), symbol, sizeof(*symbol)) &&
	       symbol->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol->st_info) != STT_GNU_IFUNC && size <= sizeof(found) &&
	       symbol->st_name < tables->names_size && size <= tables->names_size - symbol->st_name &&
	       remote_read(remote, tables->names + symbol->st_name, found, size) && memcmp(found, name, size) == 0;
}

static bool find_by_hash(const struct remote *remote, const struct tables *tables, const char *name, Elf64_Sym *symbol)
{
	struct gnu_hash hash;
	uint32_t wanted = name_hash(name), index, link;
	uint64_t word, buckets, chains;

	if (!remote_read(remote, tables->hash, &hash, sizeof(hash)) || hash.bucket_count == 0 || hash.bloom_size == 0)
		return false;
	if (!remote_read(remote, tables->hash + sizeof(hash) + (wanted / 64) % hash.bloom_size * sizeof(word), &word,
	                 sizeof(word)) ||
	    !(word >> (wanted % 64) & 1) || !(word >> ((wanted >> (hash.bloom_shift % 32)) % 64) & 1))
		return false;
	buckets = tables->hash + sizeof(hash) + (uint64_t)hash.bloom_size * sizeof(word);
	chains = buckets + (uint64_t)hash.bucket_count * sizeof(index);
	if (!remote_read(remote, buckets + (uint64_t)(wanted % hash.bucket_count) * sizeof(index), &index, sizeof(index)) ||
	    index < hash.first_symbol)
		return false;
	for (uint32_t i = 0; i < CHAIN_MAX; i++, index++) {
		if (!remote_read(remote, chains + (uint64_t)(index - hash.first_symbol) * sizeof(link), &link, sizeof(link)))
			return false;
		if ((link | 1) == (wanted | 1) && symbol_is(remote, tables, index, name, symbol))
			return true;
		if (link & 1)
			return false;
	}
	return false;
}

static bool find_by_old_hash(const struct remote *remote, const struct tables *tables, const char *name, Elf64_Sym *symbol)
{
	struct old_hash hash;
	uint64_t buckets = tables->old_hash + sizeof(hash), chains;
	uint32_t index;

	if (!remote_read(remote, tables->old_hash, &hash, sizeof(hash)) || hash.bucket_count == 0)
		return false;
	chains = buckets + (uint64_t)hash.bucket_count * sizeof(index);
	buckets += (uint64_t)(name_old_hash(name) % hash.bucket_count) * sizeof(index);
	if (!remote_read(remote, buckets, &index, sizeof(index)))
		return false;
	for (uint32_t i = 0; i < CHAIN_MAX && index != 0 && index < hash.chain_count; i++) {
		if (symbol_is(remote, tables, index, name, symbol))
			return true;
		if (!remote_read(remote, chains + (uint64_t)index * sizeof(index), &index, sizeof(index)))
			return false;
	}
	return false;
}

static bool find(const struct remote *remote, uint64_t bias, uint64_t dynamic, const char *name, Elf64_Sym *symbol)
{
	struct tables tables;

	if (!tables_find(remote, bias, dynamic, &tables))
		return false;
	return tables.hash ? find_by_hash(remote, &tables, name, symbol) : find_by_old_hash(remote, &tables, name, symbol);
}

bool remote_symbol_in(const struct remote *remote, uint64_t bias, uint64_t dynamic, const char *name, uint64_t *address)
{
	Elf64_Sym symbol;

	if (!find(remote, bias, dynamic, name, &symbol))
		return false;
	*address = symbol.st_value + bias;
	return true;
}

bool remote_function(const struct remote *remote, const struct remote_module *module, const char *name, uint64_t *start,
                     uint64_t *end)
{
	Elf64_Sym symbol;

	if (!module || !find(remote, module->bias, module->dynamic, name, &symbol))
		return false;
	*start = symbol.st_value + module->bias;
	*end = *start + symbol.st_size;
	return true;
}

bool remote_symbol(const struct remote *remote, const struct remote_module *module, const char *name, uint64_t *address)
{
	return module && remote_symbol_in(remote, module->bias, module->dynamic, name, address);
}
