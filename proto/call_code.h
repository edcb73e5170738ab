#ifndef RBPROBE_PROTO_CALL_CODE_H
#define RBPROBE_PROTO_CALL_CODE_H

#include <stdbool.h>
#include <stdint.h>

/* What calls look like in the code of this processor. Any context. */

#if defined(__x86_64__) || defined(__aarch64__)
#define CALL_CODE_KNOWN 1
#else
#define CALL_CODE_KNOWN 0
#endif

/* Copies a word from there. False: nothing can be read there. */
struct code_reader {
	bool (*word)(const void *owner, uint64_t address, uint64_t *word);
	const void *owner;
};

/* Whether the instruction in front of the address is a call, so that it may be where one returns to. */
bool call_code_is_return(const struct code_reader *reader, uint64_t address);

/*
 * What the call calls that returns there: a function, if need be of another library, by the table that the loader keeps for it.
 * 0: not known, as a register or a variable says it.
 */
uint64_t call_code_target(const struct code_reader *reader, uint64_t address);

#endif
