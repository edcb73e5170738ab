/*
 * What is shown of a method's calls, or at a line: the expressions of all selectors that name it. See selection_parts.h. Context:
 * job, and whatever defines methods; GVL held, under rb_protect.
 */

#include "tracee/select/selection_parts.h"

#include "tracee/observe/expression.h"
#include "tracee/session/session.h"

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

struct expression_list *selection_expressions(const struct probe *probe, uint32_t selector, VALUE method, bool in_hand)
{
	const struct session *session = probe->session;
	const struct selection *selection = session->selection;
	struct slice all[EXPRESSIONS_MAX];
	struct selector together = {.expressions = all};

	for (uint32_t i = 0; i < selection->selector_count; i++) {
		const struct selector *one = &selection->selectors[i];

		if (i != selector &&
		    (selection_are_alternatives(one, &selection->selectors[selector]) || !means(selection, i, probe)))
			continue;
		selection_join_expressions(&together, all, one);
	}
	return expression_list_new(&together, method, probe->owner, session->options.flags & TRACE_ARGUMENTS, in_hand);
}
