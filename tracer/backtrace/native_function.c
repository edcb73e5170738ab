/* Functions by the table that unwinders search. See native_function.h. Runs in a confined child. */

#ifdef HAVE_LIBDW

#include "tracer/backtrace/native_function.h"

#include <elf.h>
#include <gelf.h>
#include <string.h>

#define TABLE_HEADER 12u
#define TABLE_VERSION 1
#define TABLE_COUNT_ENCODING 0x03 /* four bytes */
#define TABLE_ENCODING 0x3b       /* four bytes, signed, from the table's beginning on */

struct table {
	const uint8_t *bytes; /* of the first entry: where a function begins, and where its frames are described */
	uint32_t count;
	uint64_t address; /* from which on the entries count */
};

static bool table_find(Dwfl_Module *module, struct table *table)
{
	GElf_Addr bias;
	Elf *elf = dwfl_module_getelf(module, &bias);
	size_t count = 0;
	GElf_Phdr segment;
	Elf_Data *data = NULL;
	const uint8_t *header;

	if (!elf || elf_getphdrnum(elf, &count) != 0)
		return false;
	for (size_t i = 0; i < count && !data; i++)
		if (gelf_getphdr(elf, (int)i, &segment) && segment.p_type == PT_GNU_EH_FRAME)
			data = elf_getdata_rawchunk(elf, (int64_t)segment.p_offset, segment.p_filesz, ELF_T_BYTE);
	if (!data || data->d_size < TABLE_HEADER)
		return false;
	header = data->d_buf;
	table->bytes = header + TABLE_HEADER;
	table->address = segment.p_vaddr + bias;
	memcpy(&table->count, table->bytes - sizeof(table->count), sizeof(table->count));
	return header[0] == TABLE_VERSION && header[2] == TABLE_COUNT_ENCODING && header[3] == TABLE_ENCODING &&
	       table->count > 0 && table->count <= (data->d_size - TABLE_HEADER) / (2 * sizeof(int32_t));
}

static uint64_t table_entry(const struct table *table, uint32_t number)
{
	int32_t distance;

	memcpy(&distance, table->bytes + 2 * sizeof(distance) * number, sizeof(distance));
	return table->address + (uint64_t)(int64_t)distance;
}

void native_function_find(Dwfl_Module *module, Dwarf_Addr pc, struct native_unwind_frame *said)
{
	struct table table;
	uint32_t low = 0, high;

	if (!table_find(module, &table) || table_entry(&table, 0) > pc)
		return;
	high = table.count;
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (table_entry(&table, middle) <= pc)
			low = middle;
		else
			high = middle;
	}
	said->start = table_entry(&table, low);
	said->size = high < table.count ? table_entry(&table, high) - said->start : 0;
}

#endif
