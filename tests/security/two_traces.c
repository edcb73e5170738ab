/*
 * A client that traces twice in one session, which no rbprobe does: first with an expression that runs code, then, when that
 * is armed, without one.
 *
 *     two_traces PID DIRECTORY
 *
 * It makes its socket in DIRECTORY, and says what it is answered, one line each: the code and the text of both replies, and the
 * text of the session's end.
 */

#define _GNU_SOURCE
#include "proto/bell.h"
#include "proto/chunk.h"
#include "proto/command.h"
#include "proto/queue_key.h"
#include "proto/record.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/msg.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define RINGS_MS 20
#define RINGS_MAX 3000

#define SLICE(literal) ((struct slice){literal, sizeof(literal) - 1})

static const uint8_t nonce[NONCE_SIZE] = "two traces in 1";
static pid_t victim;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* Rings until the victim has a queue. */
static int find_queue(void)
{
	for (int i = 0; i < RINGS_MAX; i++) {
		int queue = msgget(queue_key(victim), 0);

		if (queue >= 0)
			return queue;
		if (bell_ring(victim, -1, false) != 0)
			die("bell_ring");
		usleep(RINGS_MS * 1000);
	}
	die("msgget");
	return -1;
}

static void send_command(const struct command *command)
{
	msgpack_sbuffer encoded;
	struct chunk chunk;
	size_t offset = 0;

	msgpack_sbuffer_init(&encoded);
	command_encode(&encoded, command);
	while (offset < encoded.size) {
		size_t size = chunk_split(&chunk, nonce, command->id, (const uint8_t *)encoded.data, encoded.size, CHUNK_SIZE_MAX,
		                          &offset);

		if (msgsnd(find_queue(), &chunk, size, 0) != 0)
			die("msgsnd");
	}
	msgpack_sbuffer_destroy(&encoded);
}

static void send_trace(uint32_t id, struct slice *expression)
{
	struct selector selector = {.class_pattern = SLICE("Shop"),
	                            .separator = '#',
	                            .method_pattern = SLICE("price"),
	                            .expression_count = expression ? 1 : 0,
	                            .expressions = expression};
	struct command command = {.kind = COMMAND_TRACE,
	                          .id = id,
	                          .options = {.engine = ENGINE_AUTO,
	                                      .value_size = VALUE_SIZE_DEFAULT,
	                                      .value_depth = VALUE_DEPTH_DEFAULT,
	                                      .value_length = VALUE_LENGTH_DEFAULT},
	                          .selector_count = 1,
	                          .selectors = &selector};

	send_command(&command);
}

static int connect_to_victim(const char *directory)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct command command = {.kind = COMMAND_ATTACH, .id = 1};
	int listener = socket(AF_UNIX, SOCK_STREAM, 0);
	struct pollfd ready = {.fd = listener, .events = POLLIN};

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", directory);
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(listener, 1) != 0)
		die("socket");
	command.attach.version = PROTOCOL_VERSION;
	command.attach.client_pid = (uint32_t)getpid();
	command.attach.socket_path = (struct slice){address.sun_path, strlen(address.sun_path)};
	send_command(&command);
	for (int i = 0; i < RINGS_MAX; i++) {
		bell_ring(victim, -1, false);
		if (poll(&ready, 1, RINGS_MS) > 0)
			return accept(listener, NULL, NULL);
	}
	die("accept");
	return -1;
}

/* All of them; rings meanwhile, as what was sent may not have been looked at. */
static void receive(int connection, void *bytes, size_t size)
{
	struct pollfd ready = {.fd = connection, .events = POLLIN};

	for (size_t have = 0; have < size;) {
		ssize_t count;

		while (poll(&ready, 1, RINGS_MS) == 0)
			bell_ring(victim, -1, false);
		count = recv(connection, (char *)bytes + have, size - have, 0);
		if (count <= 0)
			die("the session has no end");
		have += (size_t)count;
	}
}

static void say(uint32_t code, struct slice text)
{
	printf("%u %.*s\n", code, (int)text.size, text.bytes);
}

int main(int argc, char **argv)
{
	static uint8_t bytes[1 << 20];
	struct slice code = SLICE("self.class");
	struct record record = {0};
	msgpack_zone zone;
	struct error err;
	int connection;

	if (argc != 3 || !msgpack_zone_init(&zone, MSGPACK_ZONE_CHUNK_SIZE))
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	victim = atoi(argv[1]);
	connection = connect_to_victim(argv[2]);
	send_trace(2, &code);
	do {
		uint32_t size;

		receive(connection, &size, sizeof(size));
		if (size > sizeof(bytes))
			return 2;
		receive(connection, bytes, size);
		msgpack_zone_clear(&zone);
		if (record_decode(&record, bytes, size, &zone, &err) != 0)
			return 2;
		if (record.kind == RECORD_REPLY)
			say(record.reply.code, record.reply.text);
		if (record.kind == RECORD_REPLY && record.reply.command_id == 2)
			send_trace(3, NULL);
	} while (record.kind != RECORD_END);
	say(record.end.reason, record.end.text);
	msgpack_zone_destroy(&zone);
	close(connection);
	return 0;
}
