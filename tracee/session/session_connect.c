/* The way to the client: its socket, and the greeting. See session_parts.h. Context: job; a forked child, where it says so. */

#define _GNU_SOURCE
#include "tracee/session/session_parts.h"

#include "proto/clock.h"
#include "proto/names.h"

#include <errno.h>
#include <fcntl.h>
#include <ruby.h>
#include <ruby/version.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define DESCRIPTOR_FROM 768

void session_send_hello(struct session *session)
{
	struct record record = {
		.kind = RECORD_HELLO,
		.hello = {.version = PROTOCOL_VERSION,
	                  .nonce = {(const char *)session->nonce, NONCE_SIZE},
	                  .pid = (uint32_t)getpid(),
	                  .ruby_version = {ruby_version, strlen(ruby_version)},
	                  .extension_version = {RBPROBE_VERSION, strlen(RBPROBE_VERSION)},
	                  .monotonic_ns = clock_now_ns(),
	                  .realtime_ns = clock_ns(CLOCK_REALTIME)},
	};

	session_send(session, &record);
}

/*
 * Out of the application's way: it may count on being given the lowest number that is free, or close one twice. Where so many are
 * not allowed, or fcntl is not, it stays where it is.
 */
static int move_up(int fd)
{
	for (int from = DESCRIPTOR_FROM; from > STDERR_FILENO; from /= 2) {
		int moved = fcntl(fd, F_DUPFD_CLOEXEC, from);

		if (moved >= 0) {
			close(fd);
			return moved;
		}
	}
	return fd;
}

/* A descriptor, or -errno; *why: what the code does not say, or NULL. Async-signal-safe. */
static int connect_socket(const char *path, size_t path_size, uint32_t client_pid, uint32_t *uid, const char **why)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct ucred peer;
	socklen_t peer_size = sizeof(peer);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int status = -EPERM;

	*why = NULL;
	if (fd < 0)
		return -errno;
	fd = move_up(fd);
	memcpy(address.sun_path, path, path_size);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		status = -errno;
	else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_size) != 0 || (peer.uid != geteuid() && peer.uid != 0))
		*why = "the client's socket belongs to another user";
	/* 0: outside of our PID namespace. A command that names no PID cannot come from within. */
	else if (peer.pid != 0 && (uint32_t)peer.pid != client_pid)
		*why = "the client's socket belongs to another process";
	else {
		*uid = peer.uid;
		return fd;
	}
	close(fd);
	return status;
}

int session_connect_as(const struct command *command, uint32_t *uid, struct error *err)
{
	const struct slice *path = &command->attach.socket_path;
	const char *why;
	int fd = connect_socket(path->bytes, path->size, command->attach.client_pid, uid, &why);

	if (fd >= 0)
		return fd;
	if (why)
		return error_set(err, fd, "%s", why);
	return error_set(err, fd, "the client's socket cannot be reached: %s", strerror(-fd));
}

int session_connect_again(const struct session *session)
{
	const char *why;
	uint32_t uid;

	return connect_socket(session->client_path, strlen(session->client_path), session->client_pid, &uid, &why);
}
