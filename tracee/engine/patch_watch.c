/* Seeing a C function end. See patch_watch.h. */

#define _GNU_SOURCE
#include "tracee/engine/patch_watch.h"

#include "tracee/engine/patch_assembly.h"

#include <stddef.h>

#if defined(__aarch64__)
#define REGISTERS 10
#define STACK_WORDS 96 /* its jump buffers are larger */
#else
#define REGISTERS 6
#define STACK_WORDS 48
#endif
#define PLACES (REGISTERS + STACK_WORDS)

/* The stack above belongs to frames that the sanitizers know nothing about. */
#define READS_STACK __attribute__((no_sanitize("address")))

static struct {
	bool known;
	unsigned place;
	bool (*is_unwinder)(uintptr_t word); /* while the place is looked for */
	bool refuted[PLACES];
	unsigned seen;
	uintptr_t site; /* to which the second function returns: what is at the place in this code, and may not be elsewhere */
} jumps;

/*
 * Called by the assembly: with the registers that a function has to keep for its caller, the caller's stack, and where it will
 * return to.
 */
VALUE patch_over(VALUE watch, const uintptr_t registers[REGISTERS], const uintptr_t *stack, uintptr_t site);

#if defined(__x86_64__)

/* The watch's first byte. */
#define RETURN_WHERE_SETTLED                                                                                                     \
	"  cmpb $0, (%rdi)\n"                                                                                                    \
	"  je 1f\n"                                                                                                              \
	"  ret\n"                                                                                                                \
	"1:\n"
/* What a function has to keep for its caller, %rbp from where the frame has it. */
#define STORE_REGISTERS                                                                                                          \
	"  mov %rbx, 0(%rsp)\n"                                                                                                  \
	"  mov 0(%rbp), %rax\n"                                                                                                  \
	"  mov %rax, 8(%rsp)\n"                                                                                                  \
	"  mov %r12, 16(%rsp)\n"                                                                                                 \
	"  mov %r13, 24(%rsp)\n"                                                                                                 \
	"  mov %r14, 32(%rsp)\n"                                                                                                 \
	"  mov %r15, 40(%rsp)\n"
#define CALL_OVER                                                                                                                \
	"  mov %rsp, %rsi\n"                                                                                                     \
	"  lea 16(%rbp), %rdx\n"                                                                                                 \
	"  mov 8(%rbp), %rcx\n"                                                                                                  \
	"  call patch_over\n"

__asm__(".pushsection .text\n" ASM_BEGIN(patch_over_entry) RETURN_WHERE_SETTLED ASM_FRAME(48)
                STORE_REGISTERS CALL_OVER ASM_RETURN ASM_END(patch_over_entry) ".popsection\n");

#elif defined(__aarch64__)

/* The watch's first byte. */
#define RETURN_WHERE_SETTLED                                                                                                     \
	"  ldrb w1, [x0]\n"                                                                                                      \
	"  cbz w1, 1f\n"                                                                                                         \
	"  ret\n"                                                                                                                \
	"1:\n"
/* What a function has to keep for its caller. */
#define STORE_REGISTERS                                                                                                          \
	"  stp x19, x20, [sp, #16]\n"                                                                                            \
	"  stp x21, x22, [sp, #32]\n"                                                                                            \
	"  stp x23, x24, [sp, #48]\n"                                                                                            \
	"  stp x25, x26, [sp, #64]\n"                                                                                            \
	"  stp x27, x28, [sp, #80]\n"
#define CALL_OVER                                                                                                                \
	"  add x1, sp, #16\n"                                                                                                    \
	"  add x2, sp, #96\n"                                                                                                    \
	"  mov x3, x30\n"                                                                                                        \
	"  bl patch_over\n"

__asm__(".pushsection .text\n" ASM_BEGIN(patch_over_entry) RETURN_WHERE_SETTLED ASM_FRAME(96)
                STORE_REGISTERS CALL_OVER ASM_RETURN(96) ASM_END(patch_over_entry) ".popsection\n");

#else

VALUE patch_over_entry(VALUE watch)
{
	static const uintptr_t nothing[PLACES];

	return ((const struct patch_watch *)watch)->settled ? Qnil : patch_over(watch, nothing, nothing, 0);
}

#endif

READS_STACK static uintptr_t word_at(unsigned place, const uintptr_t *registers, const uintptr_t *stack)
{
	return place < REGISTERS ? registers[place] : stack[place - REGISTERS];
}

static void look(const uintptr_t *registers, const uintptr_t *stack, uintptr_t site)
{
	bool other_site = jumps.seen++ && site != jumps.site;

	jumps.site = site;
	for (unsigned place = 0; place < PLACES; place++)
		if (!jumps.refuted[place])
			jumps.refuted[place] = other_site || !jumps.is_unwinder(word_at(place, registers, stack));
}

/* The word is a value: rb_ensure holds on to it behind this very call. */
static bool is_jump(uintptr_t word)
{
	if (RB_SPECIAL_CONST_P(word))
		return RB_FIXNUM_P(word);
	return RB_BUILTIN_TYPE((VALUE)word) == RUBY_T_IMEMO;
}

VALUE patch_over(VALUE argument, const uintptr_t registers[REGISTERS], const uintptr_t *stack, uintptr_t site)
{
	struct patch_watch *watch = (struct patch_watch *)argument;
	VALUE unwinder = watch->returned ? Qundef : rb_errinfo();

	/* Of exceptions rb_ensure tells. */
	if (NIL_P(unwinder)) {
		if (jumps.is_unwinder)
			look(registers, stack, site);
		if (jumps.known && site == jumps.site && is_jump(word_at(jumps.place, registers, stack)))
			unwinder = word_at(jumps.place, registers, stack);
	}
	watch->over(watch, unwinder);
	return Qnil;
}

#define CONTEXT_WORDS 40 /* from the place of the innermost frame */

size_t patch_ensured_word;
bool patch_watch_learns;

READS_STACK void patch_watch_find_list(const struct patch_watch *watch)
{
	for (size_t i = 1; watch->frame_place && patch_ensured_word == 0 && i < CONTEXT_WORDS; i++)
		if (patch_watch_is_ours(watch->frame_place[i], watch))
			patch_ensured_word = i;
}

bool patch_watch_learn(bool (*is_unwinder)(uintptr_t word))
{
	jumps.is_unwinder = is_unwinder;
	patch_watch_learns = is_unwinder != NULL;
	/* A word that held the object of every jump, and each had its own, is where rb_ensure keeps it. */
	for (unsigned place = 0; !is_unwinder && jumps.seen > 1 && !jumps.known && place < PLACES; place++) {
		if (jumps.refuted[place])
			continue;
		jumps.known = true;
		jumps.place = place;
	}
	return jumps.known;
}
