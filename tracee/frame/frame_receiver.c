/*
 * Finds where frames have their receiver, and calls of C methods their arguments. See frame_receiver.h. Context: job.
 *
 * A scratch method written in C, called with several receivers and numbers of arguments, looks at its own frame and its caller's.
 * The only word that is the receiver in all of them is its place, and so is the only word of the caller that points before the
 * arguments.
 */

#include "tracee/frame/frame_receiver.h"

#include "tracee/base/safe_read.h"
#include "tracee/frame/frame_context.h"
#include "tracee/frame/frame_locals.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/scratch.h"
#include "tracee/vm/thread_layout.h"

#include <string.h>

#define FRAME_WORDS 16
#define SAMPLES 4
#define ATTEMPTS 3
#define ARGUMENTS_MAX 64
#define ENVIRONMENT_BEFORE 2 /* words of an environment before the one that is pointed to */
#define BLOCKS_MAX 32        /* blocks one within the other */

/* As in frame_snapshot.c: vm_core.h of 2.7 to 4.1. */
#define FLAG_LOCAL 0x0002u
#define POINTER_BITS ((uintptr_t)3)

static const char *const calls[SAMPLES] = {
	"->(o) { o.stand }", "->(o) { o.stand(:a, :b) }", "->(o) { o.stand(:c, o, [1]) { 1 } }",
	"->(o) { [o, o.stand(*[:d])] }", /* something is on the stack before */
};

struct stand {
	bool taken;
	uintptr_t frame, own[FRAME_WORDS], caller[FRAME_WORDS];
	VALUE receiver;
	uintptr_t arguments; /* where they are */
	int count;
};

static struct stand *standing; /* where the scratch method notes its call; one job runs at a time */

static VALUE stand(int argc, VALUE *argv, VALUE self)
{
	struct stand *sample = standing;
	size_t size = layout_value(LAYOUT_FRAME_SIZE);
	struct frame_range range;

	if (!sample || !frame_context_range((uintptr_t)thread_context(rb_thread_current()), &range) ||
	    range.end - range.innermost < 2 * size)
		return Qnil;
	sample->frame = range.innermost;
	sample->receiver = self;
	sample->arguments = (uintptr_t)argv;
	sample->count = argc;
	sample->taken = safe_read_words(range.innermost, sample->own, size / sizeof(uintptr_t)) &&
	                safe_read_words(range.innermost + size, sample->caller, size / sizeof(uintptr_t));
	return Qnil;
}

/* The only word that holds in all. */
static bool only_word(const struct stand *samples, bool (*holds)(const struct stand *, size_t), size_t *found)
{
	size_t words = layout_value(LAYOUT_FRAME_SIZE) / sizeof(uintptr_t), count = 0;

	for (size_t word = 0; word < words; word++) {
		size_t i = 0;

		while (i < SAMPLES && holds(&samples[i], word))
			i++;
		if (i < SAMPLES)
			continue;
		*found = word;
		count++;
	}
	return count == 1;
}

static bool is_receiver(const struct stand *sample, size_t word)
{
	return sample->own[word] == sample->receiver;
}

static bool is_stack(const struct stand *sample, size_t word)
{
	return sample->caller[word] == sample->arguments - sizeof(VALUE);
}

/* The arguments end where the environment begins. */
static bool is_argument_count(const struct stand *sample)
{
	uintptr_t environment = sample->own[layout_value(LAYOUT_FRAME_ENVIRONMENT)] - ENVIRONMENT_BEFORE * sizeof(VALUE);

	return environment - sample->arguments == (size_t)sample->count * sizeof(VALUE);
}

static void analyse(const struct stand *samples)
{
	size_t receiver, stack;

	for (size_t i = 0; i < SAMPLES; i++)
		if (!samples[i].taken)
			return;
	if (!only_word(samples, is_receiver, &receiver) || !layout_found(LAYOUT_FRAME_RECEIVER, receiver) ||
	    !only_word(samples, is_stack, &stack))
		return;
	for (size_t i = 0; i < SAMPLES; i++)
		if (!is_argument_count(&samples[i]))
			return;
	layout_found(LAYOUT_FRAME_STACK, stack);
}

static VALUE try(VALUE argument)
{
	struct stand *samples = (struct stand *)argument;
	struct scratch scratch;
	VALUE other;

	scratch_make(&scratch);
	scratch_define_c(&scratch, "stand", (VALUE(*)(VALUE))(void *)stand, -1);
	other = rb_obj_alloc(rb_cObject);
	rb_extend_object(other, scratch.module);
	for (size_t i = 0; i < SAMPLES; i++) {
		standing = &samples[i];
		rb_proc_call_with_block(builtin_lambda(calls[i]), 1, i % 2 ? &other : &scratch.object, Qnil);
	}
	analyse(samples);
	return Qnil;
}

void frame_receiver_find(void)
{
	static int attempts; /* one may be cut short */
	VALUE saved_error = rb_errinfo();
	struct stand samples[SAMPLES] = {{.taken = false}};
	int failed = 0;

	if (frame_receiver_is_known() || attempts == ATTEMPTS || !layout_is_known(LAYOUT_CONTEXT_FRAME) ||
	    !frame_locals_are_known())
		return;
	attempts++;
	rb_protect(try, (VALUE)samples, &failed);
	standing = NULL;
	if (failed)
		exception_drop(RTEST(rb_obj_is_kind_of(saved_error, rb_eException)) ? saved_error : Qnil);
	layout_not_found(LAYOUT_FRAME_RECEIVER, "no word of the frame was the receiver in all calls");
	layout_not_found(LAYOUT_FRAME_STACK, "no word of the caller's frame pointed to the arguments in all calls");
}

/* --- Reading */

static bool is_entry(VALUE value)
{
	VALUE flags;

	return !RB_SPECIAL_CONST_P(value) && safe_read_words(value, &flags, 1) &&
	       (flags & FRAME_ENTRY_MASK) == layout_value(LAYOUT_ENTRY_FLAGS);
}

const VALUE *frame_method_entry(uintptr_t frame, bool blocks)
{
	uintptr_t at = ((const uintptr_t *)frame)[layout_value(LAYOUT_FRAME_ENVIRONMENT)], words[ENVIRONMENT_BEFORE + 1];
	VALUE inner[2];

	for (int i = 0; i < BLOCKS_MAX; i++) {
		if (!safe_read_words(at - ENVIRONMENT_BEFORE * sizeof(uintptr_t), words, ENVIRONMENT_BEFORE + 1))
			return NULL;
		if (is_entry(words[0]))
			return (const VALUE *)words[0];
		if (words[ENVIRONMENT_BEFORE] & FLAG_LOCAL)
			break;
		if (!blocks)
			return NULL;
		at = words[1] & ~POINTER_BITS;
	}
	/* Where the method has used `$~` or `$_`, an internal object that holds these is in the entry's place, and has it. */
	return !RB_SPECIAL_CONST_P(words[0]) && safe_read_words(words[0], inner, 2) && (inner[0] & RUBY_T_MASK) == RUBY_T_IMEMO &&
	                       is_entry(inner[1])
	               ? (const VALUE *)inner[1]
	               : NULL;
}

int frame_arguments(uintptr_t frame, const VALUE **arguments)
{
	uintptr_t caller = frame + layout_value(LAYOUT_FRAME_SIZE), stack, environment;
	VALUE receiver;

	if (!layout_is_known(LAYOUT_FRAME_STACK) || frame_locals_code(frame))
		return -1;
	stack = ((const uintptr_t *)caller)[layout_value(LAYOUT_FRAME_STACK)];
	environment = ((const uintptr_t *)frame)[layout_value(LAYOUT_FRAME_ENVIRONMENT)] - ENVIRONMENT_BEFORE * sizeof(VALUE);
	if (environment <= stack || environment - stack > (ARGUMENTS_MAX + 1) * sizeof(VALUE) ||
	    !safe_read_words(stack, &receiver, 1) || receiver != frame_receiver(frame))
		return -1;
	*arguments = (const VALUE *)stack + 1;
	return (int)((environment - stack) / sizeof(VALUE)) - 1;
}
