/*
 * The search for a method's C function. See method_layout.h.
 *
 * What is looked for, with what was found on 2.7.4, 3.1.2, 3.3.8, 3.4, 4.0 and 4.1-dev: the entry at word 3 of the method object
 * (4 since 3.3), the definition at word 2 of the entry, the function at word 1 of the definition and its arity behind a further
 * pointer.
 */

#include "tracee/vm/method_layout.h"

#define OBJECT_WORDS 8
#define ENTRY_WORDS 6
#define DEFINITION_WORDS 6
#define INTS_PER_WORD (sizeof(uintptr_t) / sizeof(int))

/* The definition that a sample has under an assumed layout, as far as it can be read. */
struct view {
	uintptr_t words[DEFINITION_WORDS];
};

static bool is_pointer(uintptr_t word)
{
	return word >= 4096 && word % sizeof(uintptr_t) == 0;
}

static bool follow(uintptr_t from, size_t word, uintptr_t *to, method_reader read)
{
	return read(from + word * sizeof(uintptr_t), to, sizeof(*to)) && is_pointer(*to);
}

static bool look(const struct method_layout *layout, uintptr_t object, uintptr_t *definition, struct view *view,
                 method_reader read)
{
	uintptr_t entry;

	return follow(object, layout->entry_word, &entry, read) && follow(entry, layout->definition_word, definition, read) &&
	       read(*definition, view->words, sizeof(view->words));
}

static int arity_at(const struct view *view, size_t offset)
{
	return *(const int *)((const char *)view->words + offset);
}

static bool sample_fits(const struct method_layout *layout, const struct method_sample *sample, method_reader read)
{
	uintptr_t definition;
	struct view view;

	if (!look(layout, sample->object, &definition, &view, read))
		return !sample->c_function;
	if ((view.words[0] & METHOD_TYPE_MASK) != layout->type)
		return !sample->c_function;
	return sample->c_function && view.words[layout->function_word] == sample->function &&
	       arity_at(&view, layout->arity_offset) == sample->arity;
}

bool method_layout_fits(const struct method_layout *layout, const struct method_sample *samples, size_t count, method_reader read)
{
	for (size_t i = 0; i < count; i++)
		if (!sample_fits(layout, &samples[i], read))
			return false;
	return true;
}

/* Tries every place of function and arity in the definition that the first sample has. Returns how many layouts hold. */
static unsigned try_definition(struct method_layout *layout, struct method_layout *found, const struct method_sample *samples,
                               size_t count, method_reader read)
{
	uintptr_t definition;
	struct view view;
	unsigned fits = 0;

	if (!look(layout, samples[0].object, &definition, &view, read))
		return 0;
	layout->type = view.words[0] & METHOD_TYPE_MASK;
	for (size_t word = 1; word < DEFINITION_WORDS; word++) {
		if (view.words[word] != samples[0].function)
			continue;
		layout->function_word = word;
		for (size_t i = INTS_PER_WORD; i < DEFINITION_WORDS * INTS_PER_WORD; i++) {
			layout->arity_offset = i * sizeof(int);
			if (i / INTS_PER_WORD == word || arity_at(&view, layout->arity_offset) != samples[0].arity ||
			    !method_layout_fits(layout, samples, count, read))
				continue;
			*found = *layout;
			fits++;
		}
	}
	return fits;
}

bool method_layout_find(struct method_layout *layout, const struct method_sample *samples, size_t count, method_reader read)
{
	struct method_layout tried = {0}, found = {0};
	unsigned fits = 0;

	if (count == 0 || !samples[0].c_function)
		return false;
	for (tried.entry_word = 0; tried.entry_word < OBJECT_WORDS; tried.entry_word++)
		for (tried.definition_word = 0; tried.definition_word < ENTRY_WORDS; tried.definition_word++)
			fits += try_definition(&tried, &found, samples, count, read);
	if (fits != 1)
		return false;
	*layout = found;
	return true;
}

bool method_layout_follow(const struct method_layout *layout, uintptr_t object, struct method_target *target, method_reader read)
{
	struct view view;

	if (!look(layout, object, &target->definition, &view, read) || (view.words[0] & METHOD_TYPE_MASK) != layout->type)
		return false;
	target->function = view.words[layout->function_word];
	target->function_place = (uintptr_t *)(target->definition + layout->function_word * sizeof(uintptr_t));
	target->arity = arity_at(&view, layout->arity_offset);
	return target->function != 0;
}
