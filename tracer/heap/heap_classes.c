/* What classes are called. See heap_classes.h. */

#include "tracer/heap/heap_classes.h"

#include <stdlib.h>

enum class_kind { KIND_UNKNOWN, KIND_CLASS, KIND_MODULE, KIND_ICLASS };

struct heap_class {
	uint64_t address;
	uint64_t superclass_address;
	uint32_t name;      /* or HEAP_TABLE_NONE */
	uint32_t real_name; /* likewise */
	uint8_t kind;
	bool singleton;
};

/*
 * Singletons of singletons, and the included modules between a class and its superclass. Addresses in a file may lead
 * in circles.
 */
#define DISTANCE_MAX 64

uint32_t heap_classes_number(struct heap_classes *classes, uint64_t address)
{
	bool is_new;
	uint32_t number = heap_index_add(&classes->by_address, address, &is_new);

	if (is_new) {
		classes->items = heap_entries(classes->items, &classes->capacity, number, sizeof(*classes->items));
		classes->items[number] =
			(struct heap_class){.address = address, .name = HEAP_TABLE_NONE, .real_name = HEAP_TABLE_NONE};
	}
	return number;
}

void heap_classes_learn(struct heap_classes *classes, const struct heap_line *line)
{
	uint32_t number = heap_classes_number(classes, line->address); /* may move the items */
	struct heap_class *class = &classes->items[number];

	class->kind = line->type.bytes[0] == 'C' ? KIND_CLASS : line->type.bytes[0] == 'M' ? KIND_MODULE : KIND_ICLASS;
	class->singleton = line->singleton;
	class->superclass_address = line->superclass_address;
	if (line->name.bytes)
		class->name = heap_names_add(&classes->names, line->name);
	if (line->real_class_name.bytes)
		class->real_name = heap_names_add(&classes->names, line->real_class_name);
}

/* The superclass, without the modules in between; NULL: there is none. */
static const struct heap_class *superclass(const struct heap_classes *classes, const struct heap_class *class)
{
	for (int i = 0; i < DISTANCE_MAX; i++) {
		uint32_t number = class->superclass_address ? heap_index_find(&classes->by_address, class->superclass_address)
		                                            : HEAP_TABLE_NONE;

		if (number == HEAP_TABLE_NONE)
			return NULL;
		class = &classes->items[number];
		if (class->kind != KIND_ICLASS)
			return class;
	}
	return NULL;
}

static void add_name(const struct heap_classes *classes, uint32_t name, struct buffer *to)
{
	buffer_add_slice(to, classes->names.texts[name]);
}

void heap_class_label(const struct heap_classes *classes, uint32_t number, struct buffer *to)
{
	const struct heap_class *class = &classes->items[number], *above;

	for (int i = 0; i < DISTANCE_MAX; i++) {
		if (class->name != HEAP_TABLE_NONE || class->real_name != HEAP_TABLE_NONE) {
			add_name(classes, class->name != HEAP_TABLE_NONE ? class->name : class->real_name, to);
			return;
		}
		above = superclass(classes, class);
		if (!class->singleton || !above)
			break;
		class = above;
	}
	if (class->kind == KIND_UNKNOWN) {
		buffer_add_format(to, "(class 0x%llx, not in the dump)", (unsigned long long)class->address);
		return;
	}
	buffer_add_format(to, "#<%s:0x%llx>", class->kind == KIND_MODULE ? "Module" : "Class",
	                  (unsigned long long)class->address);
	above = superclass(classes, class);
	if (above && above->name != HEAP_TABLE_NONE && class->kind == KIND_CLASS) {
		buffer_add_text(to, " < ");
		add_name(classes, above->name, to);
	}
}

void heap_class_title(const struct heap_classes *classes, uint64_t address, struct buffer *to)
{
	uint32_t number = heap_index_find(&classes->by_address, address);
	const struct heap_class *class;

	if (number == HEAP_TABLE_NONE)
		return;
	class = &classes->items[number];
	buffer_add_text(to, class->singleton ? "singleton class of " : class->kind == KIND_MODULE ? "module " : "class ");
	heap_class_label(classes, number, to);
}

void heap_classes_free(struct heap_classes *classes)
{
	heap_index_free(&classes->by_address);
	heap_names_free(&classes->names);
	free(classes->items);
	*classes = (struct heap_classes){0};
}
