/*
 * What comes to a selection after it was armed: methods that are defined or redefined, and, under the firehose, those that are seen for the first time. See
 * selection.h. Context: job, GVL held; selection_hook_probe(): event.
 */

#include "selection_parts.h"

#include "aside.h"
#include "compat.h"
#include "core.h"
#include "expression.h"
#include "naming.h"
#include "patch.h"
#include "session.h"

#include <string.h>

/* --- Methods that are defined while we are attached */

struct addition {
	struct selection *selection;
	VALUE owner, name;
};

static VALUE arm_added(VALUE argument)
{
	const struct addition *addition = (const struct addition *)argument;
	struct selection *selection = addition->selection;
	VALUE owner = addition->owner;
	VALUE name = addition->name;
	struct match match = {.owner = owner, .name = name, .method = Qnil, .only_kind_of = Qundef};
	struct probe *probe = selection_probe(selection, owner, name);
	bool armed = false;

	for (uint32_t i = 0; i < selection->selector_count && !selection->disabled; i++) {
		const struct selector *selector = &selection->selectors[i];
		struct arming arming = {.selection = selection, .selector = i, .late = true};

		if (!selector_names_method(selector, name))
			continue;
		/* By its constant a class finds what it inherits, too. */
		if (!probe && selector_is_exact(selector))
			selector_each_match(selector, selection_arm_match, &arming);
		if (!selector_names(selector, owner, name))
			continue;
		selection_found(selection, i);
		if (armed)
			continue;
		match.method = core_call(CORE_MODULE_INSTANCE_METHOD, owner, 1, &name);
		if (probe)
			selection_arm_again(probe, &match);
		else
			selection_arm_match(&match, &arming);
		armed = true;
	}
	if (!selection->disabled && !armed) {
		match.method = core_call(CORE_MODULE_INSTANCE_METHOD, owner, 1, &name);
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
		selection_protect_arming(arm_added, (VALUE)&addition, &failed);
		if (failed)
			rb_set_errinfo(Qnil);
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
	for (const struct probe *probe = selection->first_made; probe; probe = probe->next_made) {
		const char *bypassed = probe->patches ? patch_bypassed(probe->owner, probe->callee, true) : NULL;

		if (!bypassed && !(all && probe->patches))
			continue;
		if (++count <= NAMED_MAX) {
			text_append_cstr(&names, count > 1 ? ", " : "");
			naming_method(&names, probe->owner, probe->callee);
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
			rb_set_errinfo(Qnil);
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
	struct expression_list *expressions = NULL;
	VALUE name = sighting->match.name;

	if (selector_defines(sighting->match.owner, name))
		sighting->match.method = core_call(CORE_MODULE_INSTANCE_METHOD, sighting->match.owner, 1, &name);
	if (!NIL_P(sighting->match.method))
		expressions = expression_list_new(&nothing, sighting->match.method, sighting->match.owner,
		                                  session->options.flags & TRACE_ARGUMENTS, false);
	/* Another thread may have seen it meanwhile, or a job have ended the trace. */
	sighting->probe = selection_probe(sighting->selection, sighting->match.owner, name);
	if (sighting->probe || sighting->selection->disabled) {
		expression_list_free(expressions);
		return Qnil;
	}
	sighting->probe = selection_add_probe(sighting->selection, &sighting->match, 0);
	sighting->probe->expressions = expressions;
	selection_send_method(sighting->probe, &engine_hook, sighting->match.method);
	sighting->probe->told = true;
	sighting->probe->engine = &engine_hook;
	return Qnil;
}

static VALUE first_sight_aside(VALUE sighting)
{
	int failed = 0;

	selection_protect_arming(first_sight, sighting, &failed);
	if (failed) {
		rb_set_errinfo(Qnil);
		((struct sighting *)sighting)->probe = NULL;
	}
	return Qnil;
}

struct probe *selection_hook_probe(struct selection *selection, VALUE owner, VALUE name, int *jump)
{
	struct probe *probe = selection_probe(selection, owner, name);
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
