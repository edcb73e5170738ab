/* What a confined child says of native frames, as if it had been taken over by what it read. */

#include "tracer/backtrace/native_stack.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile size_t read_through;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct native_stacks stacks = {.threads = calloc(4, sizeof(struct native_thread)), .count = 4};

	stacks.threads[3].code = -1;
	buffer_add(&stacks.answer, (const char *)data, size);
	native_stacks_understand(&stacks);
	for (size_t i = 0; i < stacks.count; i++) {
		for (size_t k = 0; k < stacks.threads[i].count; k++) {
			const struct native_frame *frame = &stacks.threads[i].frames[k];

			read_through += frame->function ? strlen(frame->function) : 0;
			read_through += frame->module ? strlen(frame->module) : 0;
		}
		free(stacks.threads[i].frames);
	}
	free(stacks.threads);
	buffer_free(&stacks.answer);
	return 0;
}
