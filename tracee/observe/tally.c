/* What is counted of calls. See tally.h. Context: job; event, where tally.h says so. */

#define _GNU_SOURCE
#include "tracee/observe/tally.h"

#include "proto/clock.h"
#include "tracee/base/address_space.h"
#include "tracee/observe/measure.h"
#include "tracee/observe/tally_keys.h"
#include "tracee/observe/tally_tree.h"
#include "tracee/session/session.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define BLOCK_SIZE sizeof(uint64_t[HISTOGRAM_PER_OCTAVE])
#define ARENA_MIN ((size_t)64 << 10)
/* Where a process's address space is limited, so little of what is left is taken: the application needs the rest. */
#define PART_OF_ADDRESS_SPACE 8

static void free_tallies(struct tallies *tallies)
{
	if (!tallies)
		return;
	if (tallies->blocks)
		munmap(tallies->blocks, tallies->arena_size);
	tally_keys_free(tallies->keys);
	tally_tree_free(tallies->tree);
	free(tallies);
}

/* How large the arena may be; 0: there is no room. */
static size_t arena_size(size_t others)
{
	size_t part = address_space_left() / PART_OF_ADDRESS_SPACE, size = (TALLY_BLOCKS + 1) * BLOCK_SIZE;

	if (part < others + ARENA_MIN)
		return 0;
	return part - others < size ? (part - others) / BLOCK_SIZE * BLOCK_SIZE : size;
}

static bool open_arena(struct tallies *tallies)
{
	void *blocks =
		mmap(NULL, tallies->arena_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (blocks == MAP_FAILED)
		return false;
	tallies->blocks = blocks;
	tallies->limit = (uint32_t)(tallies->arena_size / BLOCK_SIZE - 1);
	madvise(blocks, tallies->arena_size, MADV_NOHUGEPAGE); /* one of those would be zeroed in an event */
	return madvise(blocks, tallies->arena_size, MADV_DONTFORK) == 0;
}

int tallies_open(struct session *session, const struct command *command, struct error *err)
{
	bool by = command->options.flags & (TRACE_BY_KEYS | TRACE_BY_VALUE) || command->options.key.size;
	bool tree = command->options.flags & TRACE_TREE;
	struct tallies *tallies;
	size_t size;

	session->tallies = NULL;
	session->counts_by = session->counts_long = false;
	if (!(command->options.flags & TRACE_COUNT))
		return 0;
	size = arena_size((by ? tally_keys_size() : 0) + (tree ? tally_tree_size() : 0));
	if (!size)
		return error_set(err, -ENOMEM,
		                 "it may have little more address space than it has (ulimit -v), and needs that itself: counting "
		                 "calls there takes too much of it");
	tallies = calloc(1, sizeof(*tallies));
	if (tallies)
		tallies->arena_size = size;
	if (!tallies || !open_arena(tallies)) {
		free_tallies(tallies);
		return error_set(err, -ENOMEM, "no memory to count calls");
	}
	session->counts_by = by;
	session->counts_long = session->counts_by || command->options.flags & (TRACE_MEASURES | TRACE_TREE);
	if (session->counts_by)
		tallies->keys = tally_keys_new(command);
	if (tree)
		tallies->tree = tally_tree_new();
	if ((by && !tallies->keys) || (tree && !tallies->tree)) {
		free_tallies(tallies);
		return error_set(err, -ENOMEM, "no memory to count calls");
	}
	tallies->began_ns = clock_now_ns();
	tallies->opened = ticks_read();
	session->tallies = tallies;
	return 0;
}

void tallies_close(struct session *session)
{
	struct tallies *tallies = session->tallies;

	session->tallies = NULL;
	/* A child does not have the arena, and may have something else in its place. */
	if (tallies && session->pid != getpid())
		tallies->blocks = NULL;
	free_tallies(tallies);
}

bool tallies_begin_anew(struct session *session)
{
	struct tallies *tallies = session->tallies;

	if (!tallies)
		return true;
	tallies->blocks = NULL;
	if (!open_arena(tallies)) {
		tallies->blocks = NULL;
		return false;
	}
	tallies->used = tallies->entry_count = 0;
	tallies->told = false;
	tallies->began_ns = clock_now_ns();
	tallies->opened = ticks_read();
	tally_keys_begin_anew(tallies->keys);
	tally_tree_begin_anew(tallies->tree);
	return true;
}

struct tally *tally_new(void)
{
	struct tally *tally = aligned_alloc(_Alignof(struct tally), sizeof(*tally));

	if (tally)
		*tally = (struct tally){.least = UINT64_MAX};
	return tally;
}

void tally_count_first(struct tallies *tallies, struct tally *tally, struct histogram_place place)
{
	if (tallies->used == tallies->limit) {
		tally->unplaced++;
		return;
	}
	tally->octaves[place.octave] = (uint16_t)++tallies->used;
	tallies->blocks[tallies->used][place.bucket]++;
}

void tally_settle(struct tallies *tallies)
{
	uint32_t count = tallies->entry_count;

	for (uint32_t i = 0; i < count; i++)
		__builtin_prefetch(tallies->entries[i].tally, 1);
	for (uint32_t i = 0; i < count; i++) {
		const struct tally_entry *entry = &tallies->entries[i];
		struct histogram_place place = histogram_place(entry->elapsed);

		__builtin_prefetch(&tallies->blocks[entry->tally->octaves[place.octave]][place.bucket], 1);
	}
	for (uint32_t i = 0; i < count; i++) {
		const struct tally_entry *entry = &tallies->entries[i];

		tally_add(tallies, entry->tally, entry->elapsed, entry->inner);
	}
	tallies->entry_count = 0;
}

void tally_add_measured(struct tally *tally, const struct measured *measured)
{
	if (!measured || measured->moved || measured->gc_unknown)
		tally->unmeasured++;
	if (!measured)
		return;
	tally->objects += measured->objects;
	tally->cpu_ns += measured->moved ? 0 : measured->cpu_ns;
	tally->gc_ns += measured->moved || measured->gc_unknown ? 0 : measured->gc_ns;
}
