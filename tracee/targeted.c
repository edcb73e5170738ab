/*
 * Disabling targeted TracePoints. See targeted.h. Context: job.
 *
 * A method that define_method makes of a block has its hooks in its definition. Up to 3.1 (vm_trace.c of 2.7.4 and 3.1.2)
 * these are the hooks of one TracePoint: enabling a second one puts a new list there, and who disables a TracePoint takes the
 * list away that is there. Without one the VM crashes. Where a definition has its list is found out with a scratch method: it
 * is the one word that is 0 but while a TracePoint is on it, and then leads to a hook with this TracePoint.
 */

#define _GNU_SOURCE
#include "targeted.h"

#include "compat.h"
#include "core.h"
#include "definition.h"
#include "engine.h"
#include "foreign_hooks.h"
#include "quiet.h"

#include <ruby/debug.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define DEFINITION_WORDS 6
#define HOOK_WORDS 6
/*
 * The first hook; its events, and how many threads run it; whether it is to be cleaned. On 2.7 the last two are the other way
 * round. All that follows is 0 for a definition's list.
 */
#define LIST_WORDS 3

static struct {
	bool tried, found;
	size_t list_word; /* of a definition */
	size_t data_word; /* of a hook */
} place;

static bool read_words(uintptr_t from, uintptr_t *words, size_t count)
{
	struct iovec local = {words, count * sizeof(*words)};
	struct iovec remote = {(void *)from, count * sizeof(*words)};

	return from >= 4096 && from % sizeof(*words) == 0 &&
	       process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)(count * sizeof(*words));
}

static void on_nothing(VALUE tracepoint, void *data)
{
	(void)tracepoint;
	(void)data;
}

/* Whether that word of a definition leads to a hook of this TracePoint. */
static bool leads_to(uintptr_t list, VALUE tracepoint)
{
	uintptr_t first, hook[HOOK_WORDS];

	if (!read_words(list, &first, 1) || !read_words(first, hook, HOOK_WORDS))
		return false;
	for (place.data_word = 1; place.data_word < HOOK_WORDS; place.data_word++)
		if (hook[place.data_word] == tracepoint)
			return true;
	return false;
}

void targeted_disable_own(VALUE tracepoint)
{
	rb_tracepoint_disable(tracepoint);
	engine_hook_restore_global_events();
}

static void find(void)
{
	uintptr_t before[DEFINITION_WORDS], with[DEFINITION_WORDS], after[DEFINITION_WORDS];
	uintptr_t definition;
	VALUE module = core_scratch_module(), method, tracepoint;

	/* First of all: defining the scratch method may lead here again. */
	place.tried = true;
	core_define_method(module, "hooked", core_run("-> { }"));
	method = core_find_method(module, "hooked");
	definition = definition_of(method);
	tracepoint = rb_tracepoint_new(Qnil, RUBY_EVENT_CALL, on_nothing, NULL);
	if (!definition || !read_words(definition, before, DEFINITION_WORDS))
		return;
	core_enable_for(tracepoint, method);
	if (read_words(definition, with, DEFINITION_WORDS))
		for (size_t i = 0; i < DEFINITION_WORDS && !place.found; i++) {
			place.list_word = i;
			place.found = before[i] == 0 && leads_to(with[i], tracepoint);
		}
	targeted_disable_own(tracepoint);
	place.found = place.found && read_words(definition, after, DEFINITION_WORDS) && after[place.list_word] == 0;
	RB_GC_GUARD(method);
	RB_GC_GUARD(tracepoint);
}

/* The list's words, all 0 where there is none. */
static bool list_of(uintptr_t definition, uintptr_t list[LIST_WORDS])
{
	uintptr_t address;

	list[0] = list[1] = list[2] = 0;
	return place.found && read_words(definition + place.list_word * sizeof(address), &address, 1) &&
	       (!address || read_words(address, list, LIST_WORDS));
}

static enum targeted_hooks whose(const uintptr_t list[LIST_WORDS], VALUE tracepoint)
{
	uintptr_t of;

	if (!list[0])
		return TARGETED_NONE;
	return read_words(list[0] + place.data_word * sizeof(of), &of, 1) && of == tracepoint ? TARGETED_OURS : TARGETED_OTHERS;
}

static bool is_running(const uintptr_t list[LIST_WORDS])
{
	return list[1] >> 32 != 0 || (uint32_t)list[2] != 0;
}

enum targeted_hooks targeted_hooks(uintptr_t definition, VALUE tracepoint)
{
	uintptr_t list[LIST_WORDS];

	return list_of(definition, list) ? whose(list, tracepoint) : TARGETED_NONE;
}

bool targeted_known(void)
{
	if (!place.tried)
		find();
	return place.found;
}

bool targeted_rest(void)
{
	if (!compat_target_may_be_disabled())
		return false;
	return compat_target_survives_hooks() || (!foreign_hooks_run() && !quiet_hook_runs());
}

bool targeted_may_be_disabled(uintptr_t definition, VALUE tracepoint)
{
	uintptr_t list[LIST_WORDS];

	return !definition || !list_of(definition, list) || whose(list, tracepoint) != TARGETED_OURS || !is_running(list);
}

void targeted_disable(uintptr_t definition, VALUE tracepoint)
{
	/* As long as the VM's, without hooks. The VM of 2.7.4, 3.0 and 3.1.2 does not free a definition's list. */
	static uintptr_t no_hooks[8];
	uintptr_t *list = place.found ? (uintptr_t *)definition + place.list_word : NULL;
	uintptr_t others;

	if (!definition) {
		rb_tracepoint_disable(tracepoint);
		return;
	}
	if (!list || targeted_hooks(definition, tracepoint) == TARGETED_OURS) {
		targeted_disable_own(tracepoint);
		return;
	}
	/* Another's hooks are there, or, where these were disabled since, none. Neither is for the VM to take away. */
	memset(no_hooks, 0, sizeof(no_hooks));
	others = *list;
	*list = (uintptr_t)no_hooks;
	rb_tracepoint_disable(tracepoint);
	*list = others;
	engine_hook_restore_global_events();
}
