/* Lies in answer to requests: too much, or descriptors of something else. */

#include "tests/security/liar/lie.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

void output_for_ever(struct lie *lie)
{
	static char bytes[OUTPUT_SIZE_MAX - 64];
	struct record record = {.kind = RECORD_OUTPUT,
	                        .output = {.command_id = lie->request, .stream = OUTPUT_STDOUT, .bytes = {bytes, sizeof(bytes)}}};

	memset(bytes, '.', sizeof(bytes));
	while (lie_flush(lie))
		record_encode(&lie->records, &record);
}

/* Of any of the kinds that a client keeps. */
void data_for_ever(struct lie *lie)
{
	static const char *const types[] = {"thread", "fiber", "process", "fact", "native"};
	msgpack_sbuffer packed;
	msgpack_packer packer;

	msgpack_sbuffer_init(&packed);
	msgpack_packer_init(&packer, &packed, msgpack_sbuffer_write);
	for (size_t i = 0; lie_flush(lie); i++) {
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
		lie_add_data(lie, &packed);
	}
}

/* And of as many again which it has not told of. */
void many_threads(struct lie *lie)
{
	static const char thread[] = "\x83\xa4type\xa6thread\xa2of\xa6thread\xa2id\xce",
			  frames[] = "\x83\xa4type\xa6"
				     "frames\xa2of\xa6thread\xa2id\xce";
	msgpack_sbuffer packed;

	msgpack_sbuffer_init(&packed);
	for (uint32_t i = 0; i < 600000 && (i % 100 || lie_flush(lie)); i++) {
		const char number[] = {(char)(i >> 24), (char)(i >> 16), (char)(i >> 8), (char)i};

		msgpack_sbuffer_clear(&packed);
		msgpack_sbuffer_write(&packed, i < 300000 ? thread : frames, sizeof(thread) - 1);
		msgpack_sbuffer_write(&packed, number, sizeof(number));
		lie_add_data(lie, &packed);
	}
	lie_add_done(lie);
	lie_flush(lie);
	msgpack_sbuffer_destroy(&packed);
}

void many_types(struct lie *lie)
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
	lie_add_data(lie, &packed);
	lie_add_done(lie);
	lie_flush(lie);
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
	lie_add_data(lie, &packed);
	control.aligned = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(&control.aligned), &descriptor, sizeof(int));
	piece = (struct iovec){lie->records.data, lie->records.size};
	if (sendmsg(lie->socket, &message, MSG_NOSIGNAL) < 0)
		perror("sendmsg");
	msgpack_sbuffer_clear(&lie->records);
}

void zeroes(struct lie *lie)
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

void linger_in_close(struct lie *lie)
{
	int fd = lingering();

	announce_descriptor(lie, fd);
	close(fd);
}

void endless_dump(struct lie *lie)
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

void copy_of(struct lie *lie)
{
	msgpack_sbuffer packed;
	msgpack_packer packer;

	msgpack_sbuffer_init(&packed);
	msgpack_packer_init(&packer, &packed, msgpack_sbuffer_write);
	msgpack_pack_map(&packer, 1);
	msgpack_pack_str(&packer, 3);
	msgpack_pack_str_body(&packer, "pid", 3);
	msgpack_pack_int(&packer, atoi(lie->argument));
	lie_add_data(lie, &packed);
	lie_add_done(lie);
	lie_flush(lie);
}
