/*
 * What comes to a selection after it was armed: methods that are defined or redefined, and, under the firehose, those that are
 * seen for the first time. See selection.h. Context: job, GVL held; selection_hook_probe(): event.
 */

#include "tracee/select/selection_parts.h"

#include "tracee/engine/patch.h"
#include "tracee/observe/decide.h"
#include "tracee/observe/expression.h"
#include "tracee/observe/tally_keys.h"
#include "tracee/session/debug.h"
#include "tracee/session/session.h"
#include "tracee/vm/aside.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/class_name.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/exception_drop.h"

#include <string.h>

/* --- Methods that are defined while we are attached */

struct addition {
	struct selection *selection;
	VALUE owner, name;
};

static void debug_added(const struct addition *addition, uint32_t selector, const struct probe *former)
{
	char bytes[512];
	struct text name = {.bytes = bytes, .size = sizeof(bytes)};

	if (!(addition->selection->session->debug & DEBUG_SELECT))
		return;
	class_name_add_method(&name, addition->owner, addition->name);
	debug_send(addition->selection->session, DEBUG_SELECT, "%.*s: added now%s; selector %u may mean it", (int)name.used,
	           name.bytes, former ? " once more" : "", selector);
}

static VALUE arm_added(VALUE argument)
{
	const struct addition *addition = (const struct addition *)argument;
	struct selection *selection = addition->selection;
	VALUE owner = addition->owner;
	VALUE name = addition->name;
	struct match match = {.owner = owner, .name = name, .method = Qnil, .only_kind_of = Qundef};
	struct probe *probe = probe_table_find(&selection->probes, owner, name);
	bool armed = false;

	if (selection->lines)
		lines_method_added(selection, owner, name, builtin_own_method(owner, name));
	for (uint32_t i = 0; i < selection->selector_count && !selection->disabled; i++) {
		const struct selector *selector = &selection->selectors[i];
		struct arming arming = {.selection = selection, .selector = i, .late = true};

		if (!selector_names_method(selector, name))
			continue;
		debug_added(addition, i, probe);
		/* By its constant a class finds what it inherits, too. */
		if (!probe && selector_is_exact(selector))
			selector_each_match_added(selector, owner, name, selection_arm_match, &arming);
		if (!selector_names(selector, owner, name))
			continue;
		selection_found(selection, i);
		if (armed)
			continue;
		match.method = builtin_own_method(owner, name);
		if (probe)
			selection_arm_again(probe, &match);
		else
			selection_arm_match(&match, &arming);
		armed = true;
	}
	if (!selection->disabled && !armed) {
		match.method = builtin_own_method(owner, name);
		selection_wait_for_method(selection, &match);
	}
	return Qnil;
}

void selection_method_added(VALUE owner, VALUE name)
{
	for (struct session *session = session_hold_next(NULL); session; session = session_hold_next(session)) {
		struct addition addition = {session->selection, owner, name};
		int failed = 0;

		if (!session->selection || session->selection->disabled)
			continue;
		arming_protect(arm_added, (VALUE)&addition, &failed);
		if (failed)
			exception_drop(Qnil);
		/* A job has disabled it in between, and did not see what was not armed yet. */
		if (session->selection->disabled)
			selection_disarm_all(session->selection);
	}
}

/* --- A compiler that is switched on */

#define NAMED_MAX 3u

static VALUE tell_of_compiler(VALUE argument)
{
	struct selection *selection = (struct selection *)argument;
	enum compat_compiler compiler = compat_compiler();
	const char *why = compiler == COMPAT_COMPILER_OTHER ? patch_compiler_other : NULL;
	bool all = why != NULL;
	char bytes[600];
	struct text names = {.bytes = bytes, .size = sizeof(bytes)};
	uint32_t count = 0;

	if (compiler == COMPAT_COMPILER_NONE)
		return Qnil;
	for (const struct probe *probe = selection->probes.first_made; probe; probe = probe->next_made) {
		const char *bypassed = probe->patches ? patch_bypassed(probe->owner, probe->callee, true) : NULL;

		if (!bypassed && !(all && probe->patches))
			continue;
		if (++count <= NAMED_MAX) {
			text_append_cstr(&names, count > 1 ? ", " : "");
			class_name_add_method(&names, probe->owner, probe->callee);
		}
		why = why ? why : bypassed;
	}
	if (count > NAMED_MAX)
		text_printf(&names, " and %u more", count - NAMED_MAX);
	if (count)
		session_note(selection->session, NOTE_WARNING,
		             "a compiler was switched on: calls of %.*s may not be seen from now on: %s", (int)names.used,
		             names.bytes, why);
	return Qnil;
}

void selection_compiler_on(void)
{
	for (struct session *session = session_hold_next(NULL); session; session = session_hold_next(session)) {
		int failed = 0;

		if (!session->selection || session->selection->disabled)
			continue;
		rb_protect(tell_of_compiler, (VALUE)session->selection, &failed);
		if (failed)
			exception_drop(Qnil);
	}
}

/* --- The firehose */

struct sighting {
	struct selection *selection;
	struct match match;
	struct probe *probe;
};

static VALUE first_sight(VALUE argument)
{
	static const struct selector nothing;
	struct sighting *sighting = (struct sighting *)argument;
	struct session *session = sighting->selection->session;
	struct expression_list *expressions = NULL, *condition = NULL, *ends = NULL;
	bool keeps_binding = false;
	VALUE name = sighting->match.name;

	if (selector_defines(sighting->match.owner, name))
		sighting->match.method = builtin_own_method(sighting->match.owner, name);
	if (!NIL_P(sighting->match.method))
		expressions = expression_list_new(&nothing, sighting->match.method, sighting->match.owner,
		                                  (struct expression_wish){.all = session->options.flags & TRACE_ARGUMENTS});
	if (!NIL_P(sighting->match.method))
		condition = decider_condition(session, sighting->match.method, sighting->match.owner, false);
	if (!NIL_P(sighting->match.method)) {
		ends = selection_ends_of_any(session, sighting->match.method, sighting->match.owner);
		keeps_binding = selection_keeps_binding(session, sighting->match.method);
	}
	/* Another thread may have seen it meanwhile, or a job have ended the trace. */
	sighting->probe = probe_table_find(&sighting->selection->probes, sighting->match.owner, name);
	if (sighting->probe || sighting->selection->disabled) {
		expression_list_free(expressions);
		expression_list_free(condition);
		expression_list_free(ends);
		return Qnil;
	}
	sighting->probe = selection_add_probe(sighting->selection, &sighting->match, 0);
	sighting->probe->roles = 1u << ROLE_SHOWN;
	sighting->probe->expressions = expressions;
	sighting->probe->condition = condition;
	sighting->probe->ends = ends;
	sighting->probe->keeps_binding = keeps_binding;
	selection_send_method(sighting->probe, &engine_hook, sighting->match.method);
	sighting->probe->told = true;
	sighting->probe->engine = &engine_hook;
	if (!NIL_P(sighting->match.method))
		sighting->probe->key = tally_keys_expression(session, NULL, sighting->match.method, sighting->match.owner, false);
	return Qnil;
}

static VALUE first_sight_aside(VALUE sighting)
{
	int failed = 0;

	arming_protect(first_sight, sighting, &failed);
	if (failed) {
		exception_drop(Qnil);
		((struct sighting *)sighting)->probe = NULL;
	}
	return Qnil;
}

struct probe *selection_hook_probe(struct engine_hook_state *hook, VALUE owner, VALUE name, int *jump)
{
	struct selection *selection = hook->owner;
	struct probe *probe = probe_table_find(&selection->probes, owner, name);
	struct sighting sighting = {.selection = selection,
	                            .match = {.owner = owner, .name = name, .method = Qnil, .only_kind_of = Qundef}};

	if (probe || !(selection->session->options.flags & TRACE_FIREHOSE) || selection->disabled || NIL_P(owner) || NIL_P(name))
		return probe;
	session_hold(selection->session);
	*jump = aside_protect(first_sight_aside, (VALUE)&sighting);
	/* No Ruby code runs until the event holds it again, or finds that it is over. */
	session_release(selection->session);
	return sighting.probe;
}
