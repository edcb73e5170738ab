/*
 * The handler's answer. See stuck.h, proto/stuck.h. Context: signal handler, on the thread that has the GVL.
 *
 * It reads what is there and allocates nothing: a thread's own frames do not change while its handler runs; paths and labels are
 * strings that the frames' code keeps. Class names would have to be made, and are left out. The garbage collector may be in the
 * middle of something, so then nothing is read. On 2.7 a handler cannot tell whether the running frames are those of its own
 * thread, and says nothing.
 *
 * Two threads may believe at the same time that they have the GVL (one of them waits to get it back); the second one leaves.
 */

#define _GNU_SOURCE
#include "tracee/session/stuck.h"

#include "proto/stuck.h"
#include "tracee/session/permissions.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/string_slice.h"

#include <ruby.h>
#include <ruby/debug.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/msg.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define C_METHOD "(method written in C)" /* its name cannot be had here */
#define QUESTIONS_MAX 8                  /* that are looked at: those of clients that are gone are passed over */

/* Set aside, since a handler cannot allocate; no memory is used before it is asked. */
static struct {
	atomic_flag busy;
	struct stuck_question question;
	struct stuck_answer answer;
	struct stuck_frames frames;
} stuck = {.busy = ATOMIC_FLAG_INIT};

void stuck_add_frames(struct stuck_answer *answer, const struct stuck_frames *frames, int count)
{
	for (int i = 0; i < count; i++) {
		VALUE path = rb_profile_frame_path(frames->frames[i]);
		struct stuck_frame frame = {.path = string_slice(path)};

		if (!NIL_P(path)) {
			frame.label = string_slice(rb_profile_frame_label(frames->frames[i]));
			frame.line = frames->lines[i];
		} else if (compat_names_need_no_lock()) {
			frame.label = string_slice(rb_profile_frame_method_name(frames->frames[i]));
		} else {
			frame.label = (struct slice){C_METHOD, sizeof(C_METHOD) - 1};
		}
		/* Below a main thread's first frame lies a dummy. */
		if (i > 0 && i == count - 1 && frame.path.size && frame.line == 0)
			break;
		if (!stuck_add(answer, &frame)) {
			answer->more = 1;
			break;
		}
	}
}

/* To the client that asks, if it still listens and is who may ask. -1: it does not. */
static int connect_to(const struct stuck_question *question)
{
	const char *path = question->socket_path;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct ucred peer;
	socklen_t size = sizeof(peer);
	size_t length = strnlen(path, SOCKET_PATH_MAX);
	int fd;

	if (length == 0 || length >= sizeof(address.sun_path))
		return -1;
	memcpy(address.sun_path, path, length);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && (peer.uid == geteuid() || peer.uid == 0) &&
	    (peer.pid == 0 || (uint32_t)peer.pid == question->client_pid))
		return fd;
	close(fd);
	return -1;
}

void stuck_answer_begin(struct stuck_answer *answer)
{
	memset(answer, 0, STUCK_HEADER_SIZE);
	memcpy(answer->magic, STUCK_MAGIC, sizeof(answer->magic));
	answer->version = STUCK_VERSION;
	answer->pid = (uint32_t)getpid();
	answer->native_id = (uint32_t)syscall(SYS_gettid);
	if (!permission_is_given(PERMIT_BACKTRACE))
		answer->code = STUCK_REFUSED;
	else if (rb_during_gc())
		answer->code = STUCK_IN_GC;
}

static void answer_question(int fd)
{
	struct stuck_answer *answer = &stuck.answer;

	stuck_answer_begin(answer);
	memcpy(answer->nonce, stuck.question.nonce, NONCE_SIZE);
	if (answer->code == STUCK_FRAMES)
		stuck_add_frames(answer, &stuck.frames,
		                 rb_profile_frames(0, STUCK_FRAMES_LOOKED_AT, stuck.frames.frames, stuck.frames.lines));
	/* It fits the socket's buffer. Who does not get it all refuses it. */
	send(fd, answer, STUCK_HEADER_SIZE + answer->bytes_used, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void stuck_answer_if_asked(int queue_id)
{
	struct stuck_question *question = &stuck.question;

	if (queue_id < 0 || !compat_may_look_in_handler() || atomic_flag_test_and_set(&stuck.busy))
		return;
	for (int i = 0; i < QUESTIONS_MAX; i++) {
		ssize_t size = msgrcv(queue_id, question, sizeof(*question) - sizeof(question->type), STUCK_MESSAGE_TYPE,
		                      IPC_NOWAIT | MSG_NOERROR);
		int fd;

		if (size < 0)
			break;
		if ((size_t)size != sizeof(*question) - sizeof(question->type) ||
		    memcmp(question->magic, STUCK_MAGIC, sizeof(question->magic)) != 0 || question->version != STUCK_VERSION)
			continue;
		fd = connect_to(question);
		if (fd < 0)
			continue;
		answer_question(fd);
		close(fd);
		break;
	}
	atomic_flag_clear(&stuck.busy);
}
