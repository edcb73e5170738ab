/* What is counted of calls. See tally.h. Context: job; event, where tally.h says so. */

#define _GNU_SOURCE
#include "tracee/observe/tally.h"

#include "proto/clock.h"
#include "tracee/observe/measure.h"
#include "tracee/observe/tally_keys.h"
#include "tracee/observe/tally_tree.h"
#include "tracee/session/session.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define ARENA_SIZE ((TALLY_BLOCKS + 1) * sizeof(uint64_t[HISTOGRAM_PER_OCTAVE]))

int tallies_open(struct session *session, const struct command *command, struct error *err)
{
	struct tallies *tallies;
	void *blocks;

	session->tallies = NULL;
	session->counts_by = session->counts_long = false;
	if (!(command->options.flags & TRACE_COUNT))
		return 0;
	tallies = calloc(1, sizeof(*tallies));
	blocks = mmap(NULL, ARENA_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!tallies || blocks == MAP_FAILED || madvise(blocks, ARENA_SIZE, MADV_DONTFORK) != 0) {
		if (blocks != MAP_FAILED)
			munmap(blocks, ARENA_SIZE);
		free(tallies);
		return error_set(err, -ENOMEM, "no memory to count calls");
	}
	madvise(blocks, ARENA_SIZE, MADV_NOHUGEPAGE); /* one of those would be zeroed in an event */
	tallies->blocks = blocks;
	session->counts_by = command->options.flags & TRACE_BY_KEYS || command->options.key.size;
	session->counts_long = session->counts_by || command->options.flags & (TRACE_MEASURES | TRACE_TREE);
	if (session->counts_by)
		tallies->keys = tally_keys_new(command);
	if (command->options.flags & TRACE_TREE)
		tallies->tree = tally_tree_new();
	if ((session->counts_by && !tallies->keys) || (command->options.flags & TRACE_TREE && !tallies->tree)) {
		munmap(blocks, ARENA_SIZE);
		tally_keys_free(tallies->keys);
		tally_tree_free(tallies->tree);
		free(tallies);
		return error_set(err, -ENOMEM, "no memory to count calls");
	}
	tallies->began_ns = clock_now_ns();
	ticks_clock_open(&tallies->clock);
	session->tallies = tallies;
	return 0;
}

void tallies_close(struct session *session)
{
	struct tallies *tallies = session->tallies;

	session->tallies = NULL;
	/* A child does not have the arena, and may have something else in its place. */
	if (tallies && session->pid == getpid())
		munmap(tallies->blocks, ARENA_SIZE);
	if (tallies) {
		tally_keys_free(tallies->keys);
		tally_tree_free(tallies->tree);
	}
	free(tallies);
}

struct tally *tally_new(void)
{
	struct tally *tally = aligned_alloc(_Alignof(struct tally), sizeof(*tally));

	if (tally)
		*tally = (struct tally){.least = UINT64_MAX};
	return tally;
}

uint16_t tally_take_block(struct tallies *tallies, struct tally *tally, uint32_t octave)
{
	if (tallies->used == TALLY_BLOCKS)
		return 0;
	return tally->octaves[octave] = (uint16_t)++tallies->used;
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
