/*
 * What engine patch relies on, and the trial of it. See patch.h. Context: job, GVL held, under rb_protect; patch_frame_place: event.
 *
 * The facts are in the table at the end, in the order in which they are found out: each stands on those before it. facts.c says what they are, and on
 * which Rubies they were seen; what counts is that they are found true in the process at hand. They are tried on methods of an anonymous module, which the
 * GC takes away.
 */

#define _GNU_SOURCE
#include "patch.h"

#include "compat.h"
#include "engine.h"
#include "foreign_hooks.h"
#include "frame.h"
#include "patch_stubs.h"
#include "patch_trial.h"

#include <errno.h>
#include <ruby/debug.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define CONTEXT_WORDS 8           /* of an execution context, among which the innermost frame is looked for */
#define FIBER_SIZE_MAX 4096       /* bytes of a fiber's data, in which its execution context lies */
#define STACK_WORDS_MAX (1 << 27) /* a VM stack is smaller */

static struct {
	bool tried;
	enum patch_fact failed; /* the first that is not found true */
	struct patch_layout layout;

	ptrdiff_t context_offset; /* of a fiber's data: its execution context */
	size_t frame_word;        /* of that: the innermost frame, */
	size_t stack_word;        /* and where the VM stack begins; its size in words follows */
} facts = {.failed = PATCH_FACTS};

bool patch_read(uintptr_t from, void *to, size_t size)
{
	struct iovec local = {.iov_base = to, .iov_len = size};
	struct iovec remote = {.iov_base = (void *)from, .iov_len = size};

	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)size;
}

bool patch_follow(VALUE method, struct patch_target *target)
{
	return patch_layout_follow(&facts.layout, (uintptr_t)compat_data(method), target, patch_read);
}

void patch_put(const struct patch_target *target, uintptr_t function)
{
	atomic_store_explicit((_Atomic uintptr_t *)target->function_place, function, memory_order_release);
}

static bool has_stubs(struct trial *trial)
{
	(void)trial;
	return patch_stubs_available();
}

static bool finds_layout(struct trial *trial)
{
	struct patch_sample samples[TRIAL_SAMPLES_MAX];
	size_t count = trial_samples(trial, samples);

	return patch_layout_find(&facts.layout, samples, count, patch_read);
}

/* The innermost frame of the running fiber. */

static bool is_within(uintptr_t frame, const uintptr_t *stack)
{
	return stack[1] > 0 && stack[1] < STACK_WORDS_MAX && frame >= stack[0] && frame < stack[0] + stack[1] * sizeof(uintptr_t);
}

static bool find_frame(uintptr_t context, uintptr_t frame)
{
	uintptr_t words[CONTEXT_WORDS];

	if (!patch_read(context, words, sizeof(words)))
		return false;
	for (size_t f = 0; f < CONTEXT_WORDS; f++) {
		for (size_t s = 0; s + 1 < CONTEXT_WORDS; s++) {
			if (words[f] != frame || !is_within(frame, &words[s]))
				continue;
			facts.frame_word = f;
			facts.stack_word = s;
			return true;
		}
	}
	return false;
}

/* Somebody might find a TracePoint of the trial's later, in ObjectSpace: then there is none. */
static struct trial *running;

/* An event in which the running fiber's frame is known: the words of the event's argument lead to the execution context. */
static void frame_event(VALUE tracepoint, void *data)
{
	struct trial *trial = running;
	rb_trace_arg_t *trace_arg = rb_tracearg_from_tracepoint(tracepoint);
	uintptr_t frame = frame_of_call(trace_arg, RUBY_EVENT_CALL, FRAME_ANCHOR());
	uintptr_t fiber = (uintptr_t)compat_data(rb_fiber_current());
	const uintptr_t *words = (const uintptr_t *)trace_arg;

	(void)data;
	for (int i = 0; i < 4 && trial && frame && !trial->frame_found; i++) {
		if (words[i] <= fiber || words[i] >= fiber + FIBER_SIZE_MAX || !find_frame(words[i], frame))
			continue;
		facts.context_offset = (ptrdiff_t)(words[i] - fiber);
		trial->frame_found = true;
	}
}

static bool finds_frames(struct trial *trial)
{
	if (frame_calibrate(FRAME_TARGETED, NULL) < 0 && !frame_identity_known(FRAME_TARGETED))
		return false;
	trial_event(trial, frame_event);
	return trial->frame_found && patch_frame_place(rb_fiber_current()) != NULL;
}

const uintptr_t *patch_frame_place(VALUE fiber)
{
	uintptr_t context = (uintptr_t)compat_data(fiber) + (uintptr_t)facts.context_offset;
	uintptr_t words[CONTEXT_WORDS];

	if (!patch_read(context, words, sizeof(words)) || !is_within(words[facts.frame_word], &words[facts.stack_word]))
		return NULL;
	return (const uintptr_t *)context + facts.frame_word;
}

/* A frame's method. Every place is a candidate at first; those that do not hold for a frame drop out. */

#define FRAME_WORDS 8
#define BEFORE_ENVIRONMENT 4
#define ENTRY_WORDS 6

struct patch_frame_layout patch_frame_layout;

static bool refuted[FRAME_WORDS][BEFORE_ENVIRONMENT][ENTRY_WORDS][ENTRY_WORDS];

static void learn_entry(bool out[ENTRY_WORDS][ENTRY_WORDS], uintptr_t at, ID name, VALUE owner)
{
	uintptr_t entry, words[ENTRY_WORDS] = {0};

	if (!patch_read(at, &entry, sizeof(entry)) || !patch_read(entry, words, sizeof(words)))
		memset(words, 0, sizeof(words));
	for (size_t n = 0; n < ENTRY_WORDS; n++)
		for (size_t o = 0; o < ENTRY_WORDS; o++)
			out[n][o] |= words[n] != name || words[o] != owner;
}

void patch_frame_learn(uintptr_t frame, ID name, VALUE owner)
{
	uintptr_t words[FRAME_WORDS];

	if (!patch_read(frame, words, sizeof(words)))
		memset(words, 0, sizeof(words));
	for (size_t f = 0; f < FRAME_WORDS; f++)
		for (size_t e = 0; e < BEFORE_ENVIRONMENT; e++)
			learn_entry(refuted[f][e], words[f] - (e + 1) * sizeof(uintptr_t), name, owner);
}

/*
 * Of several that are left the one with the entry nearest: as a function begins, the frame's stack pointers are one word behind its
 * environment and lead to the same entry, but later they may be elsewhere.
 */
void patch_frame_learned(void)
{
	struct patch_frame_layout found = {0};

	for (size_t i = 0; i < sizeof(refuted); i++) {
		size_t entry_word = i / (ENTRY_WORDS * ENTRY_WORDS) % BEFORE_ENVIRONMENT + 1;

		if ((&refuted[0][0][0][0])[i] || (found.known && found.entry_word <= entry_word))
			continue;
		found = (struct patch_frame_layout){.known = true,
		                                    .environment_word = i / (ENTRY_WORDS * ENTRY_WORDS * BEFORE_ENVIRONMENT),
		                                    .entry_word = entry_word,
		                                    .name_word = i / ENTRY_WORDS % ENTRY_WORDS,
		                                    .owner_word = i % ENTRY_WORDS};
	}
	patch_frame_layout = found;
}

/* Table and trial. */

static bool begins(struct trial *trial)
{
	trial_begin(trial);
	return true;
}

static const struct {
	bool (*is_true)(struct trial *trial);
	const char *failed; /* what is said of methods where it is not */
} table[PATCH_FACTS] = {
	[PATCH_TRIAL] = {begins, "self-test: it could not be made"},
	[PATCH_STUBS] = {has_stubs, "no stubs for this kind of processor"},
	[PATCH_LAYOUT] = {finds_layout, "self-test: how a method leads to its C function was not found"},
	[PATCH_FRAMES] = {finds_frames, "self-test: a fiber's frames were not found"},
	[PATCH_CALLS] = {trial_calls, "self-test: a function in a method's place was not called as it should be"},
	[PATCH_ENDINGS] = {trial_endings, "self-test: how C methods end was not told"},
	[PATCH_RESTORES] = {trial_restores, "self-test: a function put back was not called"},
};

static VALUE try_all(VALUE argument)
{
	struct trial *trial = (struct trial *)argument;

	while (facts.failed < PATCH_FACTS && table[facts.failed].is_true(trial))
		facts.failed++;
	return Qnil;
}

/* What passes does not decide for good; tried as a part of the trial, it would. */
static bool is_bad_moment(void)
{
	return !frame_identity_known(FRAME_TARGETED) && frame_calibrate(FRAME_TARGETED, NULL) == -EAGAIN;
}

const char *patch_unready(void)
{
	if (!facts.tried && foreign_hooks_on(FOREIGN_HOOKS_TRIAL))
		return FOREIGN_HOOKS_WHY " runs";
	if (!facts.tried && is_bad_moment())
		return "self-test: the frames of calls cannot be looked at just now";
	if (!facts.tried) {
		struct trial trial = {0};
		int failed = 0;

		/* First of all: the trial's own methods may lead here again. */
		facts.tried = true;
		facts.failed = PATCH_TRIAL;
		running = &trial;
		rb_protect(try_all, (VALUE)&trial, &failed);
		running = NULL;
		if (failed)
			rb_set_errinfo(Qnil);
		trial_end(&trial);
		engine_hook_restore_global_events();
	}
	return facts.failed < PATCH_FACTS ? table[facts.failed].failed : NULL;
}

bool patch_tried(void)
{
	return facts.tried;
}

enum patch_fact patch_fact_failed(void)
{
	return facts.failed;
}
