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
#include "tests/security/liar/lie.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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
	lie_add_done(lie);
	lie_flush(lie);
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
	{"wide-profile", wide_profile},
	{"sums", sums_for_ever},
	{"names", names_for_ever},
	{"pairs", pairs_for_ever},
	{"profile", impossible_profile},
	{"states", impossible_states},
	{"states-for-ever", states_for_ever},
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
	lie_flush(lie);
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
