/*
 * A process that looks like one which has loaded the extension, and says to its client what it likes.
 *
 *     rbprobe.so DIRECTORY ABI LIE [ARGUMENT]
 *
 * It has to be called rbprobe.so, as the extension is, and maps a file DIRECTORY/ruby/ABI/libruby.so. Says "ready"; then each
 * client gets HELLO, REPLY, and the LIE. ARGUMENT: the seed of "random", the PID of "fork", which
 * numbers in "statistics".
 */

#define _GNU_SOURCE
#include "proto/chunk.h"
#include "proto/command.h"
#include "proto/queue_key.h"
#include "proto/record.h"
#include "proto/startup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* What the loader looks for in the extension. */
int rbprobe_start(int client);
int rbprobe_ring(void);
__attribute__((visibility("default"))) struct startup rbprobe_startup = {.state = STARTUP_DONE};

int rbprobe_start(int client)
{
	(void)client;
	return 0;
}

int rbprobe_ring(void)
{
	return 0;
}

struct lie {
	int socket;
	int queue; /* looked at for the next client, where this one stays */
	uint32_t request;
	const char *argument;
	uint64_t random;
	msgpack_sbuffer records;
};

static uint64_t next_random(struct lie *lie)
{
	lie->random ^= lie->random << 13;
	lie->random ^= lie->random >> 7;
	lie->random ^= lie->random << 17;
	return lie->random;
}

/* False: the client is gone. */
static bool send_bytes(int fd, const char *bytes, size_t size)
{
	while (size) {
		ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return false;
		bytes += sent;
		size -= (size_t)sent;
	}
	return true;
}

static bool flush(struct lie *lie)
{
	bool there = send_bytes(lie->socket, lie->records.data, lie->records.size);

	msgpack_sbuffer_clear(&lie->records);
	return there;
}

static struct slice text(const char *bytes)
{
	return (struct slice){bytes, strlen(bytes)};
}

static void add_method(struct lie *lie, uint32_t ref)
{
	static char name[2001];
	struct record record = {.kind = RECORD_METHOD};

	memset(name, 'm', sizeof(name) - 1);
	record.method = (struct record_method){
		.ref = ref, .class_name = text(name), .separator = '#', .method_name = text(name), .engine = ENGINE_TARGET};
	record_encode(&lie->records, &record);
}

static void add_fiber(struct lie *lie, uint32_t ref)
{
	struct record record = {.kind = RECORD_FIBER};

	record.fiber = (struct record_fiber){
		.ref = ref, .thread_id = 1, .thread_name = text("a thread"), .root = true, .created_at = text("")};
	record_encode(&lie->records, &record);
}

static void add_done(struct lie *lie)
{
	struct record record = {.kind = RECORD_DONE, .done = {.command_id = lie->request, .text = {"", 0}}};

	record_encode(&lie->records, &record);
}

static void add_data(struct lie *lie, const msgpack_sbuffer *packed)
{
	struct record record = {.kind = RECORD_DATA,
	                        .data = {.command_id = lie->request, .packed = {packed->data, packed->size}}};

	record_encode(&lie->records, &record);
}

/* --- Lies */

static void methods_for_ever(struct lie *lie)
{
	for (uint32_t ref = 0; flush(lie); ref++)
		add_method(lie, ref);
}

static void one_method_for_ever(struct lie *lie)
{
	while (flush(lie))
		add_method(lie, 1);
}

/* Names that take most when they are shown, and a call in each. */
static void harmful_fibers_for_ever(struct lie *lie)
{
	static char name[4000];
	struct slice names = {name, sizeof(name)};
	struct record record = {.kind = RECORD_FIBER};

	memset(name, 1, sizeof(name));
	add_method(lie, 1);
	for (uint32_t ref = 0; flush(lie); ref++) {
		struct batch_event event = {.kind = EVENT_CALL, .method = 1, .fiber = ref};
		struct batch batch;

		record.fiber = (struct record_fiber){.ref = ref, .thread_id = 1, .thread_name = names, .created_at = names};
		record_encode(&lie->records, &record);
		batch_begin(&batch, &lie->records, 0);
		batch_add(&batch, &event);
		batch_end(&batch);
	}
}

/* A batch of as many calls as fit, of one method with a name as long as can be: three bytes that become many. */
static void deep_for_ever(struct lie *lie)
{
	static char name[4000];
	struct record record = {.kind = RECORD_METHOD};

	memset(name, 1, sizeof(name));
	add_fiber(lie, 1);
	record.method = (struct record_method){.ref = 1,
	                                       .class_name = {name, sizeof(name)},
	                                       .separator = '#',
	                                       .method_name = {name, sizeof(name)},
	                                       .engine = ENGINE_TARGET};
	record_encode(&lie->records, &record);
	while (flush(lie)) {
		struct batch_event event = {.kind = EVENT_START, .method = 1, .fiber = 1};
		struct batch batch;

		batch_begin(&batch, &lie->records, 0);
		for (int i = 0; i < 4000; i++)
			batch_add(&batch, &event);
		batch_end(&batch);
	}
}

static void fibers_for_ever(struct lie *lie)
{
	for (uint32_t ref = 0; flush(lie); ref++)
		for (int i = 0; i < 100; i++)
			add_fiber(lie, ref * 100 + (uint32_t)i);
}

static void output_for_ever(struct lie *lie)
{
	static char bytes[OUTPUT_SIZE_MAX - 64];
	struct record record = {.kind = RECORD_OUTPUT,
	                        .output = {.command_id = lie->request, .stream = OUTPUT_STDOUT, .bytes = {bytes, sizeof(bytes)}}};

	memset(bytes, '.', sizeof(bytes));
	while (flush(lie))
		record_encode(&lie->records, &record);
}

/* Of any of the kinds that a client keeps. */
static void data_for_ever(struct lie *lie)
{
	static const char *const types[] = {"thread", "fiber", "process", "fact", "native"};
	msgpack_sbuffer packed;
	msgpack_packer packer;

	msgpack_sbuffer_init(&packed);
	msgpack_packer_init(&packer, &packed, msgpack_sbuffer_write);
	for (size_t i = 0; flush(lie); i++) {
		const char *type = types[i % 5];

		msgpack_sbuffer_clear(&packed);
		msgpack_pack_map(&packer, 2);
		msgpack_pack_str(&packer, 4);
		msgpack_pack_str_body(&packer, "type", 4);
		msgpack_pack_str(&packer, strlen(type));
		msgpack_pack_str_body(&packer, type, strlen(type));
		msgpack_pack_str(&packer, 4);
		msgpack_pack_str_body(&packer, "name", 4);
		msgpack_pack_str(&packer, 1000);
		for (int k = 0; k < 100; k++)
			msgpack_pack_str_body(&packer, "0123456789", 10);
		add_data(lie, &packed);
	}
}

/* And of as many again which it has not told of. */
static void many_threads(struct lie *lie)
{
	static const char thread[] = "\x83\xa4type\xa6thread\xa2of\xa6thread\xa2id\xce",
			  frames[] = "\x83\xa4type\xa6"
				     "frames\xa2of\xa6thread\xa2id\xce";
	msgpack_sbuffer packed;

	msgpack_sbuffer_init(&packed);
	for (uint32_t i = 0; i < 600000 && (i % 100 || flush(lie)); i++) {
		const char number[] = {(char)(i >> 24), (char)(i >> 16), (char)(i >> 8), (char)i};

		msgpack_sbuffer_clear(&packed);
		msgpack_sbuffer_write(&packed, i < 300000 ? thread : frames, sizeof(thread) - 1);
		msgpack_sbuffer_write(&packed, number, sizeof(number));
		add_data(lie, &packed);
	}
	add_done(lie);
	flush(lie);
	msgpack_sbuffer_destroy(&packed);
}

static void many_types(struct lie *lie)
{
	msgpack_sbuffer packed;
	msgpack_packer packer;
	char name[16];

	msgpack_sbuffer_init(&packed);
	msgpack_packer_init(&packer, &packed, msgpack_sbuffer_write);
	msgpack_pack_map(&packer, 1);
	msgpack_pack_str(&packer, 7);
	msgpack_pack_str_body(&packer, "objects", 7);
	msgpack_pack_map(&packer, 2);
	msgpack_pack_str(&packer, 5);
	msgpack_pack_str_body(&packer, "types", 5);
	msgpack_pack_map(&packer, 40000);
	for (int i = 0; i < 40000; i++) {
		int size = snprintf(name, sizeof(name), "T%d", i);

		msgpack_pack_str(&packer, (size_t)size);
		msgpack_pack_str_body(&packer, name, (size_t)size);
		msgpack_pack_int(&packer, i);
	}
	msgpack_pack_str(&packer, 7);
	msgpack_pack_str_body(&packer, "classes", 7);
	msgpack_pack_array(&packer, 20000);
	for (int i = 0; i < 20000; i++) {
		msgpack_pack_map(&packer, 2);
		msgpack_pack_str(&packer, 4);
		msgpack_pack_str_body(&packer, "name", 4);
		msgpack_pack_str(&packer, 1);
		msgpack_pack_str_body(&packer, "C", 1);
		msgpack_pack_str(&packer, 5);
		msgpack_pack_str_body(&packer, "count", 5);
		msgpack_pack_int(&packer, i);
	}
	add_data(lie, &packed);
	add_done(lie);
	flush(lie);
}

static void pack_key(msgpack_packer *packer, const char *key)
{
	msgpack_pack_str(packer, strlen(key));
	msgpack_pack_str_body(packer, key, strlen(key));
}

static void pack_pair(msgpack_packer *packer, const char *key, uint64_t number)
{
	pack_key(packer, key);
	msgpack_pack_uint64(packer, number);
}

static void pack_text_of(msgpack_packer *packer, const char *words)
{
	msgpack_pack_str(packer, strlen(words));
	msgpack_pack_str_body(packer, words, strlen(words));
}

#define NO_PARENT (UINT64_MAX - 1)

/* Figures of one method, with every bucket that there is, and that many calls in each. */
static void pack_figures(msgpack_packer *packer, uint32_t method, uint64_t calls, uint32_t buckets, uint64_t parent)
{
	msgpack_pack_map(packer, parent == NO_PARENT ? 13 : 15);
	if (parent != NO_PARENT) {
		pack_pair(packer, "parent", parent);
		pack_pair(packer, "folded", UINT64_MAX);
	}
	pack_key(packer, "key");
	pack_text_of(packer, "\x1b[31m\x9b\n\xff");
	pack_pair(packer, "cpu_ns", UINT64_MAX);
	pack_pair(packer, "objects", UINT64_MAX);
	pack_pair(packer, "gc_ns", UINT64_MAX);
	pack_pair(packer, "unmeasured", UINT64_MAX);
	pack_pair(packer, "method", method);
	pack_pair(packer, "calls", UINT64_MAX);
	pack_pair(packer, "errors", UINT64_MAX);
	pack_pair(packer, "total", UINT64_MAX);
	pack_pair(packer, "self", UINT64_MAX);
	pack_pair(packer, "min", UINT64_MAX);
	pack_pair(packer, "max", 0);
	pack_key(packer, "histogram");
	msgpack_pack_array(packer, 2 * buckets);
	for (uint32_t i = 0; i < buckets; i++) {
		msgpack_pack_uint32(packer, i);
		msgpack_pack_uint64(packer, calls);
	}
}

/* A piece of what was counted, of so many methods. rate 0: not the last one. parent: in a tree, where it is no sound one. */
static void add_statistics(struct lie *lie, uint32_t methods, uint64_t calls, uint32_t buckets, uint64_t rate, uint64_t parent)
{
	msgpack_sbuffer packed;
	msgpack_packer packer;

	msgpack_sbuffer_init(&packed);
	msgpack_packer_init(&packer, &packed, msgpack_sbuffer_write);
	msgpack_pack_map(&packer, rate ? 4 : 1);
	pack_key(&packer, "methods");
	msgpack_pack_array(&packer, methods);
	for (uint32_t i = 0; i < methods; i++)
		pack_figures(&packer, i, calls, buckets, parent == NO_PARENT || parent > methods ? parent : i);
	if (rate) {
		pack_pair(&packer, "rate", rate);
		pack_pair(&packer, "elapsed_ns", UINT64_MAX);
		pack_pair(&packer, "open", UINT64_MAX);
	}
	add_data(lie, &packed);
	msgpack_sbuffer_destroy(&packed);
}

static void add_end(struct lie *lie)
{
	struct record record = {.kind = RECORD_END};

	record.end = (struct record_end){.text = {"", 0},
	                                 .calls = 1,
	                                 .lost = UINT64_MAX,
	                                 .other_ractors = UINT64_MAX,
	                                 .left_out = UINT64_MAX,
	                                 .marks = 0,
	                                 .marks_lost = UINT64_MAX,
	                                 .counted = UINT64_MAX};
	record_encode(&lie->records, &record);
	flush(lie);
	shutdown(lie->socket, SHUT_WR);
}

/* Numbers as large as can be, and buckets that nothing is in, or none have. */
static void impossible_statistics(struct lie *lie)
{
	static const uint64_t calls[] = {0, 1, UINT64_C(1) << 63, UINT64_MAX};
	uint64_t which = strtoull(lie->argument, NULL, 10);

	for (uint32_t ref = 0; ref < 4; ref++)
		add_method(lie, ref);
	add_statistics(lie, 4, calls[which % 4], which < 4 ? 4 : 3000, which % 2 ? UINT64_MAX : 1, which < 8 ? NO_PARENT : 0);
	add_end(lie);
}

static void statistics_of_nothing(struct lie *lie)
{
	add_method(lie, 0);
	add_statistics(lie, 2, 1, 1, 1, NO_PARENT);
	flush(lie);
}

static void statistics_below_nothing(struct lie *lie)
{
	add_method(lie, 0);
	add_method(lie, 1);
	add_statistics(lie, 2, 1, 1, 1, UINT64_MAX);
	flush(lie);
}

/* A tree as deep as it is long. */
static void deep_statistics(struct lie *lie)
{
	for (uint32_t ref = 0; ref < 80; ref++)
		add_method(lie, ref);
	add_statistics(lie, 80, 1, 1, 1, 0);
	add_end(lie);
}

/* Of a report that never ends; each piece is said to be a whole answer. */
static void statistics_for_ever(struct lie *lie)
{
	for (uint32_t ref = 0; ref < 20; ref++)
		add_method(lie, ref);
	do {
		add_statistics(lie, 20, 1, 1920, 0, NO_PARENT);
		add_done(lie);
	} while (flush(lie));
}

/* What else happens in fibers: of methods and kinds that there are not, with values that are none. */
static void odd_marks(struct lie *lie)
{
	static const char values[] = "\x9c\xa7\x1b[2Jabc\xc0\x01\xa1\xff\xa5-1e99\xa0\xa2\xe2\x80\xa3"
				     "9;9\xc0\xa1\n\xa2\xc2\x9b\x91\x01";
	struct record record = {.kind = RECORD_METHOD};

	for (uint32_t kind = 0; kind < 8; kind++) {
		record.method = (struct record_method){.ref = MARK_REF(kind),
		                                       .class_name = text("\x1b[31m"),
		                                       .method_name = text("\x9b"),
		                                       .mark = kind < 7 ? kind : UINT32_MAX};
		record_encode(&lie->records, &record);
	}
	add_fiber(lie, 1);
	for (uint32_t kind = 0; kind < 8; kind++)
		for (unsigned what = EVENT_START; what <= EVENT_MARK; what++) {
			struct batch_event event = {.kind = (enum event_kind)what,
			                            .method = MARK_REF(kind),
			                            .fiber = 1,
			                            .values = {values, sizeof(values) - 1}};
			struct batch batch;

			batch_begin(&batch, &lie->records, UINT64_MAX);
			batch_add(&batch, &event);
			batch_end(&batch);
		}
	for (uint32_t kind = 0; kind < 8; kind++) {
		record.kind = RECORD_TOTALS;
		record.totals = (struct record_totals){.mark = kind,
		                                       .native_id = kind % 2 ? UINT32_MAX : 0,
		                                       .thread_name = text("\x1b]0;title\a"),
		                                       .elapsed_ns = kind % 3 ? 1 : 0,
		                                       .count = kind,
		                                       .numbers = {UINT64_MAX, UINT64_MAX}};
		record_encode(&lie->records, &record);
	}
	add_end(lie);
}

static void mark_of_nothing(struct lie *lie)
{
	struct batch_event event = {.kind = EVENT_MARK, .method = 77, .fiber = 1};
	struct batch batch;

	add_fiber(lie, 1);
	batch_begin(&batch, &lie->records, 0);
	batch_add(&batch, &event);
	batch_end(&batch);
	flush(lie);
}

/* What was measured of calls, in numbers that nobody asked for, among texts, or too many; of lines that end. */
static void odd_measures(struct lie *lie)
{
	static const struct slice outcomes[] = {
		{"\x90", 1},
		{"\x93\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xc0", 20},
		{"\x95\x01\x02\x03\x04\x05", 6},
		{"\x93\x01\xa3\x1b[J\x02", 7},
		{"\x92\xd0\xff\xcb\x7f\xf8\0\0\0\0\0\0", 12},
		{"\x94\xa1\x07\xc0\xc0\xc0", 6},
	};
	struct batch batch;

	add_method(lie, 1);
	add_fiber(lie, 1);
	for (size_t i = 0; i < sizeof(outcomes) / sizeof(*outcomes); i++)
		for (unsigned ending = 0; ending < ENDING_COUNT; ending++) {
			struct batch_event whole = {.kind = EVENT_CALL,
			                            .ending = (enum ending)ending,
			                            .method = 1,
			                            .fiber = 1,
			                            .outcome = outcomes[i]};
			struct batch_event start = {.kind = EVENT_START, .method = 1, .fiber = 1, .values = outcomes[i]};
			struct batch_event end = {
				.kind = EVENT_END, .ending = (enum ending)ending, .method = 1, .fiber = 1, .values = outcomes[i]};

			batch_begin(&batch, &lie->records, 0);
			batch_add(&batch, &whole);
			batch_add(&batch, &start);
			batch_add(&batch, &end);
			batch_end(&batch);
		}
	add_end(lie);
}

static void announce_descriptor(struct lie *lie, int descriptor)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr aligned;
	} control = {{0}};
	struct iovec piece;
	struct msghdr message = {
		.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control)};
	msgpack_sbuffer packed;
	msgpack_packer packer;

	msgpack_sbuffer_init(&packed);
	msgpack_packer_init(&packer, &packed, msgpack_sbuffer_write);
	msgpack_pack_map(&packer, 1);
	msgpack_pack_str(&packer, 11);
	msgpack_pack_str_body(&packer, "descriptors", 11);
	msgpack_pack_int(&packer, 1);
	add_data(lie, &packed);
	control.aligned = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(&control.aligned), &descriptor, sizeof(int));
	piece = (struct iovec){lie->records.data, lie->records.size};
	if (sendmsg(lie->socket, &message, MSG_NOSIGNAL) < 0)
		perror("sendmsg");
	msgpack_sbuffer_clear(&lie->records);
}

static void zeroes(struct lie *lie)
{
	announce_descriptor(lie, open("/dev/zero", O_RDONLY));
}

/* The last one who has this socket waits, in closing it, until what nobody reads has been read. */
static int lingering(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	socklen_t size = sizeof(address);
	static char bytes[65536];

	if (bind(server, (struct sockaddr *)&address, size) != 0 || listen(server, 1) != 0 ||
	    getsockname(server, (struct sockaddr *)&address, &size) != 0)
		return -1;
	connect(client, (struct sockaddr *)&address, size);
	poll(&(struct pollfd){.fd = client, .events = POLLOUT}, 1, 1000);
	while (send(client, bytes, sizeof(bytes), MSG_NOSIGNAL) > 0)
		;
	setsockopt(client, SOL_SOCKET, SO_LINGER, &(struct linger){1, 3600}, sizeof(struct linger));
	fcntl(client, F_SETFL, 0);
	return client; /* the other end stays open, in this process */
}

static void linger_in_close(struct lie *lie)
{
	int fd = lingering();

	announce_descriptor(lie, fd);
	close(fd);
}

static void endless_dump(struct lie *lie)
{
	static char bytes[65536];
	int ends[2];

	if (pipe(ends) != 0)
		return;
	signal(SIGPIPE, SIG_IGN);
	memset(bytes, '\n', sizeof(bytes));
	announce_descriptor(lie, ends[0]);
	close(ends[0]);
	/* The bell may ring late, and interrupt it. */
	while (write(ends[1], bytes, sizeof(bytes)) > 0 || errno == EINTR)
		;
	close(ends[1]);
}

static void copy_of(struct lie *lie)
{
	msgpack_sbuffer packed;
	msgpack_packer packer;

	msgpack_sbuffer_init(&packed);
	msgpack_packer_init(&packer, &packed, msgpack_sbuffer_write);
	msgpack_pack_map(&packer, 1);
	msgpack_pack_str(&packer, 3);
	msgpack_pack_str_body(&packer, "pid", 3);
	msgpack_pack_int(&packer, atoi(lie->argument));
	add_data(lie, &packed);
	add_done(lie);
	flush(lie);
}

static void huge_frame(struct lie *lie)
{
	send_bytes(lie->socket, "\xff\xff\xff\xff....", 8);
}

static void half_frame(struct lie *lie)
{
	send_bytes(lie->socket, "\x00\x00\x01\x00....", 8);
	shutdown(lie->socket, SHUT_RDWR);
}

static void notes_for_ever(struct lie *lie)
{
	struct record record = {.kind = RECORD_NOTE, .note = {.level = NOTE_INFO, .text = text("a note")}};

	while (flush(lie))
		for (int i = 0; i < 100; i++)
			record_encode(&lie->records, &record);
}

static void unknown_kinds_for_ever(struct lie *lie)
{
	static const char record[] = {3, 0, 0, 0, (char)0x91, (char)0xcc, (char)0xc8};

	while (send_bytes(lie->socket, record, sizeof(record)))
		;
}

/* Well-formed records of every kind with numbers that mean nothing, some bytes of which are changed; cut anywhere. */
static void random_records(struct lie *lie)
{
	for (int i = 0; i < 2000; i++) {
		struct record record = {.kind = (enum record_kind)(1 + next_random(lie) % 14)};
		struct slice some = {"a text of some length", next_random(lie) % 22};
		uint32_t number = next_random(lie) % 4 ? (uint32_t)(next_random(lie) % 8) : (uint32_t)next_random(lie);

		switch (record.kind) {
		case RECORD_METHOD:
			record.method = (struct record_method){
				.ref = number, .class_name = some, .separator = '#', .method_name = some, .line = number};
			break;
		case RECORD_FIBER:
			record.fiber = (struct record_fiber){
				.ref = number, .thread_id = number, .thread_name = some, .root = number % 2, .created_at = some};
			break;
		case RECORD_EVENTS: {
			struct batch batch;

			batch_begin(&batch, &lie->records, number);
			for (int k = 0; k < 20; k++) {
				struct batch_event event = {.kind = (enum event_kind)(next_random(lie) % 3),
				                            .method = number,
				                            .fiber = next_random(lie) % 3,
				                            .time_ns = next_random(lie) >> next_random(lie) % 64};
				batch_add(&batch, &event);
			}
			batch_end(&batch);
			break;
		}
		case RECORD_DATA:
			record.data = (struct record_data){.command_id = lie->request, .packed = {"\x81\xa4type\xa6thread", 13}};
			break;
		case RECORD_OUTPUT:
			record.output =
				(struct record_output){.command_id = lie->request, .stream = 1 + number % 3, .bytes = some};
			break;
		case RECORD_DONE:
			if (i > 1500)
				record.done = (struct record_done){.command_id = lie->request, .text = some};
			else
				record.kind = RECORD_NOTE;
			/* fallthrough */
		default:
			if (record.kind == RECORD_NOTE)
				record.note = (struct record_note){.level = NOTE_INFO, .text = some};
		}
		if (record.kind != RECORD_EVENTS && record.kind != RECORD_HELLO && record.kind != RECORD_END)
			record_encode(&lie->records, &record);
		if (next_random(lie) % 64 == 0 && lie->records.size)
			lie->records.data[next_random(lie) % lie->records.size] = (char)next_random(lie);
		if (next_random(lie) % 256 == 0)
			lie->records.size = next_random(lie) % (lie->records.size + 1);
		if (!flush(lie))
			return;
	}
	shutdown(lie->socket, SHUT_RDWR);
}

/* Each with a stack of some 450 KiB in use, all of it in functions. */
#define DEEP_STACKS 300
#define DEEP_CALLS 55

static atomic_uint sleeping;

static __attribute__((noipa)) int deep_call(int depth)
{
	volatile char room[8192];

	room[0] = (char)depth;
	for (size_t i = 0; i < sizeof(room); i += 1024)
		room[i] = 1;
	if (depth > 0)
		return deep_call(depth - 1) + room[0];
	atomic_fetch_add(&sleeping, 1);
	while (atomic_load(&sleeping))
		pause();
	return 0;
}

static void *deep_thread(void *nothing)
{
	deep_call(DEEP_CALLS);
	return nothing;
}

static void deep_stacks(struct lie *lie)
{
	pthread_attr_t attributes;
	pthread_t thread;
	unsigned count = 0;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 1u << 20);
	while (count < DEEP_STACKS && pthread_create(&thread, &attributes, deep_thread, NULL) == 0)
		count++;
	while (atomic_load(&sleeping) < count)
		sched_yield();
	add_done(lie);
	flush(lie);
}

static void nothing(struct lie *lie)
{
	(void)lie;
}

static const struct {
	const char *name;
	void (*tell)(struct lie *lie);
} lies[] = {
	{"methods", methods_for_ever},
	{"deep", deep_for_ever},
	{"harmful-fibers", harmful_fibers_for_ever},
	{"one-method", one_method_for_ever},
	{"fibers", fibers_for_ever},
	{"output", output_for_ever},
	{"data", data_for_ever},
	{"types", many_types},
	{"threads", many_threads},
	{"zeroes", zeroes},
	{"linger", linger_in_close},
	{"endless-dump", endless_dump},
	{"fork", copy_of},
	{"huge", huge_frame},
	{"half", half_frame},
	{"notes", notes_for_ever},
	{"unknown", unknown_kinds_for_ever},
	{"random", random_records},
	{"statistics", impossible_statistics},
	{"statistics-of-nothing", statistics_of_nothing},
	{"statistics-below-nothing", statistics_below_nothing},
	{"deep-statistics", deep_statistics},
	{"statistics-for-ever", statistics_for_ever},
	{"marks", odd_marks},
	{"mark-of-nothing", mark_of_nothing},
	{"measures", odd_measures},
	{"deep-stacks", deep_stacks},
	{"nothing", nothing},
};

/* --- The other side of a session */

static void greet(struct lie *lie, const uint8_t *nonce, const struct command *request)
{
	struct record hello = {.kind = RECORD_HELLO}, reply = {.kind = RECORD_REPLY};

	hello.hello = (struct record_hello){.version = PROTOCOL_VERSION,
	                                    .nonce = {(const char *)nonce, NONCE_SIZE},
	                                    .pid = (uint32_t)getpid(),
	                                    .ruby_version = text("3.1.2"),
	                                    .extension_version = text("0.1.0")};
	record_encode(&lie->records, &hello);
	lie->request = request->id;
	reply.reply = (struct record_reply){.command_id = request->id, .text = {"", 0}, .count = 1};
	record_encode(&lie->records, &reply);
	flush(lie);
}

static int connect_to(struct slice path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(address.sun_path, path.bytes, path.size);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	close(fd);
	return -1;
}

static int queue_make(void)
{
	struct {
		long type;
		char nothing[1];
	} stamp = {.type = QUEUE_STAMP_TYPE};
	int id = msgget(queue_key(getpid()), 0600 | IPC_CREAT | IPC_EXCL);

	if (id < 0 || msgsnd(id, &stamp, 0, 0) != 0 || msgrcv(id, &stamp, 0, QUEUE_STAMP_TYPE, 0) != 0)
		exit(1);
	return id;
}

static void on_ring(int signal)
{
	(void)signal;
}

static bool disguise(const char *directory, const char *abi)
{
	char path[PATH_MAX];
	int library;

	snprintf(path, sizeof(path), "%s/ruby/%s/libruby.so", directory, abi);
	library = open(path, O_RDWR | O_CREAT, 0644);
	return library >= 0 && ftruncate(library, 4096) == 0 &&
	       mmap(NULL, 4096, PROT_READ, MAP_SHARED, library, 0) != MAP_FAILED &&
	       sigaction(SIGURG, &(struct sigaction){.sa_handler = on_ring}, NULL) == 0;
}

int main(int argc, char **argv)
{
	struct chunk_assembly *assembly = chunk_assembly_new();
	struct lie lie = {.socket = -1, .argument = argc > 4 ? argv[4] : "1"};
	struct assembled_command whole;
	struct command command;
	struct chunk chunk;
	struct error err;
	msgpack_zone zone;
	size_t chosen = 0;

	if (argc < 4 || !disguise(argv[1], argv[2]))
		return 2;
	while (chosen < sizeof(lies) / sizeof(*lies) && strcmp(lies[chosen].name, argv[3]) != 0)
		chosen++;
	if (chosen == sizeof(lies) / sizeof(*lies))
		return 2;
	lie.random = strtoull(lie.argument, NULL, 10) * 0x9e3779b97f4a7c15u + 1;
	msgpack_zone_init(&zone, 65536);
	msgpack_sbuffer_init(&lie.records);
	lie.queue = queue_make();
	setbuf(stdout, NULL);
	puts("ready");
	for (;;) {
		ssize_t size = msgrcv(lie.queue, &chunk, CHUNK_SIZE_MAX, CHUNK_TYPE, 0);

		if (size < 0 && errno == EINTR)
			continue;
		if (size < 0)
			return 1;
		if (chunk_assemble(assembly, &chunk, (size_t)size, &whole, &err) != 1 ||
		    command_decode(&command, whole.bytes, whole.size, &zone, &err) != 0)
			continue;
		if (command.kind == COMMAND_ATTACH) {
			if (lie.socket >= 0)
				close(lie.socket);
			lie.socket = connect_to(command.attach.socket_path);
		} else if (command.kind != COMMAND_DETACH && command.kind != COMMAND_CANCEL) {
			greet(&lie, whole.nonce, &command);
			lies[chosen].tell(&lie);
		}
		msgpack_zone_clear(&zone);
	}
}
