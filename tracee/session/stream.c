/*
 * The writer thread. See stream.h. Context: writer (no GVL, no rb_* call), except where stream.h says otherwise.
 *
 * Events wake nobody, since waking is a syscall. So the writer looks at the ring again and again; what it waits in between is a
 * poll() of the socket, in which it also learns that the client has gone. A look costs the traced process 10 to 20 microseconds,
 * and what it drives out of the caches: 1,000 looks a second were 2 % of the CPU time of a web application. So it looks as rarely
 * as an event may be late, as often as the ring fills, and every millisecond only for as long as an answer may be under way.
 */

#define _GNU_SOURCE
#include "tracee/session/stream.h"

#include "proto/clock.h"
#include "tracee/base/command_inbox.h"
#include "tracee/base/encoder.h"
#include "tracee/base/fork_gate.h"
#include "tracee/base/job_due.h"
#include "tracee/session/bell.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define POLL_MS 1        /* where an answer is waited for, or the ring fills */
#define POLL_EVENTS_MS 3 /* where there is nothing but some events */
#define POLL_QUIET_MS 5  /* where nothing has come for QUIET_MS */
#define POLL_RARE_MS 10  /* where nothing comes but what may be so late (session->rests) */
#define POLL_DOZE_MS 200 /* likewise, and later (session->dozes) */
#define QUIET_MS 50
#define MANY_BYTES (256u << 10)  /* of the ring, in one look: it fills */
#define OUTPUT_HIGH (128u << 10) /* bytes waiting for the socket above which the ring is left alone */
#define OUTPUT_SIZE (2u << 20)   /* of the buffer: OUTPUT_HIGH, and the largest message or event that may come on top */
#define CLOSE_TIMEOUT_MS 5000    /* how long a closing session waits for a client that reads nothing */
#define RING_AGAIN_MS 100        /* between two rings for the job that is to disarm */
#define JOB_LONG_MS 1000         /* a job that takes so long is told of */
#define STACK_SIZE (256u << 10)  /* the writer's; more than twice what its deepest call was seen to need */

static _Atomic unsigned running_writers;
#define STREAM_THREADS_MAX (2 * SESSIONS_MAX)

static _Atomic pid_t threads_of_writers[STREAM_THREADS_MAX];
static _Atomic uint64_t ended_writers_ns; /* the CPU time of those that are gone */
static _Atomic uint64_t sent_by_all;      /* bytes, of all writers ever */

struct writer {
	struct session *session;
	msgpack_sbuffer output;
	size_t written; /* of output */
	uint64_t sent;  /* bytes in all */
	struct encoder encoder;
	int descriptor; /* to be sent with the output's byte at descriptor_at; -1: none */
	size_t descriptor_at;
	int pause_ms;        /* until it looks again */
	int quiet_ms;        /* for so long nothing has come that others may follow soon */
	uint64_t told_of_ns; /* the beginning of a job that the client has been told of */
};

static uint64_t now_ms(void)
{
	return clock_now_ns() / NS_PER_MS;
}

void stream_post(struct session *session, struct message *message)
{
	ring_release(&session->ring);
	message->position = ring_written(&session->ring);
	atomic_fetch_add_explicit(&session->waiting, message->size, memory_order_relaxed);
	atomic_store_explicit(&message->next, NULL, memory_order_relaxed);
	atomic_store_explicit(&session->newest->next, message, memory_order_release);
	session->newest = message;
}

/* Up to which size the output may grow. */
static size_t high_water(const struct writer *writer)
{
	return writer->written + OUTPUT_HIGH;
}

static void take_message(struct writer *writer, struct message *message)
{
	struct session *session = writer->session;

	if (message->has_descriptor) {
		writer->descriptor = message->descriptor;
		writer->descriptor_at = writer->output.size;
		message->has_descriptor = false;
	}
	msgpack_sbuffer_write(&writer->output, message->bytes, message->size);
	writer->quiet_ms = 0;
	atomic_fetch_sub_explicit(&session->waiting, message->size, memory_order_relaxed);
	fork_gate_free(session->oldest);
	session->oldest = message;
}

/*
 * All that is there, in the order in which it was posted and pushed: a message goes behind the events that were in the ring when
 * it was posted, and before the later ones, which may refer to what it defines. True when nothing is left.
 */
static bool take_all(struct writer *writer)
{
	struct session *session = writer->session;
	/* Read first: whatever was posted before an event in front of this position is then seen below. */
	uint64_t end = ring_readable(&session->ring);
	struct message *message;

	while ((message = atomic_load_explicit(&session->oldest->next, memory_order_acquire))) {
		if (!encoder_take(&writer->encoder, message->position, high_water(writer)) ||
		    writer->output.size >= high_water(writer) || (message->has_descriptor && writer->descriptor >= 0))
			return false;
		take_message(writer, message);
	}
	/* The last message may have been posted behind `end`. */
	if (ring_position(&session->ring) < end)
		return encoder_take(&writer->encoder, end, high_water(writer));
	return true;
}

/* What has been written makes room: the buffer never grows, however slowly the client reads. */
static void compact(struct writer *writer)
{
	writer->output.size -= writer->written;
	memmove(writer->output.data, writer->output.data + writer->written, writer->output.size);
	writer->descriptor_at -= writer->descriptor < 0 ? 0 : writer->written;
	writer->written = 0;
}

/* Sends what may go in one piece: up to the byte that a descriptor goes with, or that byte and what follows. */
static ssize_t send_some(struct writer *writer)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr aligned;
	} control = {.bytes = {0}};
	bool has_descriptor = writer->descriptor >= 0;
	bool now = has_descriptor && writer->written == writer->descriptor_at;
	size_t end = has_descriptor && !now ? writer->descriptor_at : writer->output.size;
	struct iovec piece = {writer->output.data + writer->written, end - writer->written};
	struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
	ssize_t size;

	if (now) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
		control.aligned.cmsg_level = SOL_SOCKET;
		control.aligned.cmsg_type = SCM_RIGHTS;
		control.aligned.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.aligned), &writer->descriptor, sizeof(int));
	}
	size = sendmsg(writer->session->socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (now && size > 0) {
		close(writer->descriptor);
		writer->descriptor = -1;
	}
	return size;
}

/* False when the client cannot be reached any more. */
static bool flush(struct writer *writer)
{
	while (writer->written < writer->output.size) {
		ssize_t size = send_some(writer);

		if (size < 0 && errno == EINTR)
			continue;
		if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			break;
		if (size < 0)
			return false;
		writer->written += (size_t)size;
		writer->sent += (uint64_t)size;
		atomic_fetch_add_explicit(&sent_by_all, (uint64_t)size, memory_order_relaxed);
	}
	compact(writer);
	return true;
}

/* Waits a moment, or until the socket takes more. False when the client has hung up. */
static bool wait_a_moment(struct writer *writer)
{
	struct pollfd poll_socket = {.fd = writer->session->socket, .events = POLLRDHUP};

	if (writer->written < writer->output.size)
		poll_socket.events |= POLLOUT;
	if (writer->quiet_ms < QUIET_MS)
		writer->quiet_ms += writer->pause_ms;
	if (poll(&poll_socket, 1, writer->pause_ms) < 0)
		return true;
	return !(poll_socket.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* taken: bytes of the ring. */
static int pause_after(struct writer *writer, bool nothing_left, uint64_t taken, bool look_soon)
{
	bool rests = atomic_load_explicit(&writer->session->rests, memory_order_relaxed);

	if (!nothing_left)
		return writer->output.size ? POLL_MS : 0;
	if (taken >= MANY_BYTES || look_soon)
		return POLL_MS;
	if (atomic_load_explicit(&writer->session->dozes, memory_order_relaxed))
		return POLL_DOZE_MS;
	if (taken && !rests)
		writer->quiet_ms = 0;
	if (writer->quiet_ms >= QUIET_MS)
		return rests ? POLL_RARE_MS : POLL_QUIET_MS;
	return ring_position(&writer->session->ring) ? POLL_EVENTS_MS : POLL_MS;
}

/* What threads do. False: there may be more. */
static bool take_states(struct writer *writer)
{
	struct session *session = writer->session;
	void (*tell)(struct session *, msgpack_sbuffer *, const struct ticks_clock *) =
		__atomic_load_n(&session->tell_states, __ATOMIC_ACQUIRE);
	size_t size;

	if (!tell)
		return true;
	ticks_clock_adjust(&writer->encoder.clock);
	do {
		if (writer->output.size >= high_water(writer))
			return false;
		size = writer->output.size;
		tell(session, &writer->output, &writer->encoder.clock);
	} while (writer->output.size != size);
	return true;
}

/* One round: all that is there goes out. */
static bool round_trip(struct writer *writer, bool *idle)
{
	uint64_t position = ring_position(&writer->session->ring);
	bool nothing_left = take_all(writer) && take_states(writer);
	bool look_soon = nothing_left && encoder_tell_held_back(&writer->encoder);
	bool reachable;

	*idle = nothing_left && writer->output.size == 0;
	reachable = flush(writer);
	writer->pause_ms = pause_after(writer, nothing_left, ring_position(&writer->session->ring) - position, look_soon);
	return reachable;
}

static void encode_end(struct writer *writer)
{
	struct session *session = writer->session;
	struct record record = {
		.kind = RECORD_END,
		.end = {.reason = session->end_reason,
	                .text = {session->end_text, strlen(session->end_text)},
	                .calls = session->calls,
	                .lost = session->ring.lost,
	                .other_ractors = session->other_ractors,
	                .left_out = session->left_out,
	                .marks = session->mark_count,
	                .marks_lost = session->marks_lost,
	                .marks_left_out = session->marks_left_out,
	                .counted = session->counted},
	};

	record_encode(&writer->output, &record);
}

/* Waits for the client to read. False when it has hung up, or has read nothing for too long. */
static bool wait_for_reader(struct writer *writer, uint64_t *sent, uint64_t *deadline)
{
	if (writer->sent != *sent) {
		*sent = writer->sent;
		*deadline = now_ms() + CLOSE_TIMEOUT_MS;
	}
	return wait_a_moment(writer) && now_ms() < *deadline;
}

/* The job detached the session: deliver what is left, and the END. Takes as long as the client goes on reading. */
static void finish(struct writer *writer)
{
	uint64_t deadline = now_ms() + CLOSE_TIMEOUT_MS;
	uint64_t sent = writer->sent;
	bool idle = false;

	ring_flush_gap(&writer->session->ring);
	while (!idle) {
		if (!round_trip(writer, &idle))
			return;
		if (writer->output.size > 0 && !wait_for_reader(writer, &sent, &deadline))
			return;
	}
	encode_end(writer);
	while (flush(writer) && writer->output.size > 0)
		if (!wait_for_reader(writer, &sent, &deadline))
			return;
}

/* The client went: have a job disarm, however long the VM takes to reach a safe point. */
static void await_disarm(struct session *session)
{
	uint64_t ring_at = 0;

	atomic_store_explicit(&session->gone, true, memory_order_release);
	while (!atomic_load_explicit(&session->closing, memory_order_acquire)) {
		struct timespec pause = {.tv_nsec = 1000000};

		if (now_ms() >= ring_at) {
			bell_ring_self();
			ring_at = now_ms() + RING_AGAIN_MS;
		}
		nanosleep(&pause, NULL);
	}
}

static void session_free(struct session *session)
{
	struct message *message = session->oldest;

	while (message) {
		struct message *next = atomic_load_explicit(&message->next, memory_order_acquire);

		if (message->has_descriptor)
			close(message->descriptor);
		fork_gate_free(message);
		message = next;
	}
	session->oldest = NULL;
	close(session->socket);
	if (session->leaked)
		return;
	ring_close(&session->ring);
	fork_gate_free(session->scratch);
	fork_gate_free(session);
}

/*
 * The buffer is mapped, not allocated: freeing a large block would teach malloc to keep large blocks, and a thread that allocates
 * gets an arena that outlives it. Encoding never finds it too small (OUTPUT_SIZE), which would make msgpack reallocate it.
 */
static bool output_open(struct writer *writer)
{
	msgpack_sbuffer_init(&writer->output);
	writer->written = 0;
	writer->output.data = mmap(NULL, OUTPUT_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (writer->output.data == MAP_FAILED)
		return false;
	writer->output.alloc = OUTPUT_SIZE;
	return true;
}

/* The watchdog of jobs: it needs nothing of the VM, so it can tell of one that does not come to its end. */
static void watch_job(struct writer *writer)
{
	uint64_t began_ns = job_began_ns();
	struct record record = {.kind = RECORD_NOTE, .note = {.level = NOTE_WARNING}};
	char text[200];

	if (began_ns == 0 || began_ns == writer->told_of_ns || clock_now_ns() - began_ns < JOB_LONG_MS * NS_PER_MS)
		return;
	writer->told_of_ns = began_ns;
	snprintf(
		text, sizeof(text),
		"rbprobe's own work in the process takes longer than %g s (a command of yours, or of another client); the thread "
		"that does it is held up meanwhile",
		JOB_LONG_MS / 1e3);
	record.note.text = (struct slice){text, strlen(text)};
	record_encode(&writer->output, &record);
}

/* Returns where its number is noted; NULL: there is no room. */
static _Atomic pid_t *note_thread(void)
{
	for (size_t i = 0; i < STREAM_THREADS_MAX; i++) {
		pid_t none = 0;

		if (atomic_compare_exchange_strong(&threads_of_writers[i], &none, (pid_t)syscall(SYS_gettid)))
			return &threads_of_writers[i];
	}
	return NULL;
}

uint64_t stream_cpu_ns(void)
{
	uint64_t sum_ns = atomic_load(&ended_writers_ns), ns;

	for (size_t i = 0; i < STREAM_THREADS_MAX; i++) {
		pid_t thread = atomic_load_explicit(&threads_of_writers[i], memory_order_relaxed);

		if (thread && clock_thread_ns(thread, &ns))
			sum_ns += ns;
	}
	return sum_ns;
}

static void *stream_main(void *argument)
{
	struct writer writer = {.session = argument, .descriptor = -1};
	struct session *session = writer.session;
	_Atomic pid_t *noted;
	bool reachable;
	uint64_t ring_at = 0;

	fork_gate_thread_is_here();
	noted = note_thread();
	reachable = output_open(&writer);
	encoder_open(&writer.encoder, &session->ring, &writer.output);
	while (reachable && !atomic_load_explicit(&session->closing, memory_order_acquire)) {
		bool idle, commanded;

		reachable = round_trip(&writer, &idle) && wait_a_moment(&writer);
		commanded = command_inbox_take();
		if (commanded)
			writer.quiet_ms = 0;
		if ((commanded || job_is_due(JOB_AT_ONCE) || session_look_is_due(session, clock_now_ns())) &&
		    now_ms() >= ring_at) {
			bell_ring_self();
			ring_at = now_ms() + RING_AGAIN_MS;
		}
		watch_job(&writer);
		if (job_is_due(JOB_EVENTUALLY))
			bell_trigger();
	}
	if (!reachable)
		await_disarm(session);
	else
		finish(&writer);
	if (writer.descriptor >= 0)
		close(writer.descriptor);
	if (writer.output.data != MAP_FAILED)
		munmap(writer.output.data, OUTPUT_SIZE);
	session_free(session);
	if (noted) {
		atomic_store(noted, 0);
		atomic_fetch_add(&ended_writers_ns, clock_ns(CLOCK_THREAD_CPUTIME_ID));
	}
	atomic_fetch_sub(&running_writers, 1);
	return NULL;
}

void stream_await_all(unsigned timeout_ms)
{
	uint64_t deadline = now_ms() + timeout_ms;
	uint64_t sent = atomic_load(&sent_by_all);

	while (atomic_load(&running_writers) && now_ms() < deadline) {
		struct timespec pause = {.tv_nsec = 200000};

		nanosleep(&pause, NULL);
		if (atomic_load(&sent_by_all) != sent) {
			sent = atomic_load(&sent_by_all);
			deadline = now_ms() + timeout_ms;
		}
	}
}

void stream_forget_all(void)
{
	atomic_store(&running_writers, 0);
	atomic_store(&ended_writers_ns, 0);
	for (size_t i = 0; i < STREAM_THREADS_MAX; i++)
		atomic_store(&threads_of_writers[i], 0);
}

int stream_start(struct session *session)
{
	pthread_attr_t attributes;
	pthread_t thread;
	sigset_t all, before;
	int status;

	sigfillset(&all);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_SIZE);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	atomic_fetch_add(&running_writers, 1);
	fork_gate_thread_is_coming();
	status = pthread_create(&thread, &attributes, stream_main, session);
	if (status != 0) {
		fork_gate_thread_is_here();
		atomic_fetch_sub(&running_writers, 1);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return -status;
}
