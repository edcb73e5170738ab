/*
 * What is shown of a method's calls, or at a line: the expressions of all selectors that name it. See selection_parts.h. Context:
 * job, and whatever defines methods; GVL held, under rb_protect.
 */

#include "tracee/select/selection_parts.h"

#include "tracee/observe/decide.h"
#include "tracee/observe/expression.h"
#include "tracee/session/session.h"
#include "tracee/vm/method_definition.h"

#include <string.h>

/* A class's selector also finds what the class inherits, which names do not tell. */
static bool has_found(const struct selection *selection, uint32_t selector, const struct probe *probe)
{
	const struct selector_result *result = &selection->results[selector];
	const struct matches *matches = &selection->matches;

	for (size_t i = result->first_match; i < result->matches_end && i < matches->count; i++)
		if (matches->list[i].selector == selector && matches->list[i].match.owner == probe->owner &&
		    matches->list[i].match.name == probe->callee)
			return true;
	return false;
}

/* Those of a tracer are for different versions of a library: the first that is found is meant. */
bool selection_are_alternatives(const struct selector *one, const struct selector *other)
{
	return one->flags & other->flags & SELECTOR_OPTIONAL;
}

static bool means(const struct selection *selection, uint32_t selector, const struct probe *probe)
{
	const struct selector *candidate = &selection->selectors[selector];

	if (candidate->role != ROLE_SHOWN || !candidate->expression_count || selector_line(candidate))
		return false;
	return selector_names(candidate, probe->owner, probe->callee) ||
	       (selector_is_exact(candidate) && has_found(selection, selector, probe));
}

static bool has_expression(const struct slice *list, uint32_t count, struct slice expression)
{
	for (uint32_t i = 0; i < count; i++)
		if (list[i].size == expression.size && memcmp(list[i].bytes, expression.bytes, expression.size) == 0)
			return true;
	return false;
}

void selection_join_expressions(struct selector *together, struct slice all[EXPRESSIONS_MAX], const struct selector *one)
{
	for (uint32_t i = 0; i < one->expression_count; i++) {
		if (has_expression(all, together->expression_count, one->expressions[i]))
			continue;
		if (together->expression_count == EXPRESSIONS_MAX)
			rb_raise(rb_eRuntimeError, "selectors with more than %u expressions together name one %s",
			         EXPRESSIONS_MAX, selector_line(one) ? "line" : "method");
		all[together->expression_count++] = one->expressions[i];
	}
}

/* Those of all selectors that mean the method, into `all`. */
static struct selector joined(const struct probe *probe, uint32_t selector, struct slice all[EXPRESSIONS_MAX])
{
	const struct selection *selection = probe->session->selection;
	struct selector together = {.expressions = all};

	for (uint32_t i = 0; i < selection->selector_count; i++) {
		const struct selector *one = &selection->selectors[i];

		if (i != selector &&
		    (selection_are_alternatives(one, &selection->selectors[selector]) || !means(selection, i, probe)))
			continue;
		selection_join_expressions(&together, all, one);
	}
	return together;
}

struct expression_list *selection_expressions(const struct probe *probe, uint32_t selector, VALUE method, bool in_hand)
{
	const struct session *session = probe->session;
	const struct expression_wish wish = {
		.all = session->options.flags & TRACE_ARGUMENTS, .in_hand = in_hand, .ends = session->shows_ends};
	struct slice all[EXPRESSIONS_MAX];
	struct selector together = joined(probe, selector, all);

	return expression_list_new(&together, method, probe->owner, wish);
}

static struct expression_list *list_for_end(const struct session *session, const struct selector *selector, VALUE method,
                                            VALUE owner, bool in_hand)
{
	const struct expression_wish wish = {
		.all = session->options.flags & TRACE_LOCALS, .in_hand = in_hand, .ends = session->shows_ends};

	if (session->manner == CALLS_COUNTED || (!wish.all && !wish.ends))
		return NULL;
	if (wish.all && !NIL_P(method_definition_instructions(method)))
		session->selection->has_locals = true;
	return expression_list_new_for_end(selector, method, owner, wish);
}

struct expression_list *selection_ends(const struct probe *probe, uint32_t selector, VALUE method, bool in_hand)
{
	static const struct selector nothing;
	struct slice all[EXPRESSIONS_MAX];
	struct selector together = probe->session->shows_ends ? joined(probe, selector, all) : nothing;

	return list_for_end(probe->session, &together, method, probe->owner, in_hand);
}

struct expression_list *selection_ends_of_any(const struct session *session, VALUE method, VALUE owner)
{
	static const struct selector nothing;

	return list_for_end(session, &nothing, method, owner, false);
}

static bool evaluates(const struct session *session)
{
	return session->selection && (session->selection->has_expressions || session->options.flags & TRACE_INSPECT ||
	                              session->counts_by || (session->decider && session->decider->conditions.expression.size));
}

bool selection_evaluates(void)
{
	struct session *session = session_first();

	while (session && !evaluates(session))
		session = session->next;
	return session;
}
