/*
 * What selections gain by changes of classes and modules that nobody told of (see selection_modules.c): a job looks for it, now
 * and then, taking up so little of the time that it does not count. Context: job, but where selection.h says otherwise.
 */

#include "tracee/select/selection_parts.h"

#include "proto/clock.h"
#include "tracee/select/module_changes.h"
#include "tracee/session/session.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/gvl_slice.h"

#include <stdatomic.h>
#include <time.h>

#define LOOK_PAUSE_NS (250 * NS_PER_MS) /* between two looks at least, */
#define LOOK_PART 100u                  /* and so many times as long as the last one took; */
#define LOOK_MAX_NS (2 * NS_PER_MS)     /* the next selector has to wait for the next look after that */

static _Atomic bool overlooked;                  /* something happened that no selection was asked about */
static _Atomic uint64_t look_at_ns = UINT64_MAX; /* when a job is to look */
static _Atomic bool looking;                     /* one was asked for */

/* What this thread has computed: others run while it looks, and do not count. */
static uint64_t own_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static void look_at(uint64_t at_ns)
{
	uint64_t before = atomic_load(&look_at_ns);

	while (at_ns < before && !atomic_compare_exchange_weak(&look_at_ns, &before, at_ns))
		;
}

void selection_modules_changed(void)
{
	atomic_store(&overlooked, true);
	look_at(clock_now_ns() + LOOK_PAUSE_NS);
}

static bool has_hooks(void)
{
	return module_changes_sees_names() || module_changes_sees_classes();
}

static bool is_to_be_looked_for(const struct selection *selection, uint32_t i)
{
	return selection->look_for_all ||
	       (!selection->results[i].found && (selector_is_exact(&selection->selectors[i]) || !has_hooks()));
}

void selection_look_later(const struct selection *selection)
{
	bool wanted = selection->waiting_count > 0 || selection->look_for_all;

	for (uint32_t i = 0; i < selection->selector_count && !wanted; i++)
		wanted = is_to_be_looked_for(selection, i);
	if (wanted)
		look_at(clock_now_ns() + LOOK_PAUSE_NS);
}

bool selection_look_is_due(void)
{
	uint64_t at_ns = atomic_load_explicit(&look_at_ns, memory_order_relaxed);

	if (at_ns == UINT64_MAX || clock_now_ns() < at_ns || !atomic_compare_exchange_strong(&look_at_ns, &at_ns, UINT64_MAX))
		return false;
	atomic_store(&looking, true);
	return true;
}

/* As far as it comes in a short time; the next look goes on from there. */
static VALUE look(VALUE argument)
{
	struct selection *selection = (struct selection *)argument;
	uint64_t began_ns = own_ns();
	struct gvl_slice slice;

	gvl_slice_begin(&slice);
	for (struct probe *probe = selection->waiting_count ? selection->probes.first_made : NULL; probe;
	     probe = probe->next_made)
		if (probe->waiting)
			selection_settle_names(probe);
	while (selection->look_next < selection->selector_count && !selection->disabled) {
		uint32_t i = selection->look_next++;
		struct arming arming = {.selection = selection, .selector = i, .late = true, .slice = &slice};

		if (!is_to_be_looked_for(selection, i))
			continue;
		if (selector_is_exact(&selection->selectors[i]))
			selection_search_again(selection, i);
		else
			selector_each_match(&selection->selectors[i], selection_arm_match, &arming);
		if (own_ns() - began_ns > LOOK_MAX_NS && selection->look_next < selection->selector_count)
			return Qnil;
	}
	selection->look_next = 0;
	selection->look_for_all = selection->look_again;
	selection->look_again = false;
	return Qnil;
}

/* Selectors that a look has come past already would not see what has happened since. */
static void look_for_all(struct selection *selection)
{
	if (selection->look_for_all && selection->look_next)
		selection->look_again = true;
	else
		selection->look_next = 0;
	selection->look_for_all = true;
}

void selection_look(void)
{
	uint64_t began_ns = own_ns(), pause_ns;
	bool all;

	if (!atomic_exchange(&looking, false))
		return;
	all = atomic_exchange(&overlooked, false);
	for (struct selection *selection = selection_next(NULL); selection; selection = selection_next(selection)) {
		int failed = 0;

		if (all)
			look_for_all(selection);
		/* It is being looked for. */
		if (selection->unfinished)
			continue;
		arming_protect(look, (VALUE)selection, &failed);
		if (failed)
			exception_drop(Qnil);
	}
	pause_ns = (own_ns() - began_ns) * LOOK_PART;
	for (const struct selection *selection = selection_next(NULL); selection; selection = selection_next(selection))
		selection_look_later(selection);
	if (atomic_load(&look_at_ns) != UINT64_MAX && pause_ns > LOOK_PAUSE_NS)
		atomic_store(&look_at_ns, clock_now_ns() + pause_ns);
}
