#ifndef RBPROBE_HEAP_CLASSES_H
#define RBPROBE_HEAP_CLASSES_H

#include "tracer/base/buffer.h"
#include "tracer/heap/heap_line.h"
#include "tracer/heap/heap_table.h"

/*
 * The classes of a dump by their addresses. Instances name their class by its address, and may come before the line
 * that has its name: so classes have numbers, and labels are made when all has been read. A zeroed struct is empty.
 */
struct heap_class;

struct heap_classes {
	struct heap_index by_address;
	struct heap_class *items; /* by number */
	uint32_t capacity;
	struct heap_names names;
};

/* The number of the class at this address, known or not. */
uint32_t heap_classes_number(struct heap_classes *classes, uint64_t address);
/* Of a line of type CLASS, MODULE or ICLASS. */
void heap_classes_learn(struct heap_classes *classes, const struct heap_line *line);
/*
 * Adds what instances of a class are said to be: its name, in JSON's escapes; of a singleton class, the one it is the
 * singleton of an instance of; of one without a name, "#<Class:0x7f4321720478> < Struct".
 */
void heap_class_label(const struct heap_classes *classes, uint32_t number, struct buffer *to);
/* What the class at this address itself is said to be: "class Order", "module Shop", "singleton class of Order". */
void heap_class_title(const struct heap_classes *classes, uint64_t address, struct buffer *to);
void heap_classes_free(struct heap_classes *classes);

#endif
