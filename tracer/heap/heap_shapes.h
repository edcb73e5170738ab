#ifndef RBPROBE_HEAP_SHAPES_H
#define RBPROBE_HEAP_SHAPES_H

#include "tracer/heap/heap_classes.h"
#include "tracer/heap/heap_line.h"
#include "tracer/heap/heap_table.h"

/*
 * The object shapes of a dump (Ruby 3.3 and later write them): the tree of instance variables in the order in which objects
 * got them. A class whose objects get theirs in many orders has many shapes, and its variables are slow to find; one that has too
 * many gets no more ("too complex"). A zeroed struct is empty. Memory grows with shapes, and with pairs of class and shape.
 */

struct heap_shape {
	uint32_t parent; /* id */
	uint32_t depth;
	uint32_t edges;
	uint32_t name; /* in names, or HEAP_TABLE_NONE: a root, or one that adds no variable */
};

struct heap_shape_class {
	uint32_t shapes; /* different ones that its objects have */
	uint64_t too_complex;
};

struct heap_shapes {
	struct heap_index by_id;
	struct heap_shape *shapes; /* by number */
	struct heap_names names;
	struct heap_index pairs;           /* class and shape */
	struct heap_shape_class *by_class; /* by the class's number */
	uint32_t class_count;
	struct {
		uint32_t shapes, by_class;
	} capacity;
};

/* A line of any type. */
void heap_shapes_add(struct heap_shapes *shapes, struct heap_classes *classes, const struct heap_line *line);
/* The variables of the shape of this number, from the root on: "@name @total", in JSON's escapes; of very many the last 200. */
void heap_shape_path(const struct heap_shapes *shapes, uint32_t number, struct buffer *to);

enum heap_shape_order { HEAP_SHAPES_BY_EDGES, HEAP_SHAPES_BY_DEPTH };

/* The numbers of all shapes in that order, by depth those that no other begins with; the caller frees them. */
uint32_t *heap_shapes_sorted(const struct heap_shapes *shapes, enum heap_shape_order order, uint32_t *count);
/* The same of classes: those with most objects that are too complex, then with most shapes; without those that have one. */
uint32_t *heap_shape_classes_sorted(const struct heap_shapes *shapes, uint32_t *count);
void heap_shapes_free(struct heap_shapes *shapes);

#endif
