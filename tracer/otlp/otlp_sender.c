/*
 * The thread that sends OTLP. See otlp_sender.h. The queue and the counts are under `lock`; the request that is being sent is the
 * thread's alone. Whoever gives a request and whoever ends all of it is the program's main thread.
 */

#define _GNU_SOURCE
#include "tracer/otlp/otlp_sender.h"

#include "proto/clock.h"
#include "tracer/otlp/otlp_post.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#define FIRST_WAIT_NS (500 * NS_PER_MS)
#define LONGEST_WAIT_NS (30 * NS_PER_S)
#define LOOK_NS (50 * NS_PER_MS) /* how often whoever waits looks for signals */

struct request {
	struct request *next;
	struct buffer bytes;
	uint64_t items;
};

struct otlp_sender {
	const struct otlp_settings *settings;
	struct otlp_post *post;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed; /* by its clock, CLOCK_MONOTONIC */
	struct request *first, *last;
	size_t size;     /* of all that wait, that which is being sent included */
	bool busy;       /* one is being sent */
	bool over;       /* no more will come: the thread ends when all is sent, or at once where stop is set */
	bool never;      /* the server will never take anything */
	bool news;       /* `why` is to be said */
	bool told;       /* that it is tried again; until something is taken */
	uint64_t end_ns; /* after this nothing is tried again; 0: no such time yet */
	atomic_bool stop;
	struct otlp_counts counts;
	uint64_t random;
};

static void wait_until(struct otlp_sender *sender, uint64_t ns)
{
	const struct timespec time = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};

	if (ns == UINT64_MAX)
		pthread_cond_wait(&sender->changed, &sender->lock);
	else
		pthread_cond_timedwait(&sender->changed, &sender->lock, &time);
}

static struct request *take(struct otlp_sender *sender)
{
	struct request *request = sender->first;

	sender->first = request->next;
	if (!sender->first)
		sender->last = NULL;
	sender->busy = true;
	return request;
}

static void done(struct otlp_sender *sender, struct request *request)
{
	sender->size -= request->bytes.size;
	sender->busy = false;
	buffer_free(&request->bytes);
	free(request);
	pthread_cond_broadcast(&sender->changed);
}

/* Many clients that failed at a time do not come back at a time. */
static uint64_t backoff_ns(struct otlp_sender *sender, unsigned tries)
{
	uint64_t ns = FIRST_WAIT_NS << (tries < 8 ? tries : 8);

	if (ns > LONGEST_WAIT_NS)
		ns = LONGEST_WAIT_NS;
	sender->random = sender->random * 6364136223846793005u + 1442695040888963407u;
	return ns / 2 + (sender->random >> 33) % (ns / 2);
}

static bool is_at_end(const struct otlp_sender *sender, uint64_t now_ns)
{
	return atomic_load(&sender->stop) || (sender->end_ns && now_ns >= sender->end_ns);
}

static uint64_t request_timeout_ns(const struct otlp_sender *sender, uint64_t now_ns)
{
	uint64_t ns = sender->settings->timeout_ns;

	return sender->end_ns && sender->end_ns < now_ns + ns ? sender->end_ns - now_ns : ns;
}

static void note(struct otlp_sender *sender, const struct otlp_answer *answer)
{
	if (*answer->why)
		snprintf(sender->counts.why, sizeof(sender->counts.why), "%s", answer->why);
}

/* What came of a request; false: it is to be tried again. Under the lock. */
static bool settle(struct otlp_sender *sender, const struct request *request, const struct otlp_answer *answer)
{
	uint64_t rejected = answer->rejected < request->items ? answer->rejected : request->items;

	note(sender, answer);
	switch (answer->outcome) {
	case OTLP_TAKEN:
		sender->counts.sent += request->items - rejected;
		sender->counts.refused += rejected;
		sender->told = false;
		/* What was not said in time has become untrue. */
		sender->news = sender->never;
		return true;
	case OTLP_LATER:
		sender->news = sender->news || !sender->told;
		sender->told = true;
		return false;
	case OTLP_NEVER:
		sender->never = sender->news = true;
		break;
	case OTLP_REFUSED:
		break;
	}
	sender->counts.refused += request->items;
	return true;
}

/* Sends one, as often as it takes. With the lock, which it lets go of meanwhile. */
static void send_one(struct otlp_sender *sender, struct request *request)
{
	for (unsigned tries = 0;; tries++) {
		uint64_t now_ns = clock_now_ns(), again_ns;
		struct otlp_answer answer;

		if (sender->never || is_at_end(sender, now_ns)) {
			sender->counts.unsent += request->items;
			return;
		}
		again_ns = request_timeout_ns(sender, now_ns);
		pthread_mutex_unlock(&sender->lock);
		otlp_post_send(sender->post, &request->bytes, again_ns, &sender->stop, &answer);
		pthread_mutex_lock(&sender->lock);
		/* Ended from here: nothing is wrong with the server. */
		if (atomic_load(&sender->stop) && answer.outcome == OTLP_LATER)
			continue;
		if (settle(sender, request, &answer))
			return;
		again_ns = clock_now_ns() + (answer.wait_ns ? answer.wait_ns : backoff_ns(sender, tries));
		while ((now_ns = clock_now_ns()) < again_ns && !is_at_end(sender, now_ns))
			wait_until(sender, sender->end_ns && sender->end_ns < again_ns ? sender->end_ns : again_ns);
	}
}

static void *run(void *owner)
{
	struct otlp_sender *sender = owner;

	pthread_mutex_lock(&sender->lock);
	while (sender->first || !sender->over) {
		struct request *request;

		if (!sender->first) {
			wait_until(sender, UINT64_MAX);
			continue;
		}
		request = take(sender);
		send_one(sender, request);
		done(sender, request);
	}
	pthread_mutex_unlock(&sender->lock);
	return NULL;
}

static int start_thread(struct otlp_sender *sender)
{
	sigset_t all, before;
	int status;

	/* Signals are the main thread's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	status = pthread_create(&sender->thread, NULL, run, sender);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return status;
}

int otlp_sender_open(struct otlp_sender **made, const struct otlp_settings *settings, struct error *err)
{
	struct otlp_sender *sender = memory_zeroed(sizeof(*sender));
	pthread_condattr_t attributes;
	int status = otlp_post_open(&sender->post, settings, err);

	if (status < 0) {
		free(sender);
		return status;
	}
	sender->settings = settings;
	if (getrandom(&sender->random, sizeof(sender->random), GRND_NONBLOCK) < 0)
		sender->random = clock_now_ns();
	pthread_mutex_init(&sender->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&sender->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	status = start_thread(sender);
	if (status == 0) {
		*made = sender;
		return 0;
	}
	otlp_post_close(sender->post);
	free(sender);
	return error_set(err, -status, "no thread can be started that sends: %s", strerror(status));
}

static bool can_be_read(int descriptor)
{
	struct pollfd polled = {.fd = descriptor, .events = POLLIN};

	return descriptor >= 0 && poll(&polled, 1, 0) > 0;
}

static bool has_room(const struct otlp_sender *sender, size_t size)
{
	return !sender->size || sender->size + size <= OTLP_QUEUE_MAX;
}

static void wait_for_room(struct otlp_sender *sender, size_t size, int stop)
{
	uint64_t until_ns = clock_now_ns() + sender->settings->timeout_ns, now_ns;

	while (!has_room(sender, size) && !sender->never && (now_ns = clock_now_ns()) < until_ns && !can_be_read(stop))
		wait_until(sender, until_ns < now_ns + LOOK_NS ? until_ns : now_ns + LOOK_NS);
}

bool otlp_sender_give(struct otlp_sender *sender, struct buffer *bytes, uint64_t items, bool wait, int stop)
{
	struct request *request;
	bool taken;

	pthread_mutex_lock(&sender->lock);
	if (wait)
		wait_for_room(sender, bytes->size, stop);
	taken = !sender->never && has_room(sender, bytes->size);
	if (taken) {
		request = memory_zeroed(sizeof(*request));
		request->bytes = *bytes;
		request->items = items;
		*bytes = (struct buffer){0};
		sender->size += request->bytes.size;
		if (sender->last)
			sender->last->next = request;
		else
			sender->first = request;
		sender->last = request;
		pthread_cond_broadcast(&sender->changed);
	} else if (sender->never) {
		sender->counts.unsent += items;
	} else {
		sender->counts.dropped += items;
	}
	pthread_mutex_unlock(&sender->lock);
	buffer_free(bytes);
	return taken;
}

bool otlp_sender_ask(struct otlp_sender *sender, struct error *err)
{
	bool news;

	pthread_mutex_lock(&sender->lock);
	news = sender->news;
	if (news)
		error_set(err, sender->never ? -EIO : 0, "%s", sender->counts.why);
	sender->news = false;
	pthread_mutex_unlock(&sender->lock);
	return news;
}

void otlp_sender_finish(struct otlp_sender *sender, int stop, void (*look)(void *owner), void *owner, struct otlp_counts *counts)
{
	pthread_mutex_lock(&sender->lock);
	sender->over = true;
	sender->end_ns = clock_now_ns() + sender->settings->timeout_ns;
	pthread_cond_broadcast(&sender->changed);
	while ((sender->first || sender->busy) && !atomic_load(&sender->stop)) {
		wait_until(sender, clock_now_ns() + LOOK_NS);
		pthread_mutex_unlock(&sender->lock);
		look(owner);
		pthread_mutex_lock(&sender->lock);
		if (can_be_read(stop) || clock_now_ns() >= sender->end_ns)
			atomic_store(&sender->stop, true);
		pthread_cond_broadcast(&sender->changed);
	}
	pthread_mutex_unlock(&sender->lock);
	pthread_join(sender->thread, NULL);
	*counts = sender->counts;
}

void otlp_sender_close(struct otlp_sender *sender)
{
	otlp_post_close(sender->post);
	pthread_cond_destroy(&sender->changed);
	pthread_mutex_destroy(&sender->lock);
	free(sender);
}
