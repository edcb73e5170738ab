/*
 * What was meant by selectors that match nothing. See suggestions.h.
 *
 * The walk over the object space takes tens of nanoseconds an object, and cannot be left and taken up again. So only a small heap
 * is gone through; elsewhere all classes are asked for their subclasses, one after the other (Ruby 3.1 and newer), which misses
 * modules, and is done in pieces.
 */

#include "tracee/select/suggestions.h"

#include "proto/name_distance.h"
#include "tracee/base/text.h"
#include "tracee/select/selector.h"
#include "tracee/vm/class_name.h"
#include "tracee/vm/refinements.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define SMALL_HEAP_SLOTS 300000u
#define NAMED_MAX 3u

/* "Billing::Order" => "Order" */
static struct slice last_part(struct slice name)
{
	size_t from = name.size;

	while (from > 0 && name.bytes[from - 1] != ':')
		from--;
	return (struct slice){name.bytes + from, name.size - from};
}

/* "order_item" => "OrderItem" */
static struct slice capitalized(struct slice name, char *capital, size_t size)
{
	size_t used = 0;

	for (size_t i = 0; i < name.size && used < size; i++)
		if (name.bytes[i] != '_')
			capital[used++] = (char)(i == 0 || name.bytes[i - 1] == '_' ? toupper((unsigned char)name.bytes[i])
			                                                            : name.bytes[i]);
	return (struct slice){capital, used};
}

/* "save#" is a method's name alone, and "order#save" is meant of Order. */
static void mean(struct suggestion *one)
{
	struct selector *selector = &one->selector;
	struct slice misnamed = selector_misnamed(selector);

	one->last = last_part(selector->class_pattern);
	if (!misnamed.size)
		return;
	if (selector->method_pattern.size) {
		one->last = capitalized(one->last, one->capital, sizeof(one->capital));
		return;
	}
	selector->method_pattern = misnamed;
	selector->class_pattern = one->last = (struct slice){NULL, 0};
}

/* Not a pattern for several. A class may be meant that was written with a small letter. */
static bool names_class(const struct selector *selector)
{
	struct slice name = selector->class_pattern;

	return selector_is_exact(selector) || (selector_misnamed(selector).size && !memchr(name.bytes, '*', name.size));
}

void suggestions_add(struct suggestions *suggestions, uint32_t index, const struct selector *written)
{
	struct suggestion *one = &suggestions->items[suggestions->count];
	const struct selector *selector = &one->selector;
	bool any_class, is_pattern;

	if (suggestions->count == SUGGESTIONS_MAX)
		return;
	*one = (struct suggestion){.index = index, .selector = *written, .near_distance = NAME_DISTANCE_FAR};
	mean(one);
	any_class = selector->class_pattern.size == 0;
	is_pattern = selector_is_method_pattern(selector);
	if (any_class ? is_pattern : !names_class(selector))
		return;
	one->name = is_pattern ? Qnil : selector_literal_name(selector);
	one->is_pattern = is_pattern;
	suggestions->count++;
}

static bool has_method(const struct suggestion *one, VALUE module, char separator)
{
	if (one->is_pattern)
		return separator == one->selector.separator;
	return !NIL_P(one->name) && selector_has_method(separator == '#' ? module : rb_class_of(module), one->name);
}

/* quote: what stands around it where a shell would read it otherwise. */
static void name_one(char *list, size_t size, uint32_t *count, struct slice method, VALUE module, char separator,
                     const char *quote)
{
	struct text text = {.bytes = list, .size = size - 1, .used = strlen(list)};

	if (++*count > NAMED_MAX)
		return;
	text_append_cstr(&text, *count > 1 ? ", " : "");
	text_append_cstr(&text, quote);
	class_name_add(&text, module);
	text_append(&text, &separator, 1);
	text_append(&text, method.bytes, method.size);
	text_append_cstr(&text, quote);
	list[text.used] = '\0';
}

static bool is_its_name(const struct suggestion *one, struct slice name)
{
	return name.size == one->selector.class_pattern.size &&
	       memcmp(name.bytes, one->selector.class_pattern.bytes, name.size) == 0;
}

/* A third of the letters may be wrong, one in any case; there are many names. */
static bool is_near(struct slice written, struct slice name, unsigned *distance)
{
	size_t allowed = written.size < 6 ? 1 : written.size / 3;

	if (written.size < 3 || name.size + allowed < written.size || written.size + allowed < name.size)
		return false;
	*distance = name_distance(written, name);
	return *distance <= allowed;
}

/* Only the nearest are kept; of those of the class that was named, and of others, the former. */
static void name_near(struct suggestion *one, VALUE module, char separator, struct slice method, unsigned letters)
{
	VALUE name = rb_mod_name(module);
	bool elsewhere = NIL_P(name) || !is_its_name(one, (struct slice){RSTRING_PTR(name), (size_t)RSTRING_LEN(name)});
	unsigned distance = 2 * letters + elsewhere;

	RB_GC_GUARD(name);
	if (distance > one->near_distance)
		return;
	if (distance < one->near_distance)
		one->near_count = (uint32_t)(one->near[0] = '\0');
	one->near_distance = distance;
	name_one(one->near, sizeof(one->near), &one->near_count, method, module, separator, "");
}

/* Methods of the module, or of its singleton class, that have nearly that name. */
static void consider_methods(struct suggestion *one, VALUE module, char separator, VALUE inherited)
{
	static VALUE (*const lists[])(int, const VALUE *, VALUE) = {rb_class_instance_methods, rb_class_private_instance_methods};
	VALUE class = separator == '#' ? module : rb_class_of(module);

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		VALUE names = lists[i](1, &inherited, class);

		for (long j = 0; j < RARRAY_LEN(names); j++) {
			VALUE string = rb_sym2str(rb_ary_entry(names, j));
			struct slice name = {RSTRING_PTR(string), (size_t)RSTRING_LEN(string)};
			unsigned distance;

			if (is_near(one->selector.method_pattern, name, &distance))
				name_near(one, module, separator, name, distance);
			RB_GC_GUARD(string);
		}
	}
}

static void consider(struct suggestion *one, VALUE module, struct slice name)
{
	char same = one->selector.separator, other = same == '#' ? '.' : '#';
	struct slice last = last_part(name), method = one->selector.method_pattern;
	unsigned distance;

	if (last.size != one->last.size || strncasecmp(last.bytes, one->last.bytes, last.size) != 0) {
		if (is_near(one->last, last, &distance) && has_method(one, module, same))
			name_near(one, module, same, method, distance);
	} else if (has_method(one, module, same)) {
		if (!is_its_name(one, name))
			name_one(one->same, sizeof(one->same), &one->same_count, method, module, same, "");
	} else if (has_method(one, module, other)) {
		name_one(one->other, sizeof(one->other), &one->other_count, method, module, other, "");
	} else {
		consider_methods(one, module, same, Qtrue);
	}
}

/* Of a selector without a class. Singleton methods are those of the module's own singleton class. */
static void consider_any(struct suggestion *one, VALUE module)
{
	consider_methods(one, module, '#', Qfalse);
	if (class_name_is_singleton(rb_class_of(module)))
		consider_methods(one, module, '.', Qfalse);
}

static void note_found(const struct match *match, void *found)
{
	(void)match;
	*(bool *)found = true;
}

/* A refinement's methods are found by its own name alone. One of a singleton class stands for "Order.find". */
static void consider_refinement(struct suggestion *one, VALUE refinement, VALUE refined)
{
	struct selector of_any_class = one->selector;
	char bytes[NAME_SIZE_MAX];
	struct text name = {.bytes = bytes, .size = sizeof(bytes)};
	char separator = class_name_add_owner(&name, refined);
	bool found = false;

	if (separator != one->selector.separator || !is_its_name(one, (struct slice){bytes, name.used}))
		return;
	of_any_class.class_pattern.size = 0;
	of_any_class.separator = '#';
	selector_each_match_in(&of_any_class, refinement, note_found, &found);
	if (found)
		name_one(one->refined, sizeof(one->refined), &one->refined_count, one->selector.method_pattern, refinement, '#',
		         "'");
}

static bool begin(struct suggestions *suggestions)
{
	bool is_small = rb_gc_stat(ID2SYM(rb_intern("heap_live_slots"))) <= SMALL_HEAP_SLOTS;

#ifndef HAVE_RB_CLASS_SUBCLASSES
	if (!is_small)
		return false;
#endif
	suggestions->by_subclass = !is_small;
	suggestions->modules = is_small ? selector_all_modules() : rb_ary_new_from_args(1, rb_cBasicObject);
	suggestions->looking = true;
	return true;
}

bool suggestions_look(struct suggestions *suggestions)
{
	VALUE module, name, refined;

	if (suggestions->count == 0)
		return false;
	if (!suggestions->looking)
		return begin(suggestions);
	if (suggestions->next >= RARRAY_LEN(suggestions->modules))
		return false;
	module = rb_ary_entry(suggestions->modules, suggestions->next++);
#ifdef HAVE_RB_CLASS_SUBCLASSES
	if (suggestions->by_subclass)
		rb_ary_concat(suggestions->modules, rb_class_subclasses(module));
#endif
	name = rb_mod_name(module);
	refined = refinements_refined(module);
	for (uint32_t i = 0; i < suggestions->count; i++) {
		if (suggestions->items[i].last.size == 0 && !NIL_P(name) && NIL_P(refined))
			consider_any(&suggestions->items[i], module);
		else if (suggestions->items[i].last.size == 0)
			continue;
		else if (!NIL_P(refined))
			consider_refinement(&suggestions->items[i], module, refined);
		else if (!NIL_P(name))
			consider(&suggestions->items[i], module, (struct slice){RSTRING_PTR(name), (size_t)RSTRING_LEN(name)});
	}
	RB_GC_GUARD(name);
	return true;
}

void suggestions_write(const struct suggestions *suggestions, uint32_t index, char *text, size_t size)
{
	*text = '\0';
	for (uint32_t i = 0; i < suggestions->count; i++) {
		const struct suggestion *one = &suggestions->items[i];
		const char *list = one->same_count ? one->same : one->other_count ? one->other : one->near;
		uint32_t count = one->same_count ? one->same_count : one->other_count ? one->other_count : one->near_count;

		if (one->index != index)
			continue;
		if (one->refined_count)
			snprintf(text, size, ". %s: write %s%s",
			         one->refined_count > 1 ? "Refinements have it" : "A refinement has it", one->refined,
			         one->refined_count > NAMED_MAX ? ", ..." : "");
		else if (count)
			snprintf(text, size, ". Did you mean %s%s?", list, count > NAMED_MAX ? ", ..." : "");
	}
}

void suggestions_mark(const struct suggestions *suggestions)
{
	if (suggestions->looking)
		rb_gc_mark(suggestions->modules);
}
