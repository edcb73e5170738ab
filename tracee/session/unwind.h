#ifndef RBPROBE_TRACEE_UNWIND_H
#define RBPROBE_TRACEE_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Who called a function of a library, for a thread that stands still: by the library's own unwind tables (.eh_frame), from the
 * stack pointer and the program counter alone. Enough for libc's system calls and the functions around them, which address their
 * frames by the stack pointer. Takes no lock and allocates nothing. Any context.
 */

/* A library that stays mapped. */
struct unwind_image {
	uintptr_t start, end;
	const uint8_t *table; /* .eh_frame_hdr; NULL: it has none */
};

/* Finds the library with that address in it. Takes the loader's lock. False: there is none. */
bool unwind_image_find(struct unwind_image *image, const void *address);

static inline bool unwind_image_has(const struct unwind_image *image, uintptr_t address)
{
	return address >= image->start && address < image->end;
}

struct unwind_place {
	uintptr_t pc, sp;
	uintptr_t frame_pointer; /* 0: not known */
	bool is_return;          /* pc is where a call returns to */
};

/* From a place inside the image to its caller's. `read` copies from the stack. False: the tables do not tell. */
bool unwind_step(const struct unwind_image *image, struct unwind_place *place,
                 bool (*read)(uintptr_t from, void *to, size_t size));

/* Where the function begins that has this address in it. 0: not known. */
uintptr_t unwind_function(const struct unwind_image *image, uintptr_t address);

#endif
