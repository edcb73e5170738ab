#ifndef RBPROBE_METHOD_LAYOUT_H
#define RBPROBE_METHOD_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Where a method object leads to the C function that it calls. The VM does not say; it is found out from methods whose functions
 * and arities are known, and from methods that are not C functions. Knows nothing of Ruby and reads memory only through the given
 * function, so any context will do.
 *
 * Method object -> method entry -> definition, which starts with the method's type and holds the function and its number of
 * arguments.
 */

struct method_layout {
	size_t entry_word;      /* of the method object's data: the entry */
	size_t definition_word; /* of the entry: the definition */
	size_t function_word;   /* of the definition */
	size_t arity_offset;    /* of the definition, in bytes: an int */
	uintptr_t type;         /* of a C function: the definition's first word under METHOD_TYPE_MASK */
};

/* The type is a bit field of at least four bits at the beginning of the definition. */
#define METHOD_TYPE_MASK ((uintptr_t)0xf)

struct method_sample {
	uintptr_t object;   /* address of the method object's data */
	bool c_function;    /* else: written in Ruby, an attribute, an alias, ... */
	uintptr_t function; /* of a C function ... */
	int arity;          /* ... as given to rb_define_method */
};

/* Copies size bytes; false where there is no such memory. */
typedef bool (*method_reader)(uintptr_t from, void *to, size_t size);

/* Finds the one layout that holds for all samples. False where there is none, or more than one. */
bool method_layout_find(struct method_layout *layout, const struct method_sample *samples, size_t count, method_reader read);

struct method_target {
	uintptr_t definition;
	uintptr_t *function_place; /* within it */
	uintptr_t function;
	int arity;
};

/* Whether a layout holds for all samples. */
bool method_layout_fits(const struct method_layout *layout, const struct method_sample *samples, size_t count,
                        method_reader read);

/* What a method object leads to. False where that is no C function, or cannot be read. */
bool method_layout_follow(const struct method_layout *layout, uintptr_t object, struct method_target *target, method_reader read);

#endif
