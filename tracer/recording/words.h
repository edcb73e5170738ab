#ifndef RBPROBE_WORDS_H
#define RBPROBE_WORDS_H

#include "proto/slice.h"

#include <stdint.h>

/* Texts that many things have in common, by number, each with a zero after it. A zeroed one is empty. */
struct words {
	void *tree;          /* private */
	struct slice *texts; /* by number */
	uint32_t count, room;
	uint64_t memory; /* bytes that they take */
};

#define NO_WORD UINT32_MAX

void words_free(struct words *words);
/* The text's number; it has one from now on. Ends the program without memory, as buffers do. */
uint32_t words_number(struct words *words, struct slice text);
/* NO_WORD: it has none. */
uint32_t words_find(const struct words *words, struct slice text);

#endif
