/*
 * Disabling targeted TracePoints. See targeted.h. Context: job.
 *
 * A method that define_method makes of a block has its hooks in its definition. Up to 3.1 (vm_trace.c of 2.7.4 and 3.1.2)
 * these are the hooks of one TracePoint: enabling a second one puts a new list there, and who disables a TracePoint takes the
 * list away that is there. Without one the VM crashes. Where a definition has its list is found out with a scratch method: it
 * is the one word that is 0 but while a TracePoint is on it, and then leads to a hook with this TracePoint.
 */

#include "tracee/vm/targeted.h"

#include "tracee/base/safe_read.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/event_flags.h"
#include "tracee/vm/foreign_hooks.h"
#include "tracee/vm/layout.h"
#include "tracee/vm/method_definition.h"
#include "tracee/vm/quiet.h"
#include "tracee/vm/scratch.h"

#include <ruby/debug.h>
#include <stdint.h>
#include <string.h>

#define DEFINITION_WORDS 6
#define HOOK_WORDS 6
/*
 * The first hook; its events, and how many threads run it; whether it is to be cleaned. On 2.7 the last two are the other way
 * round. All that follows is 0 for a definition's list.
 */
#define LIST_WORDS 3

static void on_nothing(VALUE tracepoint, void *data)
{
	(void)tracepoint;
	(void)data;
}

/* Whether that word of a definition leads to a hook of this TracePoint; then which word of the hook has it. */
static bool leads_to(uintptr_t list, VALUE tracepoint, size_t *data_word)
{
	uintptr_t first, hook[HOOK_WORDS];

	if (!safe_read_words(list, &first, 1) || !safe_read_words(first, hook, HOOK_WORDS))
		return false;
	for (*data_word = 1; *data_word < HOOK_WORDS; (*data_word)++)
		if (hook[*data_word] == tracepoint)
			return true;
	return false;
}

struct finding {
	uintptr_t definition;
	uintptr_t before[DEFINITION_WORDS];
	bool found;
	size_t list_word, data_word;
};

/* While the TracePoint is on. */
static VALUE list_find(VALUE argument)
{
	const struct scratch_watch *watch = (const struct scratch_watch *)argument;
	struct finding *finding = watch->data;
	uintptr_t with[DEFINITION_WORDS];

	if (!safe_read_words(finding->definition, with, DEFINITION_WORDS))
		return Qnil;
	for (size_t i = 0; i < DEFINITION_WORDS && !finding->found; i++) {
		finding->list_word = i;
		finding->found = finding->before[i] == 0 && leads_to(with[i], watch->tracepoints[0], &finding->data_word);
	}
	return Qnil;
}

static void find(void)
{
	struct finding finding = {0};
	struct scratch_watch watch = {.events = RUBY_EVENT_CALL, .event = on_nothing, .run = list_find, .data = &finding};
	struct scratch scratch;
	uintptr_t after[DEFINITION_WORDS];

	scratch_make(&scratch);
	scratch_define_block(&scratch, "hooked", builtin_lambda("-> { }"));
	watch.targets[0] = scratch_method(&scratch, "hooked");
	watch.argument = (VALUE)&watch;
	finding.definition = method_definition_of(watch.targets[0]);
	if (!finding.definition || !safe_read_words(finding.definition, finding.before, DEFINITION_WORDS))
		return;
	scratch_watch(&watch);
	if (finding.found && safe_read_words(finding.definition, after, DEFINITION_WORDS) && after[finding.list_word] == 0 &&
	    layout_found(LAYOUT_HOOK_DATA, finding.data_word))
		layout_found(LAYOUT_DEFINITION_HOOKS, finding.list_word);
}

/* The list's words, all 0 where there is none. */
static bool list_of(uintptr_t definition, uintptr_t list[LIST_WORDS])
{
	uintptr_t address;

	list[0] = list[1] = list[2] = 0;
	return layout_is_known(LAYOUT_DEFINITION_HOOKS) &&
	       safe_read_words(definition + layout_value(LAYOUT_DEFINITION_HOOKS) * sizeof(address), &address, 1) &&
	       (!address || safe_read_words(address, list, LIST_WORDS));
}

static enum targeted_hooks whose(const uintptr_t list[LIST_WORDS], VALUE tracepoint)
{
	uintptr_t of;

	if (!list[0])
		return TARGETED_NONE;
	return safe_read_words(list[0] + layout_value(LAYOUT_HOOK_DATA) * sizeof(of), &of, 1) && of == tracepoint
	               ? TARGETED_OURS
	               : TARGETED_OTHERS;
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

bool targeted_is_pushed_out(uintptr_t definition, VALUE tracepoint)
{
	uintptr_t list[LIST_WORDS];

	return definition && list_of(definition, list) && whose(list, tracepoint) != TARGETED_OURS;
}

bool targeted_known(void)
{
	static bool tried;

	if (!tried) {
		/* First of all: defining the scratch method may lead here again. */
		tried = true;
		find();
		layout_not_found(LAYOUT_DEFINITION_HOOKS, "no word of a definition led to the hook of a TracePoint");
	}
	return layout_is_known(LAYOUT_DEFINITION_HOOKS);
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

static enum { ALL_WELL, MEND_LATER, MEND_SOON, DISABLED_NOW } mending;

bool targeted_mend(void)
{
	enum event_flags_mended mended;

	if (mending == ALL_WELL)
		return false;
	if (mending == DISABLED_NOW) {
		mending = MEND_SOON;
		return false;
	}
	mended = event_flags_mend();
	mending = mended == EVENT_FLAGS_LATER ? MEND_LATER : ALL_WELL;
	return mended == EVENT_FLAGS_REWRITTEN;
}

bool targeted_mend_waits(void)
{
	return mending == MEND_SOON;
}

void targeted_disable(uintptr_t definition, VALUE tracepoint)
{
	/* As long as the VM's, without hooks. The VM of 2.7.4, 3.0 and 3.1.2 does not free a definition's list. */
	static uintptr_t no_hooks[8];
	uintptr_t *list, others;

	mending = DISABLED_NOW;
	if (!definition) {
		rb_tracepoint_disable(tracepoint);
		return;
	}
	if (!targeted_is_pushed_out(definition, tracepoint)) {
		rb_tracepoint_disable(tracepoint);
		event_flags_restore_global();
		return;
	}
	/* Another's hooks are there, or, where these were disabled since, none. Neither is for the VM to take away. */
	memset(no_hooks, 0, sizeof(no_hooks));
	list = (uintptr_t *)definition + layout_value(LAYOUT_DEFINITION_HOOKS);
	others = *list;
	*list = (uintptr_t)no_hooks;
	rb_tracepoint_disable(tracepoint);
	*list = others;
	event_flags_restore_global();
}

void targeted_wake_others(VALUE code, uint32_t line)
{
	VALUE tracepoint;

	if (compat_target_keeps_others())
		return;
	tracepoint = rb_tracepoint_new(Qnil, RUBY_EVENT_LINE, on_nothing, NULL);
	if (line)
		builtin_enable_for_line(tracepoint, code, line);
	else
		builtin_enable_for(tracepoint, code);
	rb_tracepoint_disable(tracepoint);
}
