/* Seeing a C function end. See patch_watch.h. */

#define _GNU_SOURCE
#include "tracee/engine/patch_watch.h"

#include "tracee/engine/patch_assembly.h"

#include <stddef.h>

#define REGISTERS 6
#define STACK_WORDS 48
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

VALUE patch_over_entry(VALUE watch);

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

__asm__(".pushsection .text\n" ASM_BEGIN(patch_over_entry) ASM_FRAME(48)
                STORE_REGISTERS CALL_OVER ASM_RETURN ASM_END(patch_over_entry) ".popsection\n");

#else

static VALUE patch_over_entry(VALUE watch)
{
	static const uintptr_t nothing[PLACES];

	return patch_over(watch, nothing, nothing, 0);
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
	const struct patch_watch *watch = (const struct patch_watch *)argument;
	VALUE unwinder = watch->returned ? Qundef : rb_errinfo();

	/* Of exceptions rb_ensure tells. */
	if (NIL_P(unwinder)) {
		if (jumps.is_unwinder)
			look(registers, stack, site);
		if (jumps.known && site == jumps.site && is_jump(word_at(jumps.place, registers, stack)))
			unwinder = word_at(jumps.place, registers, stack);
	}
	watch->over(watch->data, unwinder);
	return Qnil;
}

/*
 * Up to 3.3 rb_ensure hangs what it will call into a list, from its stack, of the execution context. Only callcc reads that. A
 * Fiber that is made meanwhile starts with a copy, which is stale when it runs: callcc in there crashed. So what is ours is taken
 * out again; the end of rb_ensure does not mind.
 */
struct ensured {
	struct ensured *next;
	VALUE marker;
	VALUE (*function)(VALUE);
	VALUE data;
};

#define CONTEXT_WORDS 40 /* from the place of the innermost frame */

static size_t list_word; /* of these; 0: not known, or there is no list */

/* rb_ensure's frame is between that of the function that it calls and the watch. */
READS_STACK static bool is_ours(uintptr_t word, const struct patch_watch *watch)
{
	const struct ensured *ensured = (const struct ensured *)word;

	return word % sizeof(word) == 0 && word > (uintptr_t)__builtin_frame_address(0) && word < (uintptr_t)watch &&
	       ensured->function == patch_over_entry && ensured->data == (VALUE)watch;
}

READS_STACK static void leave_list(const struct patch_watch *watch)
{
	uintptr_t *context = (uintptr_t *)watch->frame_place;

	if (!context)
		return;
	for (size_t i = 1; jumps.is_unwinder && list_word == 0 && i < CONTEXT_WORDS; i++)
		if (is_ours(context[i], watch))
			list_word = i;
	if (list_word && is_ours(context[list_word], watch))
		context[list_word] = (uintptr_t)((const struct ensured *)context[list_word])->next;
}

static VALUE run_body(VALUE argument)
{
	struct patch_watch *watch = (struct patch_watch *)argument;
	VALUE value;

	leave_list(watch);
	value = watch->body(watch->data);
	watch->returned = true;
	return value;
}

VALUE patch_watch(struct patch_watch *watch)
{
	return rb_ensure(run_body, (VALUE)watch, patch_over_entry, (VALUE)watch);
}

bool patch_watch_learn(bool (*is_unwinder)(uintptr_t word))
{
	jumps.is_unwinder = is_unwinder;
	/* A word that held the object of every jump, and each had its own, is where rb_ensure keeps it. */
	for (unsigned place = 0; !is_unwinder && jumps.seen > 1 && !jumps.known && place < PLACES; place++) {
		if (jumps.refuted[place])
			continue;
		jumps.known = true;
		jumps.place = place;
	}
	return jumps.known;
}
