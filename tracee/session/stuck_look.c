/*
 * A look at the Ruby frames of a process that is stopped. See struct stuck_look in proto/stuck.h. Context: a native thread that
 * the client has stopped anywhere, under ptrace, with all signals blocked; Init may not have run. Async-signal-safe: it reads,
 * and writes to memory of its own.
 *
 * The thread that is stopped is asked for its own frames first. If it has the GVL, those of the others do not change either. The
 * VM has all threads in a ring that starts in the first two words of each one's structure, followed by the Thread object (2.7 to
 * 4.1-dev); each word is checked before it is followed, and read through the kernel, which does not fault. Should a frame be none
 * all the same, the client sees the fault, and puts everything back.
 */

#include "tracee/session/stuck.h"

#include "tracee/base/safe_read.h"
#include "tracee/vm/compat.h"

#include <ruby/debug.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define THREAD_WORDS 16 /* the beginning of a thread's structure */
#define CONTEXT_WORDS 64
#define CONTEXT_VM_STACK_WORDS 3 /* the VM stack's, which may lie on the native one, or not; behind them comes the jump tag */
#define VM_STACK_WORDS_MAX (1u << 27) /* RUBY_THREAD_VM_STACK_SIZE may be large */
#define OBJECT_WORDS 5
#define NODE_NEXT 0
#define NODE_PREVIOUS 1
#define THREAD_SELF 2

RUBY_FUNC_EXPORTED struct stuck_look *rbprobe_stuck_look(unsigned which, uintptr_t stack_end);

/* One client at a time traces the process. No memory is used before it asks. */
static struct stuck_look look;
static struct stuck_frames frames;

/* Where in a thread's structure its context is, and where in that the way back and an address on its native stack. */
struct layout {
	size_t context_word, thread_word, stack_word;
};

static bool is_thread(const uintptr_t *words, uintptr_t thread)
{
	uintptr_t object[OBJECT_WORDS];

	if (!safe_read_words(words[THREAD_SELF], object, OBJECT_WORDS) || (object[0] & RUBY_T_MASK) != RUBY_T_DATA)
		return false;
	for (size_t i = 1; i < OBJECT_WORDS; i++)
		if (object[i] == thread)
			return true;
	return false;
}

/* It begins with the VM stack, how many words that has, and where in that the running frame is; so on all versions up to 4.1. */
static bool is_context(const uintptr_t *words)
{
	return words[1] > 0 && words[1] <= VM_STACK_WORDS_MAX && words[2] >= words[0] &&
	       words[2] - words[0] <= words[1] * sizeof(*words);
}

/*
 * The context is what points back at the thread, and has a word that is on the stack in use. So has what the VM knows of a native
 * thread, which is no context.
 */
static bool layout_find(uintptr_t thread, const uintptr_t *words, uintptr_t stack_low, uintptr_t stack_high,
                        struct layout *layout)
{
	uintptr_t context[CONTEXT_WORDS], known = (uintptr_t)compat_stopped_context();

	for (layout->context_word = THREAD_SELF + 1; layout->context_word < THREAD_WORDS; layout->context_word++) {
		uintptr_t candidate = words[layout->context_word];

		if ((known && candidate != known) || !safe_read_words(candidate, context, CONTEXT_WORDS) || !is_context(context))
			continue;
		for (layout->thread_word = 0; layout->thread_word < CONTEXT_WORDS; layout->thread_word++)
			if (context[layout->thread_word] == thread)
				break;
		for (layout->stack_word = CONTEXT_VM_STACK_WORDS; layout->stack_word < CONTEXT_WORDS; layout->stack_word++)
			if (context[layout->stack_word] > stack_low && context[layout->stack_word] < stack_high)
				break;
		if (layout->thread_word < CONTEXT_WORDS && layout->stack_word < CONTEXT_WORDS)
			return true;
	}
	return false;
}

/* The one that comes `which` places behind this one in the ring: its first words. False: there is none. */
static bool thread_behind(uintptr_t own, unsigned which, uintptr_t words[THREAD_WORDS])
{
	uintptr_t thread = own, previous;

	for (unsigned looked_at = 0; which > 0 && looked_at <= STUCK_THREADS_MAX; looked_at++) {
		previous = thread;
		thread = words[NODE_NEXT];
		if (thread == own || !safe_read_words(thread, words, THREAD_WORDS) || words[NODE_PREVIOUS] != previous)
			return false;
		/* One element is the list's own. */
		if (is_thread(words, thread))
			which--;
	}
	return which == 0;
}

static bool add_other(unsigned which, uintptr_t stack_low, uintptr_t stack_high)
{
	uintptr_t own = (uintptr_t)compat_data(rb_thread_current()), words[THREAD_WORDS], context[CONTEXT_WORDS], address;
	struct layout layout;

	if (!safe_read_words(own, words, THREAD_WORDS) || !is_thread(words, own) ||
	    !layout_find(own, words, stack_low, stack_high, &layout))
		return false;
	if (!thread_behind(own, which, words))
		return false;
	look.stack = look.answer.native_id = 0;
	address = words[layout.context_word];
	/* One that has not begun has no VM stack, its context's first word. */
	if (!safe_read_words(address, context, CONTEXT_WORDS) || context[0] == 0)
		return true;
	look.stack = context[layout.stack_word];
	stuck_add_frames(&look.answer, &frames,
	                 compat_stopped_frames((VALUE)words[THREAD_SELF], (void *)address, STUCK_FRAMES_LOOKED_AT, frames.frames,
	                                       frames.lines));
	return true;
}

/*
 * Exported. which: 0: the frames of the thread that runs this; else those of another, as long as there is one. stack_end: where
 * its native stack ends. NULL: there is no such thread.
 */
struct stuck_look *rbprobe_stuck_look(unsigned which, uintptr_t stack_end)
{
	uintptr_t stack_low = (uintptr_t)__builtin_frame_address(0);

	stuck_answer_begin(&look.answer);
	look.stack = stack_low;
	if (look.answer.code != STUCK_REFUSED && !compat_may_look_stopped(stack_low, stack_end))
		look.answer.code = STUCK_NO_GVL;
	if (look.answer.code != STUCK_FRAMES)
		return which == 0 ? &look : NULL;
	if (which > 0)
		return add_other(which, stack_low, stack_end) ? &look : NULL;
	stuck_add_frames(&look.answer, &frames, rb_profile_frames(0, STUCK_FRAMES_LOOKED_AT, frames.frames, frames.lines));
	return &look;
}
