/*
 * Who waits for the GVL, and for how long. Context: the hook runs inside the VM's scheduler, on several threads at once, with or
 * without the GVL; everything else in jobs.
 *
 * Each thread has an account: what it does now, since when, and how long it has done each of the three things. The events of one
 * thread follow each other, so that only one at a time writes to an account. The client gets the sums at the end. A long wait
 * goes into a small queue, from which a job makes a mark.
 *
 * A thread that is there already is known from its first event on, which says what it did until then.
 */

#include "tracee/observe/marks.h"

#include "proto/clock.h"
#include "proto/task_file.h"
#include "tracee/base/ticks.h"
#include "tracee/base/value_texts.h"
#include "tracee/session/bell.h"
#include "tracee/vm/gvl_events.h"

#include <errno.h>
#include <ruby.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ACCOUNTS 2048 /* threads that live at a time; those beyond are not counted. A power of two */
#define PROBES 16
#define LONG_WAIT_NS (10 * NS_PER_MS)
#define QUEUE_SIZE 64u

/* In place of a thread. */
#define FREE 0
#define TAKING 2

struct account {
	_Atomic uintptr_t thread;
	_Atomic uint32_t generation; /* goes up when a thread gets the account */
	_Atomic uint32_t native_id;
	_Atomic int doing;
	_Atomic uint64_t since_ns; /* 0: no event has come yet */
	_Atomic uint64_t ns[MARK_GVL_DOINGS];
	_Atomic uint64_t waits, longest_ns;
};

struct long_wait {
	_Atomic bool ready;
	uint32_t native_id;
	uint64_t time; /* ticks: when it was over */
	uint64_t ns;
};

static struct {
	struct account *accounts; /* kept once there are any; the last one is that of all threads that have ended */
	uint64_t on_ns;
	struct long_wait queue[QUEUE_SIZE];
	_Atomic uint32_t first, next; /* of the queue, counting up */
	_Atomic uint64_t lost;        /* long waits for which it had no place */
} gvl;

static struct account *account_of(uintptr_t thread)
{
	size_t from = (size_t)(thread >> 4 ^ thread >> 12);

	for (size_t i = 0; i < PROBES; i++) {
		struct account *account = &gvl.accounts[(from + i) & (ACCOUNTS - 1)];

		if (atomic_load_explicit(&account->thread, memory_order_relaxed) == thread)
			return account;
	}
	return NULL;
}

/* Nobody else looks for this thread meanwhile. */
static struct account *account_open(uintptr_t thread)
{
	size_t from = (size_t)(thread >> 4 ^ thread >> 12);

	for (size_t i = 0; gvl.accounts && i < PROBES; i++) {
		struct account *account = &gvl.accounts[(from + i) & (ACCOUNTS - 1)];
		uintptr_t expected = FREE;

		if (!atomic_compare_exchange_strong(&account->thread, &expected, TAKING))
			continue;
		account->generation++;
		account->native_id = 0;
		account->since_ns = account->waits = account->longest_ns = 0;
		for (int k = 0; k < MARK_GVL_DOINGS; k++)
			account->ns[k] = 0;
		account->thread = thread;
		return account;
	}
	return NULL;
}

/* What it did goes to that of all that have ended. */
static void account_close(struct account *account)
{
	struct account *all = &gvl.accounts[ACCOUNTS];

	for (int k = 0; k < MARK_GVL_DOINGS; k++)
		all->ns[k] += account->ns[k];
	all->waits += account->waits;
	if (account->longest_ns > all->longest_ns)
		all->longest_ns = account->longest_ns;
	account->thread = FREE;
}

static void queue_wait(uint32_t native_id, uint64_t ns)
{
	uint32_t next = atomic_load(&gvl.next);

	do {
		if (next - atomic_load(&gvl.first) >= QUEUE_SIZE) {
			gvl.lost++;
			return;
		}
	} while (!atomic_compare_exchange_weak(&gvl.next, &next, next + 1));
	gvl.queue[next % QUEUE_SIZE].native_id = native_id;
	gvl.queue[next % QUEUE_SIZE].ns = ns;
	gvl.queue[next % QUEUE_SIZE].time = ticks_now();
	gvl.queue[next % QUEUE_SIZE].ready = true;
	bell_trigger();
}

/* What a thread did until an event. */
static int before(enum gvl_event event)
{
	return event == GVL_TAKEN ? MARK_GVL_WAITING : event == GVL_RELEASED ? MARK_GVL_HOLDING : MARK_GVL_OUTSIDE;
}

static int after(enum gvl_event event)
{
	return event == GVL_WANTED ? MARK_GVL_WAITING : event == GVL_TAKEN ? MARK_GVL_HOLDING : MARK_GVL_OUTSIDE;
}

static void on_event(enum gvl_event event, uintptr_t thread)
{
	uint64_t now_ns = clock_now_ns(), passed_ns;
	struct account *account = account_of(thread);
	int did;

	if (!account && event != GVL_THREAD_EXITED)
		account = account_open(thread);
	if (!account)
		return;
	if (!account->since_ns) {
		account->since_ns = event == GVL_THREAD_STARTED ? now_ns : gvl.on_ns;
		account->doing = before(event);
	}
	did = account->doing;
	passed_ns = now_ns - account->since_ns;
	account->ns[did] += passed_ns;
	account->since_ns = now_ns;
	account->doing = after(event);
	if (event == GVL_TAKEN && !account->native_id)
		account->native_id = (uint32_t)syscall(SYS_gettid);
	if (event == GVL_THREAD_EXITED)
		account_close(account);
	if (event != GVL_TAKEN || did != MARK_GVL_WAITING)
		return;
	account->waits++;
	if (passed_ns > account->longest_ns)
		account->longest_ns = passed_ns;
	if (passed_ns >= LONG_WAIT_NS)
		queue_wait(account->native_id, passed_ns);
}

/* --- Jobs */

void mark_gvl_flush(void)
{
	uint64_t lost = atomic_exchange(&gvl.lost, 0);
	struct long_wait *wait;

	for (struct session *session = session_first(); session && lost; session = session->next)
		if (marks_are_on(session, MARK_GVL)) {
			session->mark_count += lost;
			session->marks_lost += lost;
		}
	while (gvl.first != gvl.next && (wait = &gvl.queue[gvl.first % QUEUE_SIZE])->ready) {
		struct value_texts values;
		char buffer[64];
		size_t size;

		value_texts_begin(&values, buffer, sizeof(buffer));
		value_texts_add_uint(&values, wait->ns);
		size = value_texts_end(&values);
		for (struct session *session = session_first(); session; session = session->next)
			if (marks_are_on(session, MARK_GVL))
				marks_keep(session, MARK_GVL, wait->native_id, wait->time, buffer, size);
		wait->ready = false;
		gvl.first++;
		marks_flush_kept();
	}
}

/* The thread's name, as Linux knows it. */
static size_t name_of(uint32_t native_id, char *name, size_t size)
{
	ssize_t got = task_file_read_own((pid_t)native_id, "comm", name, size);

	return got > 1 ? (size_t)got - 1 : 0; /* without the line's end */
}

static void sums_of(const struct account *account, uint64_t now_ns, uint64_t sums[MARK_GVL_DOINGS])
{
	uint64_t since_ns = account->since_ns;

	for (int i = 0; i < MARK_GVL_DOINGS; i++)
		sums[i] = account->ns[i];
	if (since_ns && now_ns > since_ns)
		sums[account->doing] += now_ns - since_ns;
}

static bool is_in_use(uint32_t index)
{
	return index == ACCOUNTS || gvl.accounts[index].thread > TAKING;
}

void mark_gvl_sums(uint64_t sums[MARK_GVL_DOINGS])
{
	uint64_t now_ns = clock_now_ns(), one[MARK_GVL_DOINGS];

	memset(sums, 0, MARK_GVL_DOINGS * sizeof(*sums));
	for (uint32_t i = 0; gvl.accounts && i <= ACCOUNTS; i++) {
		if (!is_in_use(i))
			continue;
		sums_of(&gvl.accounts[i], now_ns, one);
		for (int k = 0; k < MARK_GVL_DOINGS; k++)
			sums[k] += one[k];
	}
}

struct mark_gvl_baseline *mark_gvl_baseline(void)
{
	struct mark_gvl_baseline *baseline = calloc(ACCOUNTS + 1, sizeof(*baseline));
	uint64_t now_ns = clock_now_ns();

	for (uint32_t i = 0; baseline && gvl.accounts && i <= ACCOUNTS; i++) {
		if (!is_in_use(i))
			continue;
		baseline[i].generation = gvl.accounts[i].generation;
		sums_of(&gvl.accounts[i], now_ns, baseline[i].ns);
	}
	return baseline;
}

void mark_gvl_tell(struct session *session)
{
	const struct mark_gvl_baseline *baseline = session->mark_state->gvl;
	uint64_t now_ns = clock_now_ns();
	struct record record = {.kind = RECORD_TOTALS};
	char name[32];

	for (uint32_t i = 0; baseline && i <= ACCOUNTS; i++) {
		const struct account *account = &gvl.accounts[i];
		uint64_t *numbers = record.totals.numbers;

		/* Without a native id it has not had the GVL yet. */
		if (!is_in_use(i) || (i != ACCOUNTS && !account->native_id))
			continue;
		record.totals = (struct record_totals){.mark = MARK_GVL,
		                                       .native_id = account->native_id,
		                                       .elapsed_ns = now_ns - session->mark_state->began_ns,
		                                       .count = MARK_GVL_DOINGS + 2};
		sums_of(account, now_ns, numbers);
		for (int k = 0; k < MARK_GVL_DOINGS && baseline[i].generation == account->generation; k++)
			numbers[k] -= baseline[i].ns[k];
		if (numbers[MARK_GVL_WAITING] + numbers[MARK_GVL_HOLDING] + numbers[MARK_GVL_OUTSIDE] == 0)
			continue;
		numbers[MARK_GVL_DOINGS] = account->waits;
		numbers[MARK_GVL_DOINGS + 1] = account->longest_ns;
		record.totals.thread_name =
			(struct slice){name, i == ACCOUNTS ? 0 : name_of(account->native_id, name, sizeof(name))};
		session_send(session, &record);
	}
}

static int check(const struct mark_options *options, struct error *err)
{
	(void)options;
	if (gvl_events_possible())
		return 0;
	return error_set(err, -ENOTSUP, "--gvl needs Ruby 3.2 or newer: this one does not tell when a thread waits for the GVL");
}

static void on(void)
{
	if (!gvl.accounts)
		gvl.accounts = calloc(ACCOUNTS + 1, sizeof(*gvl.accounts));
	if (!gvl.accounts)
		rb_memerror();
	memset(gvl.accounts, 0, (ACCOUNTS + 1) * sizeof(*gvl.accounts));
	memset(gvl.queue, 0, sizeof(gvl.queue));
	gvl.first = gvl.next = 0;
	gvl.lost = 0;
	gvl.on_ns = clock_now_ns();
	gvl_events_on(on_event);
}

static void off(void)
{
	gvl_events_off(on_event);
}

const struct mark_source mark_gvl = {.kind = MARK_GVL, .check = check, .on = on, .off = off};
