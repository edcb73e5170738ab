/* The signal handler's answer: what stuck_add() writes, stuck_next() reads, and whatever else claims to be one is refused. */

#include "proto/stuck.h"
#include "unit.h"

#include <errno.h>
#include <string.h>

static const uint8_t nonce[NONCE_SIZE] = "a client's nonce";

static struct stuck_answer *answer_new(void)
{
	static struct stuck_answer answer;

	memset(&answer, 0, sizeof(answer));
	memcpy(answer.magic, STUCK_MAGIC, sizeof(answer.magic));
	answer.version = STUCK_VERSION;
	memcpy(answer.nonce, nonce, NONCE_SIZE);
	return &answer;
}

static struct slice text(const char *string)
{
	return (struct slice){string, strlen(string)};
}

static int check(const struct stuck_answer *answer)
{
	struct error err;

	return stuck_check(answer, STUCK_HEADER_SIZE + answer->bytes_used, nonce, &err);
}

static void frames_go_through(void **state)
{
	struct stuck_answer *answer = answer_new();
	struct stuck_frame frame = {.line = 0, .path = {"", 0}, .label = text("pow")};
	size_t offset = 0;

	(void)state;
	assert_true(stuck_add(answer, &frame));
	frame = (struct stuck_frame){.line = -5, .path = text("app.rb"), .label = text("block in run")};
	assert_true(stuck_add(answer, &frame));
	assert_int_equal(check(answer), 0);
	assert_true(stuck_next(answer, &offset, &frame));
	assert_int_equal(frame.line, 0);
	assert_int_equal(frame.path.size, 0);
	assert_memory_equal(frame.label.bytes, "pow", 3);
	assert_true(stuck_next(answer, &offset, &frame));
	assert_int_equal(frame.line, -5);
	assert_int_equal(frame.path.size, 6);
	assert_int_equal(frame.label.size, 12);
	assert_memory_equal(frame.label.bytes, "block in run", 12);
	assert_false(stuck_next(answer, &offset, &frame));
}

static void long_texts_are_cut(void **state)
{
	struct stuck_answer *answer = answer_new();
	char path[1000], label[1000];
	struct stuck_frame frame = {.line = 1, .path = {path, sizeof(path)}, .label = {label, sizeof(label)}};
	size_t offset = 0;
	uint32_t count = 0;

	(void)state;
	memset(path, 'p', sizeof(path));
	memset(label, 'l', sizeof(label));
	path[999] = 'b'; /* the end of a path tells more than its beginning, */
	label[0] = 'B';  /* a label's beginning more than its end */
	while (stuck_add(answer, &frame))
		count++;
	assert_int_equal(count, STUCK_BYTES_MAX / (6 + 2 * STUCK_TEXT_MAX));
	assert_int_equal(check(answer), 0);
	assert_true(stuck_next(answer, &offset, &frame));
	assert_int_equal(frame.path.size, STUCK_TEXT_MAX);
	assert_int_equal(frame.path.bytes[STUCK_TEXT_MAX - 1], 'b');
	assert_int_equal(frame.label.bytes[0], 'B');
}

static void frames_have_a_limit(void **state)
{
	struct stuck_answer *answer = answer_new();
	struct stuck_frame frame = {.line = 1, .path = text("a"), .label = text("b")};

	(void)state;
	for (unsigned i = 0; i < STUCK_FRAMES_MAX; i++)
		assert_true(stuck_add(answer, &frame));
	assert_false(stuck_add(answer, &frame));
	assert_int_equal(check(answer), 0);
}

static void malformed_answers_are_refused(void **state)
{
	struct stuck_answer *answer = answer_new();
	struct stuck_frame frame = {.line = 1, .path = text("a.rb"), .label = text("b")};
	struct error err;

	(void)state;
	assert_true(stuck_add(answer, &frame));
	assert_int_equal(stuck_check(answer, STUCK_HEADER_SIZE - 1, nonce, &err), -EPROTO);
	assert_int_equal(stuck_check(answer, STUCK_HEADER_SIZE + answer->bytes_used - 1, nonce, &err), -EPROTO);
	answer->nonce[0] ^= 1;
	assert_int_equal(check(answer), -EPROTO);
	answer->nonce[0] ^= 1;
	answer->frame_count = 2;
	assert_int_equal(check(answer), -EPROTO);
	answer->frame_count = 1;
	answer->bytes[4] = 200; /* a path that is longer than all there is */
	assert_int_equal(check(answer), -EPROTO);
	answer->bytes[4] = 4;
	assert_int_equal(check(answer), 0);
	answer->bytes_used = STUCK_BYTES_MAX + 1;
	assert_int_equal(check(answer), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_go_through),
		cmocka_unit_test(long_texts_are_cut),
		cmocka_unit_test(frames_have_a_limit),
		cmocka_unit_test(malformed_answers_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
