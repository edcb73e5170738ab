/* The inbox: messages keep their order and none is lost, whoever takes them out of the queue, and when. */

#include "tracee/base/command_inbox.h"
#include "unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/msg.h>
#include <sys/wait.h>
#include <unistd.h>

#define MANY 20000u

static int queue_id;

static int setup(void **state)
{
	(void)state;
	queue_id = msgget(IPC_PRIVATE, 0600);
	command_inbox_init();
	return queue_id < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	(void)state;
	command_inbox_end();
	return msgctl(queue_id, IPC_RMID, NULL);
}

/* Sizes differ, and the number is in the message. */
static size_t size_of(uint32_t number)
{
	return sizeof(struct chunk_header) + 1 + number % 200;
}

static bool put(uint32_t number)
{
	struct chunk chunk = {.type = CHUNK_TYPE, .header = {.command_id = number}};

	memset(chunk.bytes, (int)(number & 0xff), size_of(number) - sizeof(chunk.header));
	return msgsnd(queue_id, &chunk, size_of(number), IPC_NOWAIT) == 0;
}

static void expect(uint32_t number, ssize_t size, const struct chunk *chunk)
{
	assert_int_equal(chunk->header.command_id, number);
	assert_int_equal(size, size_of(number));
	assert_int_equal(chunk->bytes[size - (ssize_t)sizeof(chunk->header) - 1], number & 0xff);
}

static void takes_nothing_unless_more_is_expected(void **state)
{
	struct chunk chunk;

	(void)state;
	assert_true(put(1));
	assert_false(command_inbox_take());
	command_inbox_expect(queue_id, true);
	assert_true(command_inbox_take());
	assert_true(put(2));
	assert_true(command_inbox_take());
	assert_true(put(3));
	command_inbox_expect(queue_id, false);
	assert_false(command_inbox_take());
	for (uint32_t number = 1; number <= 3; number++)
		expect(number, command_inbox_next(queue_id, &chunk), &chunk);
	assert_int_equal(command_inbox_next(queue_id, &chunk), -1);
}

static void leaves_what_is_no_chunk_to_others(void **state)
{
	struct chunk chunk = {.type = CHUNK_TYPE + 1};

	(void)state;
	command_inbox_expect(queue_id, true);
	assert_int_equal(msgsnd(queue_id, &chunk, 1, 0), 0);
	assert_false(command_inbox_take());
	assert_int_equal(msgrcv(queue_id, &chunk, sizeof(chunk.header), CHUNK_TYPE + 1, IPC_NOWAIT), 1);
}

static void ends_with_all_that_is_there(void **state)
{
	struct chunk chunk;

	(void)state;
	command_inbox_expect(queue_id, true);
	assert_true(put(1));
	assert_true(command_inbox_take());
	command_inbox_end();
	assert_true(put(2));
	assert_false(command_inbox_take());
	expect(2, command_inbox_next(queue_id, &chunk), &chunk);
}

static void a_child_has_nothing_of_its_parents(void **state)
{
	struct chunk chunk;
	int status;
	pid_t child;

	(void)state;
	command_inbox_expect(queue_id, true);
	assert_true(put(1));
	assert_true(command_inbox_take());
	child = fork();
	if (child == 0) {
		command_inbox_init();
		_exit(command_inbox_take() || command_inbox_next(queue_id, &chunk) != -1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	expect(1, command_inbox_next(queue_id, &chunk), &chunk);
}

static void *writer(void *stop)
{
	while (!atomic_load((atomic_bool *)stop)) {
		command_inbox_take();
		usleep(10);
	}
	return NULL;
}

static void *client(void *unused)
{
	for (uint32_t number = 0; number < MANY;) {
		if (put(number))
			number++;
		else
			usleep(10);
	}
	return unused;
}

static void two_writers_and_a_job_at_once(void **state)
{
	pthread_t threads[3];
	atomic_bool stop = false;

	(void)state;
	pthread_create(&threads[0], NULL, writer, &stop);
	pthread_create(&threads[1], NULL, writer, &stop);
	pthread_create(&threads[2], NULL, client, NULL);
	for (uint32_t number = 0; number < MANY;) {
		struct chunk chunk;
		ssize_t size = command_inbox_next(queue_id, &chunk);

		if (size < 0) {
			usleep(10);
			continue;
		}
		expect(number++, size, &chunk);
		/* As commands end and others begin. */
		command_inbox_expect(queue_id, number % 100 < 90);
	}
	atomic_store(&stop, true);
	for (size_t i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(takes_nothing_unless_more_is_expected, setup, teardown),
		cmocka_unit_test_setup_teardown(leaves_what_is_no_chunk_to_others, setup, teardown),
		cmocka_unit_test_setup_teardown(ends_with_all_that_is_there, setup, teardown),
		cmocka_unit_test_setup_teardown(a_child_has_nothing_of_its_parents, setup, teardown),
		cmocka_unit_test_setup_teardown(two_writers_and_a_job_at_once, setup, teardown),
	};

	return cmocka_run_group_tests_name("command inbox", tests, NULL, NULL);
}
