/*
 * An attacker's program: asks another process's signal handler for its frames, through a queue that looks like that process's.
 *
 *     ask_handler QUEUE-ID SOCKET
 *
 * Listens on SOCKET, puts the question, says "asked"; at the end of its input it says whether an answer has come.
 */

#define _GNU_SOURCE
#include "proto/stuck.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/msg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct stuck_question question = {.type = STUCK_MESSAGE_TYPE, .magic = STUCK_MAGIC, .version = STUCK_VERSION};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct pollfd listener = {.fd = socket(AF_UNIX, SOCK_STREAM, 0), .events = POLLIN};
	char byte;

	if (argc != 3)
		return 2;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", argv[2]);
	snprintf(question.socket_path, sizeof(question.socket_path), "%s", argv[2]);
	question.client_pid = (uint32_t)getpid();
	if (bind(listener.fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(listener.fd, 4) != 0 ||
	    chmod(argv[2], 0777) != 0)
		perror(argv[2]);
	if (msgsnd(atoi(argv[1]), &question, sizeof(question) - sizeof(question.type), IPC_NOWAIT) != 0)
		perror("msgsnd");
	puts("asked");
	fflush(stdout);
	if (read(0, &byte, 1) < 0)
		perror("read");
	puts(poll(&listener, 1, 0) > 0 ? "answer" : "no answer");
	return 0;
}
