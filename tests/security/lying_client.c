/*
 * A client that lies: it is the target's own user, so that everything it sends is taken, and sends what no rbprobe would.
 *
 *     lying_client PID DIRECTORY SEED SECONDS
 *
 * It makes its sockets in DIRECTORY. The same seed makes the same lies, if not the same times. At the end it says how
 * many messages it has sent, by kind.
 */

#define _GNU_SOURCE
#include "proto/bell.h"
#include "proto/chunk.h"
#include "proto/clock.h"
#include "proto/command.h"
#include "proto/queue_key.h"
#include "proto/stuck.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/msg.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SESSIONS 6
#define COMMANDS_A_ROUND 12

static struct {
	pid_t victim;
	const char *directory;
	uint64_t random;
	int queue;
	unsigned sockets;
	struct {
		uint8_t nonce[NONCE_SIZE];
		int listener, connection;
	} sessions[SESSIONS];
	unsigned rounds, commands, mutated, garbage, halves, questions;
} liar;

static uint64_t random_number(void)
{
	liar.random ^= liar.random << 13;
	liar.random ^= liar.random >> 7;
	liar.random ^= liar.random << 17;
	return liar.random;
}

static uint64_t below(uint64_t limit)
{
	return random_number() % limit;
}

static bool one_in(unsigned chances)
{
	return below(chances) == 0;
}

/* Small, huge, just at a limit. */
static uint64_t odd_number(void)
{
	static const uint64_t limits[] = {0,         1,          127,       128, 255, 4096, 8192, 10000, 65536, COMMAND_SIZE_MAX,
	                                  INT32_MAX, UINT32_MAX, UINT64_MAX};
	uint64_t number = limits[below(sizeof(limits) / sizeof(*limits))];

	return one_in(2) ? number : one_in(2) ? number + 1 : random_number();
}

static void fill(void *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		((uint8_t *)bytes)[i] = (uint8_t)random_number();
}

/* What the victim's bell makes; rings until it is there. */
static bool find_queue(void)
{
	for (int look = 0; look < 2000; look++) {
		liar.queue = msgget(queue_key(liar.victim), 0);
		if (liar.queue >= 0)
			return true;
		if (look % 20 == 0 && bell_ring(liar.victim, -1, false) != 0)
			return false;
		usleep(500);
	}
	return false;
}

static void put(const void *message, size_t size)
{
	for (int full = 0; full < 200; full++) {
		if (msgsnd(liar.queue, message, size, IPC_NOWAIT) == 0 || (errno != EAGAIN && errno != EIDRM && errno != EINVAL))
			return;
		if (errno != EAGAIN && !find_queue())
			return;
		if (full % 10 == 0)
			bell_ring(liar.victim, -1, false);
		usleep(500);
	}
}

/* --- What is listened on, and how its connection is treated */

static void session_listen(unsigned index, char path[108])
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int *listener = &liar.sessions[index].listener;

	snprintf(path, 108, "%s/%u", liar.directory, liar.sockets++);
	memcpy(address.sun_path, path, 108);
	*listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (bind(*listener, (struct sockaddr *)&address, sizeof(address)) == 0 && !one_in(8))
		listen(*listener, 1);
}

static void session_end(unsigned index)
{
	if (liar.sessions[index].listener >= 0)
		close(liar.sessions[index].listener);
	if (liar.sessions[index].connection >= 0)
		close(liar.sessions[index].connection);
	liar.sessions[index].listener = liar.sessions[index].connection = -1;
}

static void session_treat(unsigned index)
{
	char bytes[65536];
	int fd;

	if (liar.sessions[index].connection < 0 && liar.sessions[index].listener >= 0)
		liar.sessions[index].connection = accept4(liar.sessions[index].listener, NULL, NULL, SOCK_NONBLOCK);
	fd = liar.sessions[index].connection;
	if (fd < 0)
		return;
	switch (below(12)) {
	case 0:
		session_end(index);
		break;
	case 1:
		shutdown(fd, SHUT_WR);
		break;
	case 2:
		shutdown(fd, SHUT_RD);
		break;
	case 3:
		fill(bytes, 64);
		send(fd, bytes, 1 + below(64), MSG_NOSIGNAL | MSG_DONTWAIT);
		break;
	case 4:
	case 5:
		break; /* reads nothing */
	default:
		while (recv(fd, bytes, 1 + below(sizeof(bytes)), MSG_DONTWAIT) > 0)
			;
	}
}

/* --- Commands */

static struct slice odd_text(void)
{
	static const char *const texts[] = {
		"",
		"1",
		"nil",
		"Shop#price",
		"*",
		"::",
		"[",
		"\\",
		"\xff\xfe",
		"self",
		"raise",
		"a\0b",
		"%s%n",
		"main",
		"0x7f",
		"{{{",
		"()",
		"Shop.new.price(:a)",
		"eval(\"def later(a)\\n  b = [a]\\n  b.size\\nend\\n3.times { later(1) }\", nil, 'later.rb', 1)"};
	static char large[20000];
	const char *text = texts[below(sizeof(texts) / sizeof(*texts))];

	if (!one_in(30))
		return (struct slice){text, strlen(text)};
	memset(large, "[(*:x\n"[below(6)], sizeof(large));
	return (struct slice){large, below(sizeof(large))};
}

/* Of a class that is there and makes many objects, or of whatever. */
static struct slice odd_class(void)
{
	static const char *const names[] = {"String", "Object+", "Array", "Shop", "BasicObject+", "Class", "Thread"};
	const char *name = names[below(sizeof(names) / sizeof(*names))];

	return one_in(4) ? odd_text() : (struct slice){name, strlen(name)};
}

static void odd_marks(struct mark_options *marks)
{
	*marks = (struct mark_options){.kinds = one_in(4) ? (uint32_t)odd_number() : (uint32_t)below(1u << MARK_COUNT),
	                               .raise = odd_text(),
	                               .allocation_count = (uint32_t)below(MARK_ALLOCATIONS_MAX + 1),
	                               .state_rate_hz = one_in(4) ? (uint32_t)odd_number() : (uint32_t)below(1001)};
	for (uint32_t i = 0; i < marks->allocation_count; i++)
		marks->allocations[i] = (struct mark_allocation){
			.class = odd_class(), .below = one_in(2), .every = one_in(4) ? (uint32_t)odd_number() : 1};
}

/* One that begins: of time, with who waits for the GVL, or of objects. */
static void honest_profile(struct command *command)
{
	command->arguments.flags = (uint32_t)below(8);
	command->arguments.number = 1 + below(1000);
	command->arguments.name = one_in(2) ? (struct slice){"", 0} : odd_class();
}

/* What a trace may be asked for; the flags of a request are among them. */
static void odd_trace(struct trace_options *options)
{
	static char large[EXPRESSION_SIZE_MAX + 1];
	static const char *const expressions[] = {"",
	                                          "true",
	                                          "elapsed > 0",
	                                          "raise 'no'",
	                                          "result",
	                                          "error && sleep(0.01)",
	                                          "throw :x",
	                                          "loop { }",
	                                          "}; {",
	                                          "__method__ && binding && result"};
	const char *expression = expressions[below(sizeof(expressions) / sizeof(*expressions))];

	options->flags = (uint32_t)(one_in(3) ? random_number() : below(128) | 1u << below(16) | 1u << below(16));
	/* An expression without a limit that does not end would be what was asked for. */
	options->expression_timeout_ms = 1 + (uint32_t)below(300);
	if (one_in(3))
		return;
	options->conditions = (struct conditions){.slow_ns = one_in(3) ? odd_number() : below(1000),
	                                          .slow_cpu_ns = one_in(3) ? odd_number() : 0,
	                                          .every = one_in(3) ? (uint32_t)odd_number() : 0,
	                                          .rate = one_in(3) ? (uint32_t)odd_number() : 0,
	                                          .depth = one_in(3) ? (uint32_t)odd_number() : 0,
	                                          .raised = one_in(3) ? odd_text() : (struct slice){NULL, 0},
	                                          .thread = one_in(4) ? odd_text() : (struct slice){"", 0},
	                                          .expression = {expression, strlen(expression)},
	                                          .max_overhead = one_in(3) ? (uint32_t)below(102) : 0};
	if (one_in(20)) {
		memset(large, "[(*:x\n"[below(6)], sizeof(large));
		options->conditions.expression = (struct slice){large, sizeof(large) - below(3)};
	}
	if (one_in(2))
		odd_marks(&options->marks);
	options->stack_frames = one_in(2) ? (uint32_t)below(130) : 0;
	options->key = one_in(4) ? odd_text() : (struct slice){"", 0};
	options->work_limit_ms = one_in(4) ? (uint32_t)odd_number() : 0;
}

/* Of the target's own file, and of one whose code comes by our evaluations. */
static struct selector odd_line(struct slice *expression)
{
	static const char *const files[] = {"shop.rb", "apps/shop.rb", "later.rb", "b", "/", "rb", "(eval)", "../shop.rb"};
	static const char *const numbers[] = {"0",  "1",         "2",          "3",  "18", "22", "26",
	                                      "31", "999999999", "9999999999", "-1", "1x", ""};
	const char *file = files[below(sizeof(files) / sizeof(*files))];
	const char *number = numbers[below(sizeof(numbers) / sizeof(*numbers))];

	return (struct selector){.class_pattern = {file, strlen(file)},
	                         .separator = ':',
	                         .method_pattern = {number, strlen(number)},
	                         .role = (enum selector_role)(one_in(8) ? below(4) : 0),
	                         .expression_count = (uint32_t)below(2),
	                         .expressions = expression};
}

/* A trace that is taken: of lines that run, or are loaded later, with values. */
static void honest_lines(struct command *command, struct selector *selectors, struct slice *expression)
{
	static const char *const files[] = {"shop.rb", "later.rb"};
	static const char *const numbers[] = {"2", "3", "18", "22", "26", "27", "31"};
	static const uint32_t flags[] = {0, 2, 4, 8, 16, 32768, 65536, 8 | 32768, 16 | 32768};
	static const char *const expressions[] = {"self", "items", "b", "sleep 0.01", "raise 'no'", "throw :x", "binding"};
	const char *text = expressions[below(sizeof(expressions) / sizeof(*expressions))];

	*expression = (struct slice){text, strlen(text)};
	command->selector_count = 1 + (uint32_t)below(3);
	command->options.flags = flags[below(sizeof(flags) / sizeof(*flags))];
	command->options.stack_frames = command->options.flags & 65536 ? 3 : 0;
	command->options.engine = ENGINE_AUTO;
	command->options.value_size = 1 + (uint32_t)below(300);
	command->options.value_depth = 1 + (uint32_t)below(4);
	command->options.value_length = 1 + (uint32_t)below(30);
	command->options.expression_timeout_ms = 1 + (uint32_t)below(100);
	command->options.conditions = (struct conditions){0};
	command->options.marks = (struct mark_options){0};
	for (uint32_t i = 0; i < command->selector_count; i++) {
		const char *file = files[below(2)], *number = numbers[below(sizeof(numbers) / sizeof(*numbers))];

		selectors[i] = (struct selector){.class_pattern = {file, strlen(file)},
		                                 .separator = ':',
		                                 .method_pattern = {number, strlen(number)},
		                                 .expression_count = (uint32_t)below(2),
		                                 .expressions = expression};
	}
}

/* Something that command_encode() takes, of any kind; FORK's copies would stay. */
static void odd_command(struct command *command, struct selector *selectors, size_t selectors_max, struct slice *expression)
{
	do
		command->kind = (enum command_kind)(COMMAND_ATTACH + 1 + below(COMMAND_COUNT - COMMAND_ATTACH - 1));
	while (command->kind == COMMAND_FORK);
	if (one_in(4))
		command->kind = one_in(3) ? COMMAND_STATISTICS : COMMAND_TRACE;
	command->id = one_in(4) ? (uint32_t)odd_number() : (uint32_t)below(5);
	command->arguments.flags = (uint32_t)(one_in(4) ? odd_number() : below(32));
	command->arguments.number = odd_number();
	/* An evaluation of a loop may not stay for long. */
	command->arguments.timeout_ms = 1 + (uint32_t)below(300);
	command->arguments.name = odd_text();
	command->arguments.text = odd_text();
	if (command->kind == COMMAND_PROFILE && !one_in(4))
		honest_profile(command);
	command->options = (struct trace_options){.flags = (uint32_t)below(128),
	                                          .engine = (enum engine_id)below(5),
	                                          .overflow = (enum overflow_policy)below(2),
	                                          .value_size = (uint32_t)odd_number(),
	                                          .value_depth = (uint32_t)odd_number(),
	                                          .value_length = (uint32_t)odd_number(),
	                                          .expression_timeout_ms = (uint32_t)odd_number()};
	if (command->kind == COMMAND_TRACE)
		odd_trace(&command->options);
	*expression = odd_text();
	command->selector_count = (uint32_t)below(selectors_max);
	command->selectors = selectors;
	for (size_t i = 0; i < command->selector_count; i++)
		selectors[i] = (struct selector){.class_pattern = odd_text(),
		                                 .separator = "#.\0x:"[below(5)],
		                                 .method_pattern = odd_text(),
		                                 .role = (enum selector_role)(one_in(8) ? odd_number() : below(4)),
		                                 .flags = one_in(4) ? (uint32_t)below(16) : 0,
		                                 .set = one_in(4) ? (uint32_t)below(257) : 0,
		                                 .expression_count = (uint32_t)below(2),
		                                 .expressions = expression};
	for (size_t i = 0; i < command->selector_count && one_in(2); i++)
		selectors[i] = odd_line(expression);
	/* One that matches what runs, so that there are events. */
	if (command->selector_count && one_in(2)) {
		selectors[0].class_pattern = (struct slice){"Shop", 4};
		selectors[0].method_pattern = (struct slice){"*", 1};
		selectors[0].separator = '#';
		selectors[0].role = ROLE_SHOWN;
		selectors[0].expression_count = 0;
	}
	if (command->kind == COMMAND_TRACE && one_in(2))
		honest_lines(command, selectors, expression);
}

static void mutate(uint8_t *bytes, size_t size)
{
	for (size_t changes = 1 + below(4); size && changes; changes--) {
		uint8_t *at = bytes + below(size);

		/* msgpack's headers of lengths are where it hurts. */
		*at = one_in(2) ? (uint8_t)random_number() : (uint8_t)(0xc0 + below(64));
	}
	liar.mutated++;
}

static void send_bytes(const uint8_t nonce[NONCE_SIZE], uint32_t id, const uint8_t *bytes, size_t size)
{
	size_t offset = 0, message_max = one_in(3) ? 256 + below(CHUNK_SIZE_MAX - 256) : CHUNK_SIZE_MAX;
	struct chunk chunk;

	while (offset < size) {
		size_t length = chunk_split(&chunk, nonce, id, bytes, size, message_max, &offset);

		if (one_in(200)) {
			liar.halves++;
			return;
		}
		if (one_in(60)) /* an impossible header, or the part of another command */
			mutate((uint8_t *)&chunk.header + below(2) * 24, 12);
		put(&chunk, length);
	}
}

static void send_command(unsigned index, const struct command *command, bool may_mutate)
{
	msgpack_sbuffer encoded;

	msgpack_sbuffer_init(&encoded);
	command_encode(&encoded, command);
	if (may_mutate && one_in(3))
		mutate((uint8_t *)encoded.data, encoded.size);
	send_bytes(liar.sessions[index].nonce, command->id, (const uint8_t *)encoded.data, encoded.size);
	msgpack_sbuffer_destroy(&encoded);
	liar.commands++;
}

static void send_attach(unsigned index)
{
	struct command command = {.kind = COMMAND_ATTACH, .id = 1};
	char path[108] = "";

	session_end(index);
	if (!one_in(4)) /* else that of a session before, which may be there still */
		fill(liar.sessions[index].nonce, NONCE_SIZE);
	session_listen(index, path);
	command.attach.version = one_in(10) ? (uint32_t)odd_number() : PROTOCOL_VERSION;
	command.attach.client_pid = one_in(10) ? (uint32_t)below(1000) : (uint32_t)getpid();
	command.attach.socket_path = (struct slice){path, strlen(path)};
	send_command(index, &command, one_in(8));
}

static void send_garbage(void)
{
	struct {
		long type;
		uint8_t bytes[CHUNK_SIZE_MAX];
	} message = {.type = 1 + (long)below(4)};
	size_t size = one_in(2) ? below(64) : below(sizeof(message.bytes));

	fill(message.bytes, size);
	if (size >= 8 && one_in(2))
		memcpy(message.bytes, message.type == STUCK_MESSAGE_TYPE ? STUCK_MAGIC : CHUNK_MAGIC, 4);
	put(&message, size);
	liar.garbage++;
}

static void send_question(void)
{
	struct stuck_question question = {.type = STUCK_MESSAGE_TYPE, .magic = STUCK_MAGIC, .version = STUCK_VERSION};

	memset(question.socket_path, one_in(2) ? 'x' : 0, sizeof(question.socket_path));
	if (one_in(2))
		snprintf(question.socket_path, sizeof(question.socket_path), "%s/%u", liar.directory,
		         (unsigned)below(1 + liar.sockets));
	question.client_pid = (uint32_t)getpid();
	put(&question, sizeof(question) - sizeof(question.type) - (one_in(4) ? below(32) : 0));
	liar.questions++;
}

static void one_round(void)
{
	static struct selector selectors[300];

	liar.rounds++;
	send_attach((unsigned)below(SESSIONS));
	for (unsigned i = below(COMMANDS_A_ROUND); i > 0; i--) {
		unsigned index = (unsigned)below(SESSIONS);
		struct command command = {0};
		struct slice expression;

		if (one_in(12))
			send_garbage();
		if (one_in(12))
			send_question();
		odd_command(&command, selectors, one_in(40) ? 300 : 4, &expression);
		send_command(index, &command, true);
		if (one_in(3))
			bell_ring(liar.victim, -1, false);
		session_treat(index);
	}
	bell_ring(liar.victim, -1, false);
	for (unsigned index = 0; index < SESSIONS; index++)
		session_treat(index);
}

int main(int argc, char **argv)
{
	uint64_t end_ns;

	if (argc != 5)
		return 2;
	liar.victim = atoi(argv[1]);
	liar.directory = argv[2];
	liar.random = strtoull(argv[3], NULL, 10) * 2654435761u + 88172645463325252u;
	end_ns = clock_now_ns() + strtoull(argv[4], NULL, 10) * NS_PER_S;
	for (unsigned i = 0; i < SESSIONS; i++)
		liar.sessions[i].listener = liar.sessions[i].connection = -1;
	while (clock_now_ns() < end_ns && find_queue())
		one_round();
	printf("%u rounds, %u commands, %u mutated, %u halves, %u garbage, %u questions\n", liar.rounds, liar.commands,
	       liar.mutated, liar.halves, liar.garbage, liar.questions);
	return 0;
}
