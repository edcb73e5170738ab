/* Any bytes as the answer of a signal handler: what a tracer reads from its socket where a target is stuck. */

#include "proto/stuck.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static size_t sum_of(struct slice text)
{
	size_t sum = 0;

	for (size_t i = 0; i < text.size; i++)
		sum += (unsigned char)text.bytes[i];
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static const uint8_t nonce[NONCE_SIZE] = {0};
	static struct stuck_answer answer;
	struct stuck_frame frame;
	struct error err;
	size_t offset = 0;
	volatile size_t sum = 0; /* so that each byte is read */
	uint32_t count = 0;

	if (size > sizeof(answer))
		size = sizeof(answer);
	if (size)
		memcpy(&answer, bytes, size);
	/* What is hard to guess is right more often than not. */
	if (size >= STUCK_HEADER_SIZE && size % 4) {
		memcpy(answer.magic, STUCK_MAGIC, sizeof(answer.magic));
		memcpy(answer.nonce, nonce, NONCE_SIZE);
		answer.version = STUCK_VERSION;
		answer.bytes_used = (uint32_t)(size - STUCK_HEADER_SIZE);
	}
	if (stuck_check(&answer, size, nonce, &err) < 0)
		return 0;
	while (stuck_next(&answer, &offset, &frame)) {
		sum = sum + sum_of(frame.path) + sum_of(frame.label) + frame.line;
		count++;
	}
	if (count != answer.frame_count || offset != answer.bytes_used)
		__builtin_trap();
	return 0;
}
