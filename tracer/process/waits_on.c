/* On what a thread waits. See waits_on.h. */

#define _GNU_SOURCE
#include "tracer/process/waits_on.h"

#include "tracer/base/proc_file.h"
#include "tracer/process/unix_peer.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define LINES_MAX 1000000u /* sockets that are looked at */
#define TCP_LISTEN 0x0a

struct socket_line {
	uint64_t inode;
	char text[128];
	bool unnamed; /* a UNIX socket without a name, such as a client's */
};

/* System calls whose first argument is the descriptor that they wait for. */
static bool waits_for_first(long number)
{
	static const long numbers[] = {SYS_read,    SYS_write,   SYS_readv,  SYS_writev,  SYS_recvfrom, SYS_sendto, SYS_recvmsg,
	                               SYS_sendmsg, SYS_connect, SYS_accept, SYS_accept4, SYS_pread64,  SYS_flock,  SYS_fcntl};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (numbers[i] == number)
			return true;
	return false;
}

static bool is_poll(long number)
{
#ifdef SYS_poll
	if (number == SYS_poll)
		return true;
#endif
	return number == SYS_ppoll;
}

/* Up to Ruby 3.2 one of the threads that wait also waits for signals, on an eventfd of the VM's. */
static bool is_eventfd(pid_t pid, int descriptor)
{
	static const char eventfd[] = "anon_inode:[eventfd]";
	char path[64], target[sizeof(eventfd)];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, descriptor);
	return readlink(path, target, sizeof(target)) == (ssize_t)strlen(eventfd) &&
	       memcmp(target, eventfd, strlen(eventfd)) == 0;
}

int waits_on_descriptor(pid_t pid, pid_t tid)
{
	unsigned long long first, second;
	char name[32], text[256];
	struct pollfd polled[2];
	long number;
	size_t size;

	snprintf(name, sizeof(name), "task/%d/syscall", (int)tid);
	/* "7 0x7ffc.. 0x1 ...", or "running" */
	if (proc_file_read(pid, name, text, sizeof(text)) <= 0 || sscanf(text, "%ld %llx %llx", &number, &first, &second) != 3)
		return -1;
	if (waits_for_first(number))
		return (int)first;
	if (!is_poll(number) || second < 1 || second > 2)
		return -1;
	size = (size_t)second * sizeof(*polled);
	if (process_vm_readv(pid, &(struct iovec){polled, size}, 1, &(struct iovec){(void *)(uintptr_t)first, size}, 1, 0) !=
	            (ssize_t)size ||
	    (second == 2 && !is_eventfd(pid, polled[1].fd)))
		return -1;
	return polled[0].fd;
}

/* --- Sockets */

/* "0100007F:1538", or 32 digits: words in the machine's order. */
static bool address_parse(const char *text, char *to, size_t size)
{
	const char *colon = strchr(text, ':');
	uint32_t words[4];
	unsigned port;
	size_t digits = colon ? (size_t)(colon - text) : 0;
	char name[INET6_ADDRSTRLEN];

	if ((digits != 8 && digits != 32) || sscanf(colon + 1, "%4x", &port) != 1)
		return false;
	for (size_t i = 0; i < digits / 8; i++)
		if (sscanf(text + 8 * i, "%8" SCNx32, &words[i]) != 1)
			return false;
	inet_ntop(digits == 8 ? AF_INET : AF_INET6, words, name, sizeof(name));
	snprintf(to, size, digits == 8 ? "%s:%u" : "[%s]:%u", name, port);
	return true;
}

static bool line_parse(const char *line, const char *protocol, struct socket_line *socket)
{
	char local[64], remote[64], from[INET6_ADDRSTRLEN + 16], to[INET6_ADDRSTRLEN + 16];
	unsigned state;

	if (sscanf(line, " %*[0-9]: %63s %63s %x %*s %*s %*s %*s %*s %" SCNu64, local, remote, &state, &socket->inode) != 4 ||
	    !address_parse(local, from, sizeof(from)) || !address_parse(remote, to, sizeof(to)))
		return false;
	if (state == TCP_LISTEN && strcmp(protocol, "TCP") == 0)
		snprintf(socket->text, sizeof(socket->text), "%s %s, where it listens", protocol, from);
	else if (strspn(remote, "0:") == strlen(remote))
		snprintf(socket->text, sizeof(socket->text), "%s %s", protocol, from);
	else
		snprintf(socket->text, sizeof(socket->text), "%s %s to %s", protocol, from, to);
	return true;
}

static void line_add(struct socket_table *table, const struct socket_line *socket)
{
	if ((table->count & (table->count - 1)) == 0)
		table->lines = memory_resize(table->lines, (table->count ? 2 * table->count : 1) * sizeof(*socket));
	table->lines[table->count++] = *socket;
}

static void file_read(struct socket_table *table, pid_t pid, const char *name, const char *protocol)
{
	char path[64], line[512];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)pid, name);
	file = fopen(path, "re");
	if (!file)
		return;
	while (fgets(line, sizeof(line), file) && table->count < LINES_MAX) {
		struct socket_line socket = {0};

		if (line_parse(line, protocol, &socket))
			line_add(table, &socket);
	}
	fclose(file);
}

/* Those with a name: that of a server's socket, which each of its connections has, too. */
static void unix_read(struct socket_table *table, pid_t pid)
{
	char path[64], line[512], name[112];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/net/unix", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return;
	while (fgets(line, sizeof(line), file) && table->count < LINES_MAX) {
		struct socket_line socket;
		int fields = sscanf(line, "%*s %*s %*s %*s %*s %*s %" SCNu64 " %111[^\n]", &socket.inode, name);

		if (fields < 1)
			continue;
		socket.unnamed = fields < 2;
		snprintf(socket.text, sizeof(socket.text), socket.unnamed ? "a UNIX socket" : "UNIX socket %s", name);
		line_add(table, &socket);
	}
	fclose(file);
}

static int by_inode(const void *one, const void *other)
{
	uint64_t a = ((const struct socket_line *)one)->inode, b = ((const struct socket_line *)other)->inode;

	return a < b ? -1 : a > b;
}

static const struct socket_line *socket_find(struct socket_table *table, pid_t pid, uint64_t inode)
{
	const struct socket_line wanted = {.inode = inode};

	if (!table->read) {
		table->read = true;
		file_read(table, pid, "tcp", "TCP");
		file_read(table, pid, "tcp6", "TCP");
		file_read(table, pid, "udp", "UDP");
		file_read(table, pid, "udp6", "UDP");
		unix_read(table, pid);
		if (table->count)
			qsort(table->lines, table->count, sizeof(*table->lines), by_inode);
	}
	return table->count ? bsearch(&wanted, table->lines, table->count, sizeof(wanted), by_inode) : NULL;
}

bool waits_on_describe(struct buffer *to, pid_t pid, int descriptor, struct socket_table *table)
{
	char path[64], target[4096];
	const struct socket_line *socket;
	ssize_t size;
	uint64_t inode;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, descriptor);
	size = readlink(path, target, sizeof(target) - 1);
	if (size <= 0)
		return false;
	target[size] = '\0';
	if (sscanf(target, "socket:[%" SCNu64, &inode) == 1) {
		socket = socket_find(table, pid, inode);
		if (!socket)
			return false;
		if (socket->unnamed && unix_peer_name(inode, target, sizeof(target))) {
			buffer_add_text(to, "a UNIX socket to ");
			buffer_add_printable(to, target, strlen(target));
		} else {
			buffer_add_printable(to, socket->text, strlen(socket->text));
		}
	} else if (strncmp(target, "pipe:", strlen("pipe:")) == 0) {
		buffer_add_text(to, "a pipe");
	} else if (target[0] == '/') {
		buffer_add_printable(to, target, (size_t)size);
	} else {
		return false;
	}
	buffer_add_format(to, " (descriptor %d)", descriptor);
	return true;
}

void socket_table_free(struct socket_table *table)
{
	free(table->lines);
	memset(table, 0, sizeof(*table));
}
