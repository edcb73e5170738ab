/* Control frames from outside. See control.h. Everything that is read may be anything. */

#define _GNU_SOURCE
#include "tracer/native/control.h"

#include "tracer/base/buffer.h"

#include <string.h>
#include <sys/uio.h>

#define STACK_WORDS_MAX (1u << 27)
#define AROUND_MAX 64 /* environments around that of a block */

static size_t read_words(pid_t pid, uint64_t from, uint64_t *words, size_t count)
{
	struct iovec local = {words, count * sizeof(*words)};
	struct iovec remote = {(void *)(uintptr_t)from, local.iov_len}; // NOLINT(performance-no-int-to-ptr)
	ssize_t got = from ? process_vm_readv(pid, &local, 1, &remote, 1, 0) : -1;

	return got > 0 ? (size_t)got / sizeof(*words) : 0;
}

void control_copy(struct control_copy *copy)
{
	size_t frame_size = copy->frame_words * sizeof(uint64_t);
	uint64_t context, words[FRAMES_CONTEXT_WORDS], innermost, frames;
	struct iovec local, remote[CONTROL_FRAMES_MAX];
	ssize_t got;

	copy->count = copy->environment_count = 0;
	copy->stack = copy->end = 0;
	copy->cut = false;
	if (read_words(copy->pid, copy->context_at, &context, 1) != 1 ||
	    read_words(copy->pid, context, words, FRAMES_CONTEXT_WORDS) != FRAMES_CONTEXT_WORDS ||
	    words[FRAMES_STACK_SIZE] > STACK_WORDS_MAX)
		return;
	copy->stack = words[FRAMES_STACK];
	copy->end = copy->stack + words[FRAMES_STACK_SIZE] * sizeof(uint64_t);
	innermost = words[FRAMES_INNERMOST];
	if (innermost < copy->stack || innermost >= copy->end || (copy->end - innermost) % frame_size)
		return;
	frames = (copy->end - innermost) / frame_size;
	copy->cut = frames > CONTROL_FRAMES_MAX;
	if (copy->cut)
		frames = CONTROL_FRAMES_MAX;
	copy->count = (uint32_t)(read_words(copy->pid, innermost, copy->words, frames * copy->frame_words) / copy->frame_words);
	for (uint32_t i = 0; i < copy->count; i++) {
		uint64_t at =
			copy->words[i * copy->frame_words + FRAMES_ENVIRONMENT] - FRAMES_ENVIRONMENT_BEFORE * sizeof(uint64_t);

		remote[i] = (struct iovec){(void *)(uintptr_t)at, 3 * sizeof(uint64_t)}; // NOLINT(performance-no-int-to-ptr)
	}
	local = (struct iovec){copy->environments, copy->count * sizeof(copy->environments[0])};
	got = copy->count ? process_vm_readv(copy->pid, &local, 1, remote, copy->count, 0) : 0;
	copy->environment_count = got > 0 ? (uint32_t)((size_t)got / sizeof(copy->environments[0])) : 0;
}

/* --- After that */

static bool object_read(pid_t pid, uint64_t address, unsigned kind, struct control_object *object)
{
	uint64_t words[FRAMES_BODY_WORD + 1];

	if (address % sizeof(uint64_t) || read_words(pid, address, words, FRAMES_BODY_WORD + 1) != FRAMES_BODY_WORD + 1)
		return false;
	if ((words[0] & FRAMES_KIND_MASK) != FRAMES_KIND(kind))
		return false;
	*object = (struct control_object){address, words[FRAMES_BODY_WORD]};
	return true;
}

/* The environment at that address, as it was copied; else as it is now: one that is on no stack does not change. */
static bool environment_read(const struct control_copy *copy, uint64_t address, uint64_t words[3])
{
	for (uint32_t i = 0; i < copy->environment_count; i++)
		if (copy->words[i * copy->frame_words + FRAMES_ENVIRONMENT] == address) {
			memcpy(words, copy->environments[i], sizeof(copy->environments[i]));
			return true;
		}
	if (address >= copy->stack && address < copy->end)
		return false;
	return read_words(copy->pid, address - FRAMES_ENVIRONMENT_BEFORE * sizeof(uint64_t), words, 3) == 3;
}

/* A block's method is that of the outermost environment around it. */
static void entry_find(const struct control_copy *copy, uint32_t number, struct control_object *entry)
{
	uint64_t words[3], holder[2];

	memcpy(words, copy->environments[number], sizeof(words));
	for (unsigned i = 0; i < AROUND_MAX && !(words[2] & FRAMES_FLAG_LOCAL); i++)
		if (!environment_read(copy, words[1] & ~UINT64_C(3), words))
			return;
	if (!(words[2] & FRAMES_FLAG_LOCAL) || object_read(copy->pid, words[0], FRAMES_KIND_ENTRY, entry))
		return;
	if (read_words(copy->pid, words[0], holder, 2) == 2 && (holder[0] & FRAMES_KIND_MASK) == FRAMES_KIND(FRAMES_KIND_HOLDER))
		object_read(copy->pid, holder[1], FRAMES_KIND_ENTRY, entry);
}

void control_understand(const struct control_copy *copy, struct control_stack *stack)
{
	*stack = (struct control_stack){.frames = memory_zeroed((copy->count + 1) * sizeof(*stack->frames)),
	                                .cut = copy->cut,
	                                .known = copy->count > 0 && copy->environment_count == copy->count};
	for (uint32_t i = 0; i < copy->environment_count; i++) {
		uint64_t flags = copy->environments[i][2], code = copy->words[i * copy->frame_words + FRAMES_CODE];
		struct control_frame *frame = &stack->frames[stack->count];

		if (!frames_are_flags(flags)) {
			stack->known = false;
			continue;
		}
		if ((flags & FRAMES_TYPE_MASK) == FRAMES_TYPE_NONE)
			continue;
		frame->is_c = frames_are_of_c(flags);
		frame->enters = flags & FRAMES_FLAG_FINISH;
		if (!frame->is_c)
			object_read(copy->pid, code, FRAMES_KIND_CODE, &frame->code);
		if ((flags & FRAMES_TYPE_MASK) != FRAMES_TYPE_IN_C)
			entry_find(copy, i, &frame->entry);
		stack->count++;
	}
}
