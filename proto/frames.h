#ifndef RBPROBE_PROTO_FRAMES_H
#define RBPROBE_PROTO_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

/*
 * How the VM has its control frames (Ruby 2.7 to 4.1-dev), for who reads them from outside. The process looks whether that is so
 * before it tells where they are: PROTOCOL.md, "FRAMES".
 */

#define FRAMES_OWN_MAX 8u /* functions of rbprobe's own work */

/* Words of an execution context. The frames end where the stack ends; the outermost is the last. */
enum { FRAMES_STACK, FRAMES_STACK_SIZE, FRAMES_INNERMOST, FRAMES_CONTEXT_WORDS };

/* Words of a frame. */
enum { FRAMES_CODE = 2, FRAMES_ENVIRONMENT = 4, FRAMES_WORDS_LEAST = 6, FRAMES_WORDS_MAX = 10 };

/* Of an environment: the flags, before them the one around it, and before that the method entry, or what has it. */
enum { FRAMES_ENVIRONMENT_BEFORE = 2 };

/* Internal objects: their kind is in the flags of the object, and this word tells one from another. */
#define FRAMES_KIND_HOLDER 2u /* has the method entry in the word after its flags */
#define FRAMES_KIND_ENTRY 6u
#define FRAMES_KIND_CODE 7u
#define FRAMES_KIND_SHIFT 12
#define FRAMES_KIND_MASK (UINT64_C(0x1f) | UINT64_C(0xf) << FRAMES_KIND_SHIFT)
#define FRAMES_KIND(number) (UINT64_C(0x1a) | (uint64_t)(number) << FRAMES_KIND_SHIFT)
#define FRAMES_BODY_WORD 2

/* Words of a method entry. */
enum { FRAMES_ENTRY_CALLED = 3, FRAMES_ENTRY_OWNER = 4, FRAMES_ENTRY_WORDS };

#define FRAMES_FLAG_LOCAL 0x2u   /* of a method's own environment, and not a block's */
#define FRAMES_FLAG_FINISH 0x20u /* the interpreter was called for it: it returns there, and not to the frame before */

#define FRAMES_TYPE_MASK 0x7fff0001u
#define FRAMES_TYPE_C 0x55550001u
#define FRAMES_TYPE_IN_C 0x66660001u /* a block that is written in C */

#define FRAMES_TYPE_NONE 0x79990001u /* the outermost one, of no code */

static inline bool frames_are_of_c(uint64_t flags)
{
	return (flags & FRAMES_TYPE_MASK) == FRAMES_TYPE_C || (flags & FRAMES_TYPE_MASK) == FRAMES_TYPE_IN_C;
}

static inline bool frames_are_flags(uint64_t word)
{
	static const uint32_t types[] = {0x11110001,       0x22220001, 0x33330001, 0x44440001,      FRAMES_TYPE_C,
	                                 FRAMES_TYPE_IN_C, 0x77770001, 0x78880001, FRAMES_TYPE_NONE};

	for (unsigned i = 0; i < sizeof(types) / sizeof(*types); i++)
		if ((word & FRAMES_TYPE_MASK) == types[i])
			return true;
	return false;
}

#endif
