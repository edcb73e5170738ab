/* The sites of engine target. See engine_target_sites.h. */

#include "tracee/engine/engine_target_sites.h"

#include "proto/clock.h"
#include "tracee/engine/engine.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/method_definition.h"
#include "tracee/vm/targeted.h"

#include <errno.h>
#include <stdlib.h>

#define SWEEP_MAX_NS (5 * NS_PER_MS)

static st_table *shared_sites; /* by site_key() */
static st_table *block_sites;  /* how many there are, by the key of the block's code */

/*
 * Sites that no probe wants any more, whose TracePoints could not be disabled yet, because of other Ractors or of hooks that run.
 * A new probe gets them.
 */
static struct site *left_over;

/* --- Which methods share one */

bool site_must_be_shared(VALUE method)
{
	return !compat_block_method_shares_hooks() && method_definition_is_block_method(method);
}

/*
 * Whether RubyVM::InstructionSequence.of() gives one object for one instruction sequence. Before 3.0 it makes a new one each
 * time, which holds its address.
 */
static bool code_has_one_object(VALUE method)
{
	static enum { UNKNOWN, YES, NO } one;

	if (one == UNKNOWN) {
		VALUE first = method_definition_instructions(method), second = method_definition_instructions(method);

		one = first == second ? YES : NO;
		RB_GC_GUARD(first);
	}
	return one == YES;
}

/* One number for one instruction sequence, as long as somebody keeps method and code. */
static st_data_t key_of_code(VALUE method, VALUE code)
{
	return code_has_one_object(method) ? (st_data_t)code : (st_data_t)compat_data(code);
}

st_data_t site_key(VALUE method, VALUE code, bool calls_only)
{
	st_data_t key;

	if (!method_definition_is_block_method(method))
		key = key_of_code(method, code);
	else
		key = site_must_be_shared(method) ? method_definition_of(method) : 0;
	return key | (key && calls_only);
}

struct site *site_shared(st_data_t key)
{
	st_data_t found;
	struct site *site;

	if (!key || !shared_sites || !st_lookup(shared_sites, key, &found))
		return NULL;
	site = (struct site *)found;
	return site->wanted || watched_code_is_on(&site->watched) ? site : NULL;
}

static void share(struct site *site, st_data_t key)
{
	if (!key)
		return;
	if (!shared_sites)
		shared_sites = st_init_numtable();
	site->key = key;
	st_insert(shared_sites, key, (st_data_t)site);
}

static void leave_shared(struct site *site)
{
	st_data_t key = site->key, found;

	if (key && st_lookup(shared_sites, key, &found) && (struct site *)found == site)
		st_delete(shared_sites, &key, NULL);
	site->key = 0;
}

/* --- How many there are of one block */

static st_data_t of_block(st_data_t key)
{
	st_data_t count;

	return block_sites && st_lookup(block_sites, key, &count) ? count : 0;
}

static void of_block_set(st_data_t key, st_data_t count)
{
	if (!block_sites)
		block_sites = st_init_numtable();
	if (count)
		st_insert(block_sites, key, count);
	else
		st_delete(block_sites, &key, NULL);
}

uint32_t sites_of_block(VALUE method, VALUE code)
{
	return (uint32_t)of_block(key_of_code(method, code));
}

/* --- Which probes it serves */

bool site_add(struct site *site, struct probe *probe)
{
	struct engine_target_site *link = calloc(1, sizeof(*link));

	if (!link)
		return false;
	*link = (struct engine_target_site){.site = site,
	                                    .probe = probe,
	                                    .foreign_before = atomic_load_explicit(&site->foreign_calls, memory_order_relaxed),
	                                    .wanted = true,
	                                    .next = probe->sites,
	                                    .next_of_site = site->links,
	                                    .previous_of_site = &site->links};
	if (site->links)
		site->links->previous_of_site = &link->next_of_site;
	site->links = link;
	probe->sites = link;
	site->wanted++;
	site->only = ++site->link_count == 1 ? probe : NULL;
	return true;
}

/* Where the last one leaves, the site is the caller's to free. */
static void take_out(struct engine_target_site *link)
{
	struct site *site = link->site;

	site->wanted -= link->wanted;
	site->aliases -= link->aliased;
	*link->previous_of_site = link->next_of_site;
	if (link->next_of_site)
		link->next_of_site->previous_of_site = link->previous_of_site;
	site->only = --site->link_count == 1 ? site->links->probe : NULL;
	free(link);
}

struct site *site_new(struct probe *probe, VALUE method, VALUE code, st_data_t key)
{
	struct site *site = calloc(1, sizeof(*site));

	if (!site || !site_add(site, probe)) {
		free(site);
		return NULL;
	}
	share(site, key);
	site->method = method;
	site->watched.tracepoint = Qnil;
	site->watched.code = code;
	site->watched.definition = site_must_be_shared(method) ? key : 0;
	if (method_definition_is_block_method(method)) {
		site->block = key_of_code(method, code);
		of_block_set(site->block, of_block(site->block) + 1);
	}
	return site;
}

static void site_free(struct site *site)
{
	watched_code_free(&site->watched);
	leave_shared(site);
	if (site->block)
		of_block_set(site->block, of_block(site->block) - 1);
	free(site);
}

/* --- What no probe wants any more */

static void leave_over(struct site *site)
{
	if (site->left_over)
		return;
	site->left_over = true;
	site->next = left_over;
	left_over = site;
}

static void take_back(struct site **place)
{
	struct site *site = *place;

	*place = site->next;
	site->left_over = false;
}

int site_join(struct site *site, struct probe *probe, struct error *err)
{
	struct engine_target_site *link = site_link_of(site, probe);

	if (!link && !site_add(site, probe))
		return error_set(err, -ENOMEM, "no memory for a probe");
	for (struct site **place = &left_over; *place; place = &(*place)->next)
		if (*place == site) {
			take_back(place);
			break;
		}
	if (link) {
		site->wanted += !link->wanted;
		link->wanted = true;
	}
	return 0;
}

void site_unwant(struct engine_target_site *link)
{
	link->site->wanted -= link->wanted;
	link->wanted = false;
	if (!link->site->wanted && !watched_code_end(&link->site->watched))
		leave_over(link->site);
}

void sites_leave(struct probe *probe)
{
	while (probe->sites) {
		struct site *site = probe->sites->site;
		struct engine_target_site *next = probe->sites->next;

		take_out(probe->sites);
		probe->sites = next;
		if (site->link_count == 0 && watched_code_is_on(&site->watched))
			leave_over(site);
		else if (site->link_count == 0 && !site->left_over)
			site_free(site);
	}
}

/* So much of it that no thread stands still for long. */
bool engine_target_sweep(void)
{
	uint64_t until_ns;

	if (!left_over || !targeted_rest())
		return left_over != NULL;
	until_ns = clock_now_ns() + SWEEP_MAX_NS;
	for (struct site **place = &left_over, *site; (site = *place) && clock_now_ns() < until_ns;) {
		if (!watched_code_end_at_rest(&site->watched)) {
			place = &site->next;
			continue;
		}
		take_back(place);
		if (site->link_count == 0)
			site_free(site);
	}
	return left_over != NULL;
}

/* --- For the GC */

void site_mark(const struct site *site)
{
	watched_code_mark(&site->watched);
	rb_gc_mark(site->method);
}

void engine_target_mark_left_over(void)
{
	for (const struct site *site = left_over; site; site = site->next)
		site_mark(site);
}
