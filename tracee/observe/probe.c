/* The table of probes. See probe.h. */

#include "tracee/observe/probe.h"

#include <stdlib.h>
#include <string.h>

#define BUCKETS_MIN 64u

static uint32_t bucket_of(const struct probe_table *table, VALUE owner, VALUE callee)
{
	uint64_t hash = ((uint64_t)owner >> 3) * UINT64_C(0x9e3779b97f4a7c15) + ((uint64_t)callee >> 3);

	hash *= UINT64_C(0xff51afd7ed558ccd);
	return (uint32_t)(hash >> 40) & (table->bucket_count - 1);
}

struct probe *probe_table_find(const struct probe_table *table, VALUE owner, VALUE callee)
{
	struct probe *probe = table ? table->buckets[bucket_of(table, owner, callee)] : NULL;

	while (probe && (probe->owner != owner || probe->callee != callee))
		probe = probe->next;
	return probe;
}

/* The order in a bucket stays: of a method's probes the newest comes first. */
static void grow(struct probe_table *table)
{
	uint32_t old_count = table->bucket_count;
	struct probe **old = table->buckets;
	struct probe **buckets = calloc(2u * old_count, sizeof(struct probe *));

	if (!buckets)
		return;
	table->buckets = buckets;
	table->bucket_count = 2 * old_count;
	for (uint32_t i = 0; i < old_count; i++) {
		struct probe **ends[] = {&buckets[i], &buckets[i + old_count]};

		for (struct probe *probe = old[i], *next; probe; probe = next) {
			struct probe ***end = &ends[bucket_of(table, probe->owner, probe->callee) != i];

			next = probe->next;
			probe->next = NULL;
			**end = probe;
			*end = &probe->next;
		}
	}
	free(old);
}

bool probe_table_init(struct probe_table *table)
{
	memset(table, 0, sizeof(*table));
	table->buckets = calloc(BUCKETS_MIN, sizeof(struct probe *));
	table->bucket_count = BUCKETS_MIN;
	table->last_made = &table->first_made;
	return table->buckets != NULL;
}

void probe_table_free(struct probe_table *table)
{
	while (table->first_made) {
		struct probe *probe = table->first_made;

		table->first_made = probe->next_made;
		free(probe);
	}
	free(table->buckets);
	memset(table, 0, sizeof(*table));
}

static struct probe *make(struct probe_table *table, VALUE owner, VALUE callee)
{
	struct probe *probe = aligned_alloc(_Alignof(struct probe), sizeof(*probe));

	if (!probe)
		return NULL;
	memset(probe, 0, sizeof(*probe));
	probe->ref = table->count++;
	probe->owner = owner;
	probe->callee = callee;
	probe->only_kind_of = Qundef;
	probe->waiting = Qfalse;
	*table->last_made = probe;
	table->last_made = &probe->next_made;
	return probe;
}

struct probe *probe_table_add(struct probe_table *table, VALUE owner, VALUE callee)
{
	struct probe *probe = make(table, owner, callee), **bucket;

	if (!probe)
		return NULL;
	probe->callee_id = rb_sym2id(callee);
	if (table->count > table->bucket_count)
		grow(table);
	bucket = &table->buckets[bucket_of(table, owner, callee)];
	probe->next = *bucket;
	*bucket = probe;
	return probe;
}

struct probe *probe_table_add_line(struct probe_table *table, VALUE owner, VALUE callee)
{
	return make(table, owner, callee);
}
