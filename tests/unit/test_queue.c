/* A target's command queue, the client's side: which one it is, what is not its own, and how commands get into it. */

#define _GNU_SOURCE
#include "tracer/attach/queue.h"

#include "proto/command.h"
#include "unit.h"

#include <errno.h>

#include "target_fixture.h"

static struct target_child child;
static const uint8_t nonce[NONCE_SIZE] = {1, 2, 3};

static int setup(void **state)
{
	(void)state;
	return target_child_start(&child);
}

static int teardown(void **state)
{
	(void)state;
	target_child_end(&child);
	return 0;
}

static int found(int *id)
{
	struct error err = {0};
	int status = queue_find(&child.target, id, &err);

	if (status < 0)
		fail_msg("%s", err.text);
	return status;
}

static void there_is_none_before_the_process_has_made_one(void **state)
{
	int id;

	(void)state;
	assert_int_equal(found(&id), 0);
}

static void its_own_is_found_whatever_its_key(void **state)
{
	int id = -1, own = target_child_make(&child, TARGET_MAKES_OTHER_QUEUE);

	(void)state;
	assert_int_equal(found(&id), 1);
	assert_int_equal(id, own);
	assert_true(queue_is_there(&child.target, id));
	queue_remove(&child.target);
	assert_false(queue_is_there(&child.target, id));
	assert_int_equal(found(&id), 0);
}

static void one_into_which_anybody_may_write_is_not(void **state)
{
	int id = -1, open = target_child_make(&child, TARGET_MAKES_OPEN_QUEUE);

	(void)state;
	assert_int_equal(found(&id), 0);
	/* Nor does anybody remove it for the process. */
	queue_remove(&child.target);
	assert_true(queue_is_there(&child.target, open));
}

static void another_process_s_is_left_alone(void **state)
{
	struct target_child other;
	int id = -1, own = target_child_make(&child, TARGET_MAKES_QUEUE), others;

	(void)state;
	assert_int_equal(target_child_start(&other), 0);
	others = target_child_order(&other, TARGET_MAKES_QUEUE);
	assert_true(others >= 0);
	assert_int_equal(found(&id), 1);
	assert_int_equal(id, own);
	queue_remove(&child.target);
	assert_true(queue_is_there(&other.target, others));
	target_child_end(&other);
}

static void a_dead_process_s_is_removed(void **state)
{
	struct target_child dead;
	int id = -1, left;

	(void)state;
	assert_int_equal(target_child_start(&dead), 0);
	left = target_child_order(&dead, TARGET_MAKES_QUEUE);
	close(dead.orders[0]);
	child_end(dead.pid);
	if (left < 0)
		skip();
	assert_int_equal(found(&id), 0);
	assert_false(queue_is_there(&child.target, left));
}

static void add(struct outbox *outbox, uint32_t id, size_t code_size)
{
	struct command command = {.kind = COMMAND_EVAL, .id = id};
	char *code = malloc(code_size + 1);

	assert_non_null(code);
	memset(code, 'x', code_size);
	command.arguments.text = (struct slice){code, code_size};
	outbox_add(outbox, &command);
	free(code);
}

static int sent(struct outbox *outbox, int queue)
{
	struct error err = {0};

	return outbox_send(outbox, &child.target, queue, nonce, &err);
}

static void commands_arrive_whole_and_in_order(void **state)
{
	struct outbox outbox = {0};
	int queue = target_child_make(&child, TARGET_MAKES_QUEUE);

	(void)state;
	assert_true(outbox_is_empty(&outbox));
	assert_int_equal(sent(&outbox, queue), 1);
	add(&outbox, 1, 3);
	add(&outbox, 2, 1000);
	assert_false(outbox_is_empty(&outbox));
	assert_int_equal(sent(&outbox, queue), 1);
	assert_true(outbox_is_empty(&outbox));
	assert_int_equal(target_child_order(&child, TARGET_READS_ALL), 2);
	outbox_free(&outbox);
}

/* The machine's limit may be higher: rbtrace raises it. */
static int small_queue(void)
{
	int queue = target_child_make(&child, TARGET_MAKES_QUEUE);
	struct msqid_ds facts;

	assert_int_equal(msgctl(queue, IPC_STAT, &facts), 0);
	facts.msg_qbytes = 16384;
	assert_int_equal(msgctl(queue, IPC_SET, &facts), 0);
	return queue;
}

static void one_that_is_larger_than_the_queue_goes_on_where_there_is_room(void **state)
{
	struct outbox outbox = {0};
	int queue = small_queue(), commands = 0, status = 0;
	unsigned rounds = 0;

	(void)state;
	add(&outbox, 1, 300000);
	add(&outbox, 2, 10);
	while (status == 0 && rounds++ < 1000) {
		status = sent(&outbox, queue);
		assert_true(status >= 0);
		commands += target_child_order(&child, TARGET_READS_ALL);
	}
	assert_int_equal(status, 1);
	assert_true(rounds > 2);
	assert_int_equal(commands, 2);
	outbox_free(&outbox);
}

static void after_the_queue_was_replaced_all_is_sent_again(void **state)
{
	struct outbox outbox = {0};
	int queue = small_queue(), again;

	(void)state;
	add(&outbox, 1, 300000);
	assert_int_equal(sent(&outbox, queue), 0);
	queue_remove(&child.target);
	assert_int_equal(sent(&outbox, queue), -EIDRM);
	outbox_rewind(&outbox);
	again = small_queue();
	assert_int_not_equal(again, queue);
	assert_int_equal(sent(&outbox, again), 0);
	assert_int_equal(target_child_order(&child, TARGET_READS_ALL), 0);
	for (unsigned i = 0; i < 1000 && sent(&outbox, again) == 0; i++)
		if (target_child_order(&child, TARGET_READS_ALL) == 1)
			break;
	assert_int_equal(sent(&outbox, again), 1);
	outbox_free(&outbox);
}

/* Somebody has got the id, or changed who may use it. */
static void nothing_is_written_into_one_that_is_not_private(void **state)
{
	struct outbox outbox = {0};
	int queue = target_child_make(&child, TARGET_MAKES_OPEN_QUEUE);
	struct msqid_ds status;

	(void)state;
	add(&outbox, 1, 3);
	assert_int_equal(sent(&outbox, queue), -EIDRM);
	assert_int_equal(msgctl(queue, IPC_STAT, &status), 0);
	assert_int_equal(status.msg_qnum, 0);
	outbox_free(&outbox);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(there_is_none_before_the_process_has_made_one),
		TEST(its_own_is_found_whatever_its_key),
		TEST(one_into_which_anybody_may_write_is_not),
		TEST(another_process_s_is_left_alone),
		TEST(a_dead_process_s_is_removed),
		TEST(commands_arrive_whole_and_in_order),
		TEST(one_that_is_larger_than_the_queue_goes_on_where_there_is_room),
		TEST(after_the_queue_was_replaced_all_is_sent_again),
		TEST(nothing_is_written_into_one_that_is_not_private),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
