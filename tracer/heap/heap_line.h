#ifndef RBPROBE_HEAP_LINE_H
#define RBPROBE_HEAP_LINE_H

#include "proto/slice.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * One line of a heap dump as ObjectSpace.dump_all writes them (Ruby 2.7 to 4.1; ext/objspace/objspace_dump.c): an object, a root
 * ("type":"ROOT", no address) or a shape ("type":"SHAPE", since 3.3). Fields that are not there are zeros.
 *
 * Slices are what stands between the quotes, with JSON's escapes as they were written, and lie within the line.
 */
struct heap_line {
	struct slice type;
	uint64_t address;
	uint64_t class_address;      /* 0 also for objects that Ruby hides */
	uint64_t superclass_address; /* of classes, since 3.1 */
	uint64_t memsize;            /* bytes: slot and what hangs on it */
	uint64_t bytesize;           /* of a string's content */
	uint64_t length;             /* elements of an array or a hash */
	int32_t source_line;         /* where it was allocated, if that was recorded */
	uint64_t generation;         /* GC count at that time; meaningful if has_generation */
	struct slice file;
	struct slice name;            /* of a class or module */
	struct slice real_class_name; /* of one without a name, since 3.1: of the class that it is an instance of */
	struct slice value;           /* meaningful if has_value: Ruby writes only that of strings that are ASCII */
	struct slice imemo_type;
	struct slice struct_name; /* of DATA */
	struct slice root;        /* the root's name */
	struct slice edge_name;   /* of a shape: the instance variable that it has more than its parent */
	uint64_t shape;           /* of a shape, and of an object: which shape it is; of an object meaningful if has_shape */
	uint64_t parent_shape;    /* of a shape that has one */
	uint64_t depth;           /* of a shape: how far it is from its root, which has 1 */
	uint64_t edges;           /* of a shape: how many others begin with it */
	struct slice references;  /* the array, brackets included; heap_references_scan() takes it apart */
	bool has_address;
	bool has_bytesize;
	bool has_length;
	bool has_generation;
	bool has_value;
	bool has_shape;
	bool too_complex; /* an object that has no shape any more, but a hash of its variables */
	bool singleton;   /* a singleton class, since 3.1 */
	bool end_mark;    /* of rbprobe's root: the dump has a mark at its end */
};

static inline bool heap_line_is(const struct heap_line *line, const char *type)
{
	return line->type.size == strlen(type) && memcmp(line->type.bytes, type, line->type.size) == 0;
}

static inline bool heap_line_is_root(const struct heap_line *line, const char *name)
{
	return heap_line_is(line, "ROOT") && line->root.size == strlen(name) &&
	       memcmp(line->root.bytes, name, line->root.size) == 0;
}

/* Roots that the VM does not have: `rbprobe heap dump` says by them what is its own, and where the dump ends. */
#define HEAP_ROOT_OWN "rbprobe"
#define HEAP_ROOT_END "rbprobe end"

/* Bytes after the line that must be readable, whatever they are. */
#define HEAP_LINE_PADDING 64

struct heap_parser;

/* NULL: no memory. */
struct heap_parser *heap_parser_new(void);
void heap_parser_free(struct heap_parser *parser);

/*
 * Parses the line, without its newline. Returns 0, -EINVAL where it is no line of a dump, or -ENOMEM. The slices hold
 * until the bytes change. Not all text is UTF-8: names of files and methods are written as they are.
 */
int heap_parser_line(struct heap_parser *parser, const char *bytes, size_t size, struct heap_line *line);

#ifdef __cplusplus
}
#endif

#endif
