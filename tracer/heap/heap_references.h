#ifndef RBPROBE_HEAP_REFERENCES_H
#define RBPROBE_HEAP_REFERENCES_H

#include "proto/slice.h"

#include <stddef.h>
#include <stdint.h>

/* The addresses of a line's "references", in their order. A zeroed struct is empty. */
struct heap_references {
	uint64_t *items;
	size_t count;
	size_t capacity;
	/* Where in an address the text ended that was scanned last. */
	enum { SCAN_BETWEEN, SCAN_QUOTE, SCAN_ZERO, SCAN_DIGITS, SCAN_OTHER } state;
	unsigned digits;
	uint64_t address;
};

/* For another line. */
void heap_references_clear(struct heap_references *references);
/* Adds the addresses of ["0x1", "0x2"], or of a part of it that follows the part before. What is no address is passed over. */
void heap_references_scan(struct heap_references *references, struct slice text);
void heap_references_free(struct heap_references *references);

#endif
