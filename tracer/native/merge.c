/*
 * One stack of Ruby's frames and native ones. See merge.h.
 *
 * From one call of the interpreter to the next there are frames of Ruby code, then perhaps methods in C, and these have called
 * native functions; of these the last ones have called the interpreter again.
 */

#include "tracer/native/merge.h"

#include <string.h>

#define ALMOST_ALL(most) ((most) - (most) / 5)

static uint32_t entries(const struct merge_stack *stack)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < stack->control_count; i++)
		count += stack->controls[i].enters;
	return count;
}

static uint32_t times(const struct merge_stack *stack, uint64_t start)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < stack->native_count; i++)
		count += stack->natives[i].start == start;
	return count;
}

static struct merge_candidate *candidate_of(struct merge_interpreter *interpreter, const struct merge_native *native)
{
	uint32_t count = interpreter->count;

	for (uint32_t i = 0; i < count; i++)
		if (interpreter->candidates[i].start == native->start)
			return &interpreter->candidates[i];
	if (count == sizeof(interpreter->candidates) / sizeof(*interpreter->candidates))
		return NULL;
	interpreter->candidates[count] = (struct merge_candidate){.start = native->start, .size = native->size};
	return &interpreter->candidates[interpreter->count++];
}

static bool was_before(const struct merge_stack *stack, uint32_t number)
{
	for (uint32_t i = 0; i < number; i++)
		if (stack->natives[i].start == stack->natives[number].start)
			return true;
	return false;
}

void merge_learn(struct merge_interpreter *interpreter, const struct merge_stack *stack)
{
	uint32_t wanted = entries(stack);

	if (stack->cut || !wanted)
		return;
	for (uint32_t i = 0; i < stack->native_count; i++) {
		const struct merge_native *native = &stack->natives[i];
		struct merge_candidate *candidate;

		if (!native->in_vm || !native->start || was_before(stack, i) || times(stack, native->start) != wanted)
			continue;
		candidate = candidate_of(interpreter, native);
		if (candidate && ++candidate->fits > interpreter->most)
			interpreter->most = candidate->fits;
	}
}

/*
 * Where threads have but one entry, so have other functions further out. The interpreter is by far the largest of them; but where
 * a JIT has made code of a method, the interpreter is not there, and what has called either of the two is there most often.
 */
struct merge_choice merge_interpreter_find(const struct merge_interpreter *interpreter)
{
	const struct merge_candidate *largest = NULL, *second = NULL;

	for (uint32_t i = 0; i < interpreter->count; i++) {
		const struct merge_candidate *candidate = &interpreter->candidates[i];

		if (candidate->fits >= ALMOST_ALL(interpreter->most) && (!largest || candidate->size > largest->size))
			largest = candidate;
	}
	for (uint32_t i = 0; i < interpreter->count; i++) {
		const struct merge_candidate *candidate = &interpreter->candidates[i];

		if (candidate != largest && candidate->fits == interpreter->most && (!second || candidate->size > second->size))
			second = candidate;
	}
	return (struct merge_choice){largest ? largest->start : 0, second ? second->start : 0};
}

struct merging {
	const struct merge_stack *stack;
	struct merge_frame *frames;
	uint32_t *count;
};

static void add(struct merging *merging, bool is_native, uint32_t number)
{
	if (is_native && !merging->stack->natives[number].shown)
		return;
	merging->frames[(*merging->count)++] = (struct merge_frame){is_native, number};
}

static void add_natives(struct merging *merging, uint32_t from, uint32_t to)
{
	for (; from < to; from++)
		add(merging, true, from);
}

/* What one call of the interpreter has led to: so many control frames, and native ones. */
static void add_group(struct merging *merging, uint32_t control, uint32_t control_end, uint32_t native, uint32_t native_end)
{
	const struct merge_stack *stack = merging->stack;

	for (; control < control_end; control++) {
		uint64_t function = stack->controls[control].is_c ? stack->controls[control].function : 0;
		uint32_t found = native;

		while (function && found < native_end && stack->natives[found].start != function)
			found++;
		if (function && found < native_end) {
			add_natives(merging, native, found);
			native = found + !stack->natives[found].named;
		}
		add(merging, false, control);
	}
	add_natives(merging, native, native_end);
}

static uint32_t next_entry(const struct merge_stack *stack, uint32_t control)
{
	while (control < stack->control_count && !stack->controls[control].enters)
		control++;
	return control;
}

static uint32_t next_interpreter(const struct merge_stack *stack, uint64_t interpreter, uint32_t native)
{
	while (native < stack->native_count && stack->natives[native].start != interpreter)
		native++;
	return native;
}

bool merge_frames(const struct merge_stack *stack, uint64_t interpreter, struct merge_frame *frames, uint32_t *count)
{
	struct merging merging = {stack, frames, count};
	uint32_t wanted = entries(stack), there = interpreter ? times(stack, interpreter) : 0, control, native;

	*count = 0;
	if (!interpreter || !wanted || there > wanted || (there < wanted && !stack->cut) || !there) {
		for (control = 0; control < stack->control_count; control++)
			add(&merging, false, control);
		return false;
	}
	/* What is before the first call that is known: of Ruby's frames all, and none of what started the thread. */
	control = next_entry(stack, 0);
	for (uint32_t missing = wanted - there; missing; missing--)
		control = next_entry(stack, control + 1);
	for (uint32_t i = 0; i < control; i++)
		add(&merging, false, i);
	native = next_interpreter(stack, interpreter, 0);
	while (control < stack->control_count) {
		uint32_t control_end = next_entry(stack, control + 1),
			 native_end = next_interpreter(stack, interpreter, native + 1);

		add_group(&merging, control, control_end, native + 1, native_end);
		control = control_end;
		native = native_end;
	}
	return true;
}
