/* Commands in pieces: what chunk_split() cuts, chunk_assemble() puts together, whoever else talks in between. */

#include "proto/chunk.h"
#include "unit.h"

#include <errno.h>
#include <stdlib.h>

#define MSGMAX 8192

static const uint8_t alice[NONCE_SIZE] = "alice";
static const uint8_t bob[NONCE_SIZE] = "bob";

static uint8_t *pattern(size_t size)
{
	uint8_t *bytes = malloc(size);

	assert_non_null(bytes);
	for (size_t i = 0; i < size; i++)
		bytes[i] = (uint8_t)(i * 31 + i / 251);
	return bytes;
}

static int setup(void **state)
{
	*state = chunk_assembly_new();
	return *state ? 0 : -1;
}

static int teardown(void **state)
{
	chunk_assembly_free(*state);
	return 0;
}

/* Sends size bytes in messages of at most message_max; the last one must complete the command. */
static unsigned pass(struct chunk_assembly *assembly, const uint8_t *nonce, uint32_t id, const uint8_t *bytes, size_t size,
                     size_t message_max)
{
	struct assembled_command command;
	struct error err;
	size_t offset = 0;
	unsigned messages = 0;

	while (offset < size) {
		struct chunk chunk;
		size_t sent = chunk_split(&chunk, nonce, id, bytes, size, message_max, &offset);
		int status = chunk_assemble(assembly, &chunk, sent, &command, &err);

		assert_true(sent <= message_max);
		assert_int_equal(chunk.type, CHUNK_TYPE);
		assert_int_equal(status, offset == size);
		messages++;
	}
	assert_memory_equal(command.nonce, nonce, NONCE_SIZE);
	assert_int_equal(command.command_id, id);
	assert_int_equal(command.size, size);
	assert_memory_equal(command.bytes, bytes, size);
	return messages;
}

static void commands_of_every_size_arrive_whole(void **state)
{
	static const size_t sizes[] = {1,
	                               2,
	                               100,
	                               MSGMAX - sizeof(struct chunk_header),
	                               MSGMAX - sizeof(struct chunk_header) + 1,
	                               8192,
	                               8193,
	                               1 << 20,
	                               COMMAND_SIZE_MAX};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		uint8_t *bytes = pattern(sizes[i]);

		pass(*state, alice, (uint32_t)i + 1, bytes, sizes[i], MSGMAX);
		free(bytes);
	}
}

static void a_mebibyte_takes_as_many_messages_as_it_must(void **state)
{
	size_t room = MSGMAX - sizeof(struct chunk_header);
	uint8_t *bytes = pattern(1 << 20);

	assert_int_equal(pass(*state, alice, 1, bytes, 1 << 20, MSGMAX), ((1 << 20) + room - 1) / room);
	free(bytes);
}

static void a_small_msgmax_is_kept_to(void **state)
{
	uint8_t *bytes = pattern(5000);

	assert_true(pass(*state, alice, 1, bytes, 5000, 256) > 5000 / 256);
	free(bytes);
}

static void two_clients_interleave(void **state)
{
	uint8_t *bytes = pattern(40000);
	size_t offset_alice = 0, offset_bob = 0;
	int complete = 0;

	while (offset_alice < 30000 || offset_bob < 40000) {
		const uint8_t *nonce = offset_alice <= offset_bob && offset_alice < 30000 ? alice : bob;
		size_t total = nonce == alice ? 30000 : 40000;
		struct assembled_command command;
		struct chunk chunk;
		struct error err;
		size_t sent = chunk_split(&chunk, nonce, 7, bytes, total, MSGMAX, nonce == alice ? &offset_alice : &offset_bob);

		if (chunk_assemble(*state, &chunk, sent, &command, &err) == 1) {
			complete++;
			assert_memory_equal(command.nonce, nonce, NONCE_SIZE);
			assert_int_equal(command.size, total);
			assert_memory_equal(command.bytes, bytes, total);
		}
	}
	assert_int_equal(complete, 2);
	free(bytes);
}

static void a_client_that_died_half_way_is_forgotten_when_its_place_is_needed(void **state)
{
	uint8_t *bytes = pattern(20000);

	for (uint8_t client = 0; client < 3 * SESSIONS_MAX; client++) {
		uint8_t nonce[NONCE_SIZE] = {client, 1};
		struct assembled_command command;
		struct chunk chunk;
		struct error err;
		size_t offset = 0;
		size_t sent = chunk_split(&chunk, nonce, 1, bytes, 20000, MSGMAX, &offset);

		assert_int_equal(chunk_assemble(*state, &chunk, sent, &command, &err), 0);
	}
	pass(*state, alice, 1, bytes, 20000, MSGMAX);
	free(bytes);
}

static void a_command_that_begins_anew_replaces_the_unfinished_one(void **state)
{
	uint8_t *bytes = pattern(20000);
	struct assembled_command command;
	struct chunk chunk;
	struct error err;
	size_t offset = 0;
	size_t sent = chunk_split(&chunk, alice, 1, bytes, 20000, MSGMAX, &offset);

	assert_int_equal(chunk_assemble(*state, &chunk, sent, &command, &err), 0);
	pass(*state, alice, 2, bytes, 12000, MSGMAX);
	free(bytes);
}

/* A well-formed message of a command of 100 bytes, to be broken by a test. */
static struct chunk message(size_t *size)
{
	static const uint8_t bytes[100];
	struct chunk chunk;
	size_t offset = 0;

	memset(&chunk, 0, sizeof(chunk));
	*size = chunk_split(&chunk, bob, 1, bytes, sizeof(bytes), MSGMAX, &offset);
	return chunk;
}

static void refused(void **state, const struct chunk *chunk, size_t size, int code, const char *part)
{
	struct assembled_command command;
	struct error err;

	assert_int_equal(chunk_assemble(*state, chunk, size, &command, &err), code);
	assert_error(&err, code, part);
}

static void foreign_messages_are_refused(void **state)
{
	size_t size;
	struct chunk chunk = message(&size);

	chunk.header.magic[0] = 'x';
	refused(state, &chunk, size, -EPROTO, "not rbprobe's");
	chunk = message(&size);
	refused(state, &chunk, sizeof(chunk.header) - 1, -EPROTO, "not rbprobe's");
	refused(state, &chunk, 0, -EPROTO, "not rbprobe's");
}

static void another_format_is_named_with_both_numbers(void **state)
{
	size_t size;
	struct chunk chunk = message(&size);

	chunk.header.format = 9;
	refused(state, &chunk, size, -EPROTO, "format 9");
	refused(state, &chunk, size, -EPROTO, "reads format 1");
}

static void sizes_beyond_the_limit_are_refused(void **state)
{
	size_t size;
	struct chunk chunk = message(&size);

	chunk.header.total = COMMAND_SIZE_MAX + 1;
	refused(state, &chunk, size, -EMSGSIZE, "the limit is 67108864");
	chunk.header.total = 0;
	refused(state, &chunk, size, -EMSGSIZE, "a command of 0 bytes");
}

static void bytes_outside_of_their_command_are_refused(void **state)
{
	size_t size;
	struct chunk chunk = message(&size);

	chunk.header.total = 99; /* but it carries 100 */
	refused(state, &chunk, size, -EPROTO, "does not fit");
	chunk = message(&size);
	chunk.header.offset = 1;
	refused(state, &chunk, size, -EPROTO, "does not fit");
	chunk.header.offset = UINT32_MAX;
	refused(state, &chunk, size, -EPROTO, "does not fit");
	chunk = message(&size);
	refused(state, &chunk, sizeof(chunk.header), -EPROTO, "does not fit");
}

static void a_command_without_its_beginning_is_refused(void **state)
{
	size_t size;
	struct chunk chunk = message(&size);

	chunk.header.total = 300;
	chunk.header.offset = 200;
	refused(state, &chunk, size, -EPROTO, "beginning is missing");
}

static void chunks_that_contradict_each_other_drop_the_command(void **state)
{
	struct assembled_command command;
	struct error err;
	size_t size;
	struct chunk chunk = message(&size);

	chunk.header.total = 300;
	assert_int_equal(chunk_assemble(*state, &chunk, size, &command, &err), 0);
	chunk.header.offset = 200; /* 100 was expected */
	refused(state, &chunk, size, -EPROTO, "contradict");
	chunk.header.offset = 100; /* right, but too late */
	refused(state, &chunk, size, -EPROTO, "beginning is missing");

	chunk.header.offset = 0;
	assert_int_equal(chunk_assemble(*state, &chunk, size, &command, &err), 0);
	chunk.header.offset = 100;
	chunk.header.total = 200;
	refused(state, &chunk, size, -EPROTO, "contradict");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(commands_of_every_size_arrive_whole),
		TEST(a_mebibyte_takes_as_many_messages_as_it_must),
		TEST(a_small_msgmax_is_kept_to),
		TEST(two_clients_interleave),
		TEST(a_client_that_died_half_way_is_forgotten_when_its_place_is_needed),
		TEST(a_command_that_begins_anew_replaces_the_unfinished_one),
		TEST(foreign_messages_are_refused),
		TEST(another_format_is_named_with_both_numbers),
		TEST(sizes_beyond_the_limit_are_refused),
		TEST(bytes_outside_of_their_command_are_refused),
		TEST(a_command_without_its_beginning_is_refused),
		TEST(chunks_that_contradict_each_other_drop_the_command),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
