/*
 * What a command's selectors match, between looking and arming. See selection_parts.h. Context: job; method_added of other
 * threads, which run while the job hands over the GVL. The GC marks it with the selection.
 */

#include "tracee/select/selection_parts.h"

#include "tracee/select/selector.h"
#include "tracee/vm/builtin_methods.h"

#include <stdlib.h>

void matches_add(struct selection *selection, const struct match *match, uint32_t selector, bool late)
{
	struct matches *matches = &selection->matches;
	struct selector_result *result = &selection->results[selector];

	if (matches->count == matches->size) {
		size_t size = matches->size ? 2 * matches->size : 64;
		struct selector_match *list = realloc(matches->list, size * sizeof(*list));

		if (!list)
			rb_memerror();
		matches->list = list;
		matches->size = size;
	}
	if (!late && !result->matches_end)
		result->first_match = matches->count;
	if (!late)
		result->matches_end = matches->count + 1;
	matches->list[matches->count++] = (struct selector_match){*match, selector, late};
	/* The same name may stand in front, with what it meant until now. */
	matches->stale |= late;
}

void matches_mark(const struct matches *matches)
{
	for (size_t i = 0; i < matches->count; i++) {
		const struct match *match = &matches->list[i].match;

		rb_gc_mark(match->owner);
		rb_gc_mark(match->name);
		rb_gc_mark(match->method);
		if (match->only_kind_of != Qundef)
			rb_gc_mark(match->only_kind_of);
	}
}

void matches_free(struct matches *matches)
{
	free(matches->list);
	*matches = (struct matches){.list = NULL};
}

uint64_t matches_arm(struct selection *selection, size_t i)
{
	const struct matches *matches = &selection->matches;
	/* Others may add to the list meanwhile. */
	struct selector_match one = matches->list[i];
	struct arming arming = {.selection = selection, .selector = one.selector, .late = one.late};

	if (matches->stale && !selector_defines(one.match.owner, one.match.name))
		return 0;
	if (matches->stale)
		one.match.method = builtin_own_method(one.match.owner, one.match.name);
	selection_arm_match(&one.match, &arming);
	selection->results[one.selector].armed += (uint32_t)arming.armed;
	return selection->selectors[one.selector].role == ROLE_SHOWN ? arming.armed : 0;
}
