/*
 * Who waits for the GVL. See profile_gvl.h.
 *
 * Each thread has an account: what it does, since when, and what it has had since the last sample. Whoever lets go of the GVL
 * leaves a note of how long it had it. When a thread gets it, these notes say who had it while that thread waited. Only threads
 * that a sample has found are in the notes: those of other Ractors have a GVL of their own.
 *
 * Context: on_event() runs inside the VM's scheduler, on several threads at once, with or without the GVL: it reads and writes
 * memory, and nothing else. The events of one thread follow each other, and who gets the GVL or lets go of it has it: a job,
 * which has it as well, meets no such event.
 */

#define _GNU_SOURCE
#include "tracee/requests/profile_gvl.h"

#include "proto/clock.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/gvl_events.h"
#include "tracee/vm/gvl_layout.h"
#include "tracee/vm/string_slice.h"

#include <ruby.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ACCOUNTS 1024u /* threads that live at a time; a power of two */
#define PROBES 16
#define NOTES 512u
#define PAIRS 1024u

#define FREE 0
#define TAKING 2

enum doing { OUTSIDE, WAITING, HOLDING };

struct account {
	_Atomic uintptr_t thread;
	_Atomic uint32_t native_id, number; /* number: in the profile; 0: not known there */
	_Atomic int doing;
	_Atomic uint64_t since_ns;
	_Atomic uint64_t waits, waited_ns, held_ns;
};

/* A thread had the GVL. */
struct held {
	uint32_t account;
	uint64_t from_ns, to_ns;
};

struct pair {
	uint32_t waiter, holder;
	uint64_t ns;
};

struct profile_gvl {
	struct account accounts[ACCOUNTS];
	struct held notes[NOTES];
	_Atomic uint32_t note_count; /* counting up */
	struct pair pairs[PAIRS];
	_Atomic uint32_t pair_count;
	bool by_events;
	bool by_layout; /* samples see who waits for it */
};

static struct profile_gvl *_Atomic active;

static struct account *account_of(struct profile_gvl *gvl, uintptr_t thread, bool open)
{
	size_t from = (size_t)(thread >> 4 ^ thread >> 12);

	for (size_t i = 0; i < PROBES; i++) {
		struct account *account = &gvl->accounts[(from + i) & (ACCOUNTS - 1)];

		if (account->thread == thread)
			return account;
	}
	for (size_t i = 0; i < PROBES && open; i++) {
		struct account *account = &gvl->accounts[(from + i) & (ACCOUNTS - 1)];
		uintptr_t expected = FREE;

		if (!atomic_compare_exchange_strong(&account->thread, &expected, TAKING))
			continue;
		account->native_id = account->number = 0;
		account->since_ns = account->waits = account->waited_ns = account->held_ns = 0;
		account->doing = OUTSIDE;
		account->thread = thread;
		return account;
	}
	return NULL;
}

static void add_pair(struct profile_gvl *gvl, uint32_t waiter, uint32_t holder, uint64_t ns)
{
	uint32_t count = gvl->pair_count;

	for (uint32_t i = 0; i < count; i++)
		if (gvl->pairs[i].waiter == waiter && gvl->pairs[i].holder == holder) {
			gvl->pairs[i].ns += ns;
			return;
		}
	if (count == PAIRS)
		return;
	gvl->pairs[count] = (struct pair){waiter, holder, ns};
	gvl->pair_count = count + 1;
}

static void note_held(struct profile_gvl *gvl, const struct account *account, uint64_t now_ns)
{
	if (account->number && account->since_ns) {
		gvl->notes[gvl->note_count % NOTES] =
			(struct held){(uint32_t)(account - gvl->accounts), account->since_ns, now_ns};
		gvl->note_count++;
	}
}

/* Who had it while this thread waited until now. The GVL is held. */
static void add_wait(struct profile_gvl *gvl, struct account *account, uint64_t now_ns)
{
	uint64_t since_ns = account->since_ns, left_ns = now_ns > since_ns ? now_ns - since_ns : 0;
	uint32_t next = gvl->note_count, first = next > NOTES ? next - NOTES : 0;

	account->waited_ns += left_ns;
	if (!account->number)
		return;
	for (uint32_t i = next; i > first; i--) {
		const struct held *note = &gvl->notes[(i - 1) % NOTES];
		struct account *holder = &gvl->accounts[note->account];
		uint64_t from_ns = note->from_ns > since_ns ? note->from_ns : since_ns;

		if (note->to_ns <= since_ns)
			break;
		if (note->to_ns <= from_ns || !holder->number || holder == account)
			continue;
		holder->held_ns += note->to_ns - from_ns;
		add_pair(gvl, account->number, holder->number, note->to_ns - from_ns);
		left_ns -= left_ns > note->to_ns - from_ns ? note->to_ns - from_ns : left_ns;
	}
	if (left_ns)
		add_pair(gvl, account->number, 0, left_ns);
}

static void on_event(enum gvl_event event, uintptr_t thread)
{
	struct profile_gvl *gvl = active;
	struct account *account = gvl ? account_of(gvl, thread, event != GVL_THREAD_EXITED) : NULL;
	uint64_t now_ns;

	if (!account)
		return;
	now_ns = clock_now_ns();
	if (event == GVL_TAKEN) {
		if (!account->native_id)
			account->native_id = (uint32_t)syscall(SYS_gettid);
		if (account->doing == WAITING && account->since_ns) {
			add_wait(gvl, account, now_ns);
			account->waits++;
		}
	} else if (account->doing == HOLDING) {
		note_held(gvl, account, now_ns);
	}
	account->since_ns = now_ns;
	account->doing = event == GVL_TAKEN ? HOLDING : event == GVL_WANTED ? WAITING : OUTSIDE;
	if (event == GVL_THREAD_EXITED)
		account->thread = FREE;
}

/* --- Jobs */

struct profile_gvl *profile_gvl_start(void)
{
	struct profile_gvl *gvl = calloc(1, sizeof(*gvl));

	if (!gvl)
		return NULL;
	gvl->by_events = gvl_events_possible();
	if (!gvl->by_events) {
		gvl->by_layout = gvl_layout_find();
		return gvl;
	}
	active = gvl;
	gvl_events_on(on_event);
	return gvl;
}

void profile_gvl_stop(struct profile_gvl *gvl)
{
	if (gvl && gvl->by_events)
		gvl_events_off(on_event);
	active = NULL;
}

void profile_gvl_fork_child(void)
{
	active = NULL;
}

void profile_gvl_free(struct profile_gvl *gvl)
{
	free(gvl);
}

bool profile_gvl_by_events(const struct profile_gvl *gvl)
{
	return gvl->by_events;
}

void profile_gvl_begin(struct profile_gvl *gvl)
{
	uint64_t now_ns = clock_now_ns();

	for (uint32_t i = 0; i < ACCOUNTS; i++) {
		struct account *account = &gvl->accounts[i];

		if (account->thread > TAKING && account->number && account->doing == HOLDING) {
			note_held(gvl, account, now_ns);
			account->since_ns = now_ns;
		}
	}
	for (uint32_t i = 0; i < ACCOUNTS; i++) {
		struct account *account = &gvl->accounts[i];

		if (account->thread > TAKING && account->number && account->doing == WAITING && account->since_ns) {
			add_wait(gvl, account, now_ns);
			account->since_ns = now_ns;
		}
	}
}

struct profile_gvl_times profile_gvl_take(struct profile_gvl *gvl, const struct profile_thread *thread)
{
	struct account *account = account_of(gvl, (uintptr_t)thread->thread, false);

	/* On 3.2 events name native threads. */
	for (uint32_t i = 0; i < ACCOUNTS && !account && thread->native_id; i++)
		if (gvl->accounts[i].thread > TAKING && gvl->accounts[i].native_id == thread->native_id)
			account = &gvl->accounts[i];
	if (!account)
		return (struct profile_gvl_times){0};
	account->number = thread->number;
	return (struct profile_gvl_times){atomic_exchange(&account->waits, 0), atomic_exchange(&account->waited_ns, 0),
	                                  atomic_exchange(&account->held_ns, 0)};
}

/* Its status alone does not tell: one that comes out of a sleep has that of a sleeper until it has the GVL. */
static bool waits_by_status(VALUE thread)
{
	VALUE status = builtin_call0(BUILTIN_THREAD_STATUS, thread);
	struct slice word = string_slice(status);
	bool runnable = word.size == 3 && memcmp(word.bytes, "run", 3) == 0;

	RB_GC_GUARD(status);
	return runnable;
}

struct profile_gvl_times profile_gvl_guess(struct profile_gvl *gvl, const struct profile_thread *thread, uint32_t holder,
                                           uint64_t passed_ns)
{
	bool waits;

	if (thread->number == holder || thread->thread == rb_thread_current())
		return (struct profile_gvl_times){0};
	waits = gvl->by_layout ? gvl_layout_look(gvl_layout_thread(thread->thread), gvl_layout_owner()) == GVL_LOOK_WAITS
	                       : waits_by_status(thread->thread);
	if (!waits)
		return (struct profile_gvl_times){0};
	add_pair(gvl, thread->number, holder, passed_ns);
	return (struct profile_gvl_times){.waits = 1, .waited_ns = passed_ns};
}

void profile_gvl_tell(struct profile_gvl *gvl, struct msgpack_builder *answer)
{
	builder_array(answer, "gvl_pairs");
	for (uint32_t i = 0; i < gvl->pair_count; i++) {
		builder_uint(answer, NULL, gvl->pairs[i].waiter);
		builder_uint(answer, NULL, gvl->pairs[i].holder);
		builder_uint(answer, NULL, gvl->pairs[i].ns);
	}
	builder_end(answer);
	gvl->pair_count = 0;
}
