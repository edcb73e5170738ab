/*
 * The VM's memory of enabled events. See event_flags.h. Context: job.
 *
 * ruby_vm_event_enabled_global_flags holds every event for which there has ever been a global hook. update_global_event_hook() in
 * vm_trace.c (of 2.7.4, 3.1.2, 3.3.8, 3.4, 4.0 and 4.1-dev; there *_hooks()) calls rb_iseq_trace_set_all() only for events that
 * are not in it, and adds them; iseq.c gives new code the trace_ instructions of the events that are. C_CALL and C_RETURN of
 * ordinary calls need no such instruction, vm_call_cfunc and the calls of attributes ask the list of hooks; only what the VM has
 * instructions for (Integer#+) does.
 *
 * The variable is exported up to 3.1 only, so it is looked for: a hook for an event that needs no instructions sets a bit in it
 * that stays when the hook is removed. The one word of libruby's own data that does so for each of three events is it. Then it is
 * tried with B_CALL, which next to nothing uses; but what is rewritten for it is rewritten for CALL, too (add_bmethod_events() in
 * iseq.c). END, which has instructions of its own, is not given by one-line class bodies since 3.4.
 */

#define _GNU_SOURCE 1

#include "tracee/vm/event_flags.h"

#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/foreign_hooks.h"
#include "tracee/vm/layout.h"
#include "tracee/vm/quiet.h"

#include <link.h>
#include <stdint.h>
#include <stdlib.h>

#define DATA_SIZE_MAX ((size_t)16 << 20)
#define CANDIDATES_MAX 64u
#define ATTEMPTS 3
#define TRIED RUBY_EVENT_B_CALL

/* RUBY_EVENT_COVERAGE_LINE and ..._BRANCH of vm_core.h, 2.7 to 4.1-dev */
#define COVERAGE_LINE 0x10000
#define COVERAGE_BRANCH 0x20000

/* No code is rewritten for these. */
static const rb_event_flag_t harmless[] = {RUBY_EVENT_THREAD_BEGIN, RUBY_EVENT_THREAD_END, RUBY_EVENT_FIBER_SWITCH};

static struct {
	rb_event_flag_t held; /* what event_flags_hold() has added, */
	unsigned holders;     /* for so many: one may let others run */
	bool works;
	const char *failed; /* why not */
	unsigned attempts;
	unsigned seen; /* events of the trial */
} flags;

/* Once it is known. */
static volatile rb_event_flag_t *enabled_events(void)
{
	return (volatile rb_event_flag_t *)layout_value(LAYOUT_HOOK_FLAGS);
}

struct search {
	uintptr_t inside; /* an address in libruby */
	const char *data; /* its writable segment */
	size_t size;
	volatile rb_event_flag_t *candidates[CANDIDATES_MAX];
	unsigned count;
};

static void on_event(rb_event_flag_t event, VALUE data, VALUE self, ID id, VALUE class)
{
	(void)data;
	(void)self;
	(void)id;
	(void)class;
	flags.seen += event == TRIED;
}

static int find_data(struct dl_phdr_info *info, size_t size, void *argument)
{
	struct search *search = argument;
	bool here = false;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + header->p_vaddr;

		if (header->p_type != PT_LOAD)
			continue;
		here = here || (search->inside >= start && search->inside - start < header->p_memsz);
		if (header->p_flags & PF_W) {
			search->data = (const char *)((start + 3) & ~(uintptr_t)3);
			search->size = header->p_memsz - 4;
		}
	}
	return here;
}

/* The search looks at all of libruby's data, also between its variables: a sanitizer that watches these has no say here. */
static __attribute__((noinline, no_sanitize("address"))) rb_event_flag_t word_at(const struct search *search, size_t index)
{
	return ((const volatile rb_event_flag_t *)search->data)[index];
}

/* Words that get the event, and keep it. */
static void search_first(struct search *search, rb_event_flag_t event)
{
	size_t words = search->size / sizeof(rb_event_flag_t), found = 0;
	rb_event_flag_t *before = malloc(words * sizeof(*before));

	search->count = 0;
	if (!before)
		return;
	for (size_t i = 0; i < words; i++)
		before[i] = word_at(search, i);
	rb_add_event_hook(on_event, event, Qnil);
	for (size_t i = 0; i < words && found < CANDIDATES_MAX; i++)
		if (!(before[i] & event) && word_at(search, i) == (before[i] | event))
			search->candidates[found++] = (volatile rb_event_flag_t *)search->data + i;
	rb_remove_event_hook(on_event);
	free(before);
	for (size_t i = 0; i < found && found < CANDIDATES_MAX; i++)
		if (*search->candidates[i] & event)
			search->candidates[search->count++] = search->candidates[i];
}

static void search_again(struct search *search, rb_event_flag_t event)
{
	rb_event_flag_t before[CANDIDATES_MAX];
	bool got[CANDIDATES_MAX];
	unsigned kept = 0;

	for (unsigned i = 0; i < search->count; i++)
		before[i] = *search->candidates[i];
	rb_add_event_hook(on_event, event, Qnil);
	for (unsigned i = 0; i < search->count; i++)
		got[i] = !(before[i] & event) && *search->candidates[i] == (before[i] | event);
	rb_remove_event_hook(on_event);
	for (unsigned i = 0; i < search->count; i++)
		if (got[i] && *search->candidates[i] == (before[i] | event))
			search->candidates[kept++] = search->candidates[i];
	search->count = kept;
}

static bool find(void)
{
	struct search search = {.inside = (uintptr_t)rb_tracepoint_new};

	if (!dl_iterate_phdr(find_data, &search) || !search.data || search.size > DATA_SIZE_MAX)
		return false;
	search_first(&search, harmless[0]);
	search_again(&search, harmless[1]);
	search_again(&search, harmless[2]);
	if (search.count != 1)
		return false;
	layout_found(LAYOUT_HOOK_FLAGS, (uintptr_t)search.candidates[0]);
	for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
		*enabled_events() &= ~harmless[i];
	return true;
}

void event_flags_look(void)
{
	static bool looked;

	if (!looked && !layout_is_known(LAYOUT_HOOK_FLAGS))
		find();
	looked = true;
}

void event_flags_hold(rb_event_flag_t events)
{
	flags.holders++;
	flags.held |= events & ~*enabled_events();
	*enabled_events() |= flags.held;
}

void event_flags_release(void)
{
	if (--flags.holders > 0)
		return;
	*enabled_events() &= ~flags.held;
	flags.held = 0;
}

static VALUE scratch(VALUE unused)
{
	(void)unused;
	return builtin_lambda("-> { }");
}

static VALUE call(VALUE block)
{
	return rb_proc_call(block, rb_ary_new());
}

/* Code from before the hook must not be rewritten, and code that is made for the event must give it. */
static bool try(void)
{
	VALUE before, meanwhile;
	unsigned seen_before;
	struct quiet heard;
	int failed = 0;

	flags.failed = "a hook for calls or blocks was on before, so that it cannot be tried";
	if (*enabled_events() & (TRIED | RUBY_EVENT_CALL))
		return false;
	before = scratch(Qnil);
	event_flags_hold(TRIED);
	meanwhile = rb_protect(scratch, Qnil, &failed);
	flags.seen = 0;
	if (!failed)
		rb_add_event_hook(on_event, TRIED, Qnil);
	event_flags_release();
	if (failed)
		rb_jump_tag(failed);
	heard = quiet_pause();
	rb_protect(call, before, &failed);
	seen_before = flags.seen;
	rb_protect(call, meanwhile, &failed);
	quiet_end(heard);
	rb_remove_event_hook(on_event);
	*enabled_events() &= ~(rb_event_flag_t)TRIED;
	if (failed)
		exception_drop(Qnil);
	flags.failed = "the VM rewrites instructions all the same";
	return seen_before == 0 && flags.seen == 1;
}

bool event_flags_ready(void)
{
	if (flags.works || flags.attempts >= ATTEMPTS)
		return flags.works;
	if (foreign_hooks_on(FOREIGN_HOOKS_TRIAL)) {
		/* A trial that failed before says more. */
		if (flags.attempts == 0)
			flags.failed = FOREIGN_HOOKS_WHY;
		return false;
	}
	flags.attempts++;
	flags.failed = "it was not found; perhaps a hook for threads or fibers was on before";
	layout_not_found(LAYOUT_HOOK_FLAGS, flags.failed);
	flags.works = (layout_is_known(LAYOUT_HOOK_FLAGS) || find()) && try();
	return flags.works;
}

const char *event_flags_unready(void)
{
	return event_flags_ready() ? NULL : flags.failed;
}

bool event_flags_tried(void)
{
	return flags.attempts > 0;
}

unsigned event_flags_light_hooks;

void event_flags_hold_light(void)
{
	if (event_flags_light_hooks > 0)
		event_flags_hold(EVENT_FLAGS_LIGHT);
}

void event_flags_release_light(void)
{
	if (event_flags_light_hooks > 0)
		event_flags_release();
}

/*
 * The VM rewrites for events that it does not know as enabled, and such code alone as was not written for the same ones. Those of
 * coverage stand in no code but that which Coverage counts: so where that is not loaded, either is added by turns, and the other
 * taken out.
 */
enum event_flags_mended event_flags_mend(void)
{
	rb_event_flag_t event;
	bool are_free;

	if (!compat_target_takes_from_global())
		return EVENT_FLAGS_WELL;
	if (event_flags_light_hooks > 0 || !compat_is_only_ractor())
		return EVENT_FLAGS_LATER;
	if (!layout_is_known(LAYOUT_HOOK_FLAGS) && !find())
		return EVENT_FLAGS_WELL;
	if (!(*enabled_events() & (RUBY_EVENT_CALL | RUBY_EVENT_RETURN)))
		return EVENT_FLAGS_WELL;
	event = *enabled_events() & COVERAGE_LINE ? COVERAGE_BRANCH : COVERAGE_LINE;
	are_free = !rb_const_defined(rb_cObject, rb_intern("Coverage"));
	if (*enabled_events() & event && !are_free)
		return EVENT_FLAGS_WELL;
	if (are_free)
		*enabled_events() &= ~(rb_event_flag_t)(COVERAGE_LINE | COVERAGE_BRANCH);
	rb_add_event_hook(on_event, event, Qnil);
	rb_remove_event_hook(on_event);
	return EVENT_FLAGS_REWRITTEN;
}

void event_flags_restore_global(void)
{
	event_flags_hold_light();
	compat_restore_global_events();
	event_flags_release_light();
}
