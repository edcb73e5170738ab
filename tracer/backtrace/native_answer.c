/* What a child that unwinds has said. See native_stack.h and native_unwind.h: it is as good as the process's own word. */

#include "tracer/backtrace/native_stack.h"

#include "tracer/backtrace/native_unwind.h"

#include <string.h>

/* The next bytes of it, or NULL. */
static const char *take_bytes(const struct buffer *answer, size_t *at, size_t size)
{
	const char *bytes = answer->bytes + *at;

	if (size > answer->size - *at)
		return NULL;
	*at += size;
	return bytes;
}

/* A text with its NUL, and none within. "": not known. False: malformed. */
static bool take_name(const struct buffer *answer, size_t *at, size_t size, const char **name)
{
	const char *text = size <= NATIVE_NAME_MAX ? take_bytes(answer, at, size + 1) : NULL;

	if (!text || memchr(text, '\0', size + 1) != text + size)
		return false;
	*name = size ? text : NULL;
	return true;
}

static bool take_frames(struct native_thread *thread, size_t count, const struct buffer *answer, size_t *at)
{
	thread->frames = memory_zeroed(count * sizeof(*thread->frames));
	for (; thread->count < count; thread->count++) {
		struct native_frame *frame = &thread->frames[thread->count];
		struct native_unwind_frame said;
		const char *bytes = take_bytes(answer, at, sizeof(said));

		if (!bytes)
			return false;
		memcpy(&said, bytes, sizeof(said));
		frame->pc = said.pc;
		frame->offset = said.offset;
		frame->start = said.start;
		frame->size = said.size;
		frame->after_gap = said.after_gap != 0;
		if (!take_name(answer, at, said.function_size, &frame->function) ||
		    !take_name(answer, at, said.module_size, &frame->module))
			return false;
	}
	return true;
}

/* Whatever is malformed ends it; what was whole before stays. */
void native_stacks_understand(struct native_stacks *stacks)
{
	const struct buffer *answer = &stacks->answer;

	for (size_t at = 0; at < answer->size;) {
		const char *bytes = take_bytes(answer, &at, sizeof(struct native_unwind_thread));
		struct native_unwind_thread said;
		struct native_thread *thread;

		if (!bytes)
			return;
		memcpy(&said, bytes, sizeof(said));
		if (said.index >= stacks->count || said.count > 2 * NATIVE_FRAMES_MAX)
			return;
		thread = &stacks->threads[said.index];
		if (thread->code != 0 || thread->frames)
			return;
		thread->cut = said.cut != 0;
		if (!take_frames(thread, said.count, answer, &at))
			return;
	}
}
