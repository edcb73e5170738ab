/* Which frames a context has. See frame_context.h. */

#include "tracee/frame/frame_context.h"

#include "tracee/base/safe_read.h"
#include "tracee/vm/layout.h"

#define CONTEXT_WORDS 8           /* of an execution context, among which the innermost frame is looked for */
#define STACK_WORDS_MAX (1 << 27) /* a VM stack is smaller */

static bool is_within(uintptr_t frame, const uintptr_t *stack)
{
	return stack[1] > 0 && stack[1] < STACK_WORDS_MAX && frame >= stack[0] && frame < stack[0] + stack[1] * sizeof(uintptr_t);
}

bool frame_context_find(uintptr_t context, uintptr_t frame)
{
	uintptr_t words[CONTEXT_WORDS];

	if (!safe_read(context, words, sizeof(words)))
		return false;
	for (size_t f = 0; f < CONTEXT_WORDS; f++) {
		for (size_t s = 0; s + 1 < CONTEXT_WORDS; s++) {
			if (words[f] != frame || !is_within(frame, &words[s]))
				continue;
			return layout_found(LAYOUT_CONTEXT_FRAME, f) && layout_found(LAYOUT_CONTEXT_STACK, s);
		}
	}
	return false;
}

void frame_context_not_found(void)
{
	layout_not_found(LAYOUT_CONTEXT_FRAME, "no word of the context was the frame of a call");
	layout_not_found(LAYOUT_CONTEXT_STACK, "no words of the context were around the frame of a call");
}

bool frame_context_range(uintptr_t context, struct frame_range *range)
{
	size_t stack_word = layout_value(LAYOUT_CONTEXT_STACK), frame_word = layout_value(LAYOUT_CONTEXT_FRAME);
	uintptr_t words[CONTEXT_WORDS];

	if (!layout_is_known(LAYOUT_CONTEXT_STACK) || !safe_read(context, words, sizeof(words)) ||
	    !is_within(words[frame_word], &words[stack_word]))
		return false;
	range->innermost = words[frame_word];
	range->end = words[stack_word] + words[stack_word + 1] * sizeof(uintptr_t);
	return true;
}
