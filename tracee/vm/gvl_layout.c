/*
 * Who has the GVL, and what other threads do, from the VM's structures. See gvl_layout.h. Context: gvl_layout_find(): job; the
 * rest: any thread, which reads words that others write. Each is one load: what is read together may be a moment apart.
 */

#define _GNU_SOURCE
#include "tracee/vm/gvl_layout.h"

#include "tracee/base/safe_read.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/layout.h"

#include <pthread.h>
#include <ruby/thread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREAD_WORDS 64u /* every Ruby's has so many */
#define OWNER_WORDS 160u /* of what may have the GVL */
#define OWNERS 8u        /* first words of a thread that may lead there */
/* From the GVL's owner to its queue: a mutex is in between. */
#define QUEUE_WORDS (1 + sizeof(pthread_mutex_t) / sizeof(uintptr_t))
#define ATTEMPTS 8
#define THREAD_CLOCK_BITS 3 /* of a thread's CPU clock, before its number: linux/posix-timers.h */

/* enum rb_thread_status: the first two bits of a word of 32. */
#define STATUS_MASK 3u
#define STATUS_RUNNABLE 0u
#define STATUS_STOPPED 1u
#define STATUS_KILLED 3u

struct snapshot {
	uintptr_t thread[THREAD_WORDS];
	struct {
		uintptr_t address, words[OWNER_WORDS];
		size_t count;
	} owners[OWNERS];
};

/* Large, so not on the stack. Under the GVL, but for `during`: that of the thread that is in gvl_layout_find(). */
static struct {
	unsigned attempts;
	bool known;
	uintptr_t thread;
	struct snapshot before, during, after;
	bool has_during;
	uintptr_t stack_low, stack_high; /* the VM's own frame, around the time without the GVL, is between */
} trial;

uintptr_t gvl_layout_thread(VALUE thread)
{
	return (uintptr_t)compat_data(thread);
}

static uintptr_t word_at(uintptr_t address, size_t word)
{
	return __atomic_load_n((const uintptr_t *)address + word, __ATOMIC_ACQUIRE);
}

/* --- Finding */

static bool take(struct snapshot *snapshot)
{
	if (!safe_read_words(trial.thread, snapshot->thread, THREAD_WORDS))
		return false;
	for (size_t i = 0; i < OWNERS; i++) {
		snapshot->owners[i].address = snapshot->thread[i];
		snapshot->owners[i].count = safe_read_some(snapshot->thread[i], snapshot->owners[i].words, OWNER_WORDS);
	}
	return true;
}

static void nobody_wakes(void *argument)
{
	(void)argument;
}

static void *without_gvl(void *argument)
{
	trial.stack_low = (uintptr_t)__builtin_frame_address(0);
	trial.has_during = take(&trial.during);
	return argument;
}

/* False: interrupts are waiting, and nothing was tried. They wait until the thread looks for them. */
static bool __attribute__((noinline)) try_once(void)
{
	trial.has_during = false;
	trial.thread = gvl_layout_thread(rb_thread_current());
	trial.stack_high = (uintptr_t)__builtin_frame_address(0);
	if (!take(&trial.before))
		return false;
	/* Not asynchronously safe, the VM would make a thread that can wake this one. */
	rb_nogvl(without_gvl, &trial, nobody_wakes, &trial, RB_NOGVL_INTR_FAIL | RB_NOGVL_UBF_ASYNC_SAFE);
	trial.attempts += trial.has_during;
	return trial.has_during && take(&trial.after);
}

/* The one word that is so; false: there is none, or several. */
static bool only_word(bool (*is)(size_t word), size_t count, size_t *found)
{
	size_t number = 0;

	for (size_t word = 0; word < count; word++)
		if (is(word)) {
			*found = word;
			number++;
		}
	return number == 1;
}

/* The function and its argument. */
static bool is_unblock(size_t word)
{
	return word + 1 < THREAD_WORDS && trial.during.thread[word] == (uintptr_t)nobody_wakes &&
	       trial.during.thread[word + 1] == (uintptr_t)&trial && !trial.before.thread[word] && !trial.after.thread[word];
}

static bool is_region(size_t word)
{
	return trial.during.thread[word] > trial.stack_low && trial.during.thread[word] < trial.stack_high &&
	       !trial.before.thread[word] && !trial.after.thread[word];
}

static uint32_t half(const struct snapshot *snapshot, size_t number)
{
	uint32_t halves[2 * THREAD_WORDS];

	memcpy(halves, snapshot->thread, sizeof(halves));
	return halves[number];
}

static bool is_status(size_t number)
{
	uint32_t before = half(&trial.before, number), during = half(&trial.during, number), after = half(&trial.after, number);

	return (before & STATUS_MASK) == STATUS_RUNNABLE && during == (before | STATUS_STOPPED) && after == before;
}

/*
 * A job may run in a thread that is about to sleep, whose status is "stopped" all the while. It is the word of 32 bits before the
 * time that the thread has had; on 3.1 the native thread's number comes before it, on 2.7 the VM's own name for that.
 */
static bool status_find(size_t node, size_t *status)
{
	uint32_t before, after;

	if (only_word(is_status, (size_t)2 * THREAD_WORDS, status))
		return true;
	if (node < 2)
		return false;
	*status = 2 * node - (half(&trial.before, 2 * node - 4) == (uint32_t)syscall(SYS_gettid) ? 3 : 2);
	before = half(&trial.before, *status);
	after = half(&trial.after, *status);
	return before == after && (before & STATUS_MASK) != STATUS_RUNNABLE && (before & STATUS_MASK) != STATUS_KILLED &&
	       (half(&trial.during, *status) & STATUS_MASK) == STATUS_STOPPED;
}

/* A node that is in no list leads to itself. */
static bool is_node(size_t word)
{
	uintptr_t address = trial.thread + word * sizeof(address);

	return word + 1 < THREAD_WORDS && trial.before.thread[word] == address && trial.before.thread[word + 1] == address;
}

static bool is_queue(uintptr_t address)
{
	uintptr_t ends[2], back;

	return safe_read_words(address, ends, 2) && safe_read_words(ends[0] + sizeof(back), &back, 1) && back == address &&
	       safe_read_words(ends[1], &back, 1) && back == address;
}

/*
 * It has the thread while that has the GVL, and not while it has not; and the queue of those that wait comes after it. What is
 * read from a thread's other words on may lead there, too.
 */
static bool owner_find(uintptr_t *found)
{
	*found = 0;
	for (size_t i = 0; i < OWNERS; i++) {
		uintptr_t address = trial.before.owners[i].address;
		size_t count = trial.before.owners[i].count;

		if (address != trial.during.owners[i].address || trial.during.owners[i].count != count ||
		    trial.after.owners[i].count != count)
			continue;
		for (size_t word = 0; word < count; word++) {
			uintptr_t owner = address + word * sizeof(address);

			if (trial.before.owners[i].words[word] != trial.thread ||
			    trial.during.owners[i].words[word] == trial.thread ||
			    trial.after.owners[i].words[word] != trial.thread || !is_queue(owner + QUEUE_WORDS * sizeof(address)))
				continue;
			if (*found && *found != owner)
				return false;
			*found = owner;
		}
	}
	return *found != 0;
}

static bool is_pthread(size_t word)
{
	return trial.before.thread[word] == (uintptr_t)pthread_self();
}

static void native_find(void)
{
	size_t word;

	if (only_word(is_pthread, THREAD_WORDS, &word))
		layout_found(LAYOUT_THREAD_NATIVE, word);
}

static bool rows_find(void)
{
	size_t unblock = 0, region = 0, status = 0, node = 0;
	uintptr_t owner;

	if (!only_word(is_unblock, THREAD_WORDS, &unblock) || !only_word(is_region, THREAD_WORDS, &region) ||
	    !only_word(is_node, region, &node) || !status_find(node, &status) || !owner_find(&owner))
		return false;
	native_find();
	return layout_found(LAYOUT_GVL_OWNER, owner) && layout_found(LAYOUT_THREAD_STATUS, status * sizeof(uint32_t)) &&
	       layout_found(LAYOUT_THREAD_WAKER, unblock) && layout_found(LAYOUT_THREAD_REGION, region) &&
	       layout_found(LAYOUT_THREAD_QUEUED, node);
}

bool gvl_layout_find(void)
{
	for (unsigned i = 0; !trial.known && i < ATTEMPTS && trial.attempts < ATTEMPTS; i++)
		if (try_once())
			trial.known = rows_find();
		else
			compat_yield(); /* looks for interrupts */
	for (enum layout_row row = LAYOUT_GVL_OWNER; row <= LAYOUT_THREAD_NATIVE; row++)
		layout_not_found(row, "no word was as it should be with and without the GVL");
	return trial.known;
}

/* --- Looking */

bool gvl_layout_is_known(void)
{
	return __atomic_load_n(&trial.known, __ATOMIC_ACQUIRE);
}

uintptr_t gvl_layout_owner(void)
{
	return word_at(layout_value(LAYOUT_GVL_OWNER), 0);
}

static bool is_queued(uintptr_t thread)
{
	size_t word = layout_value(LAYOUT_THREAD_QUEUED);

	return word_at(thread, word) != thread + word * sizeof(thread);
}

enum gvl_look gvl_layout_look(uintptr_t thread, uintptr_t owner)
{
	uint32_t status =
		__atomic_load_n((const uint32_t *)(thread + layout_value(LAYOUT_THREAD_STATUS)), __ATOMIC_ACQUIRE) & STATUS_MASK;

	if (status == STATUS_KILLED)
		return GVL_LOOK_DEAD;
	if (thread == owner)
		return GVL_LOOK_HOLDS;
	if (word_at(thread, layout_value(LAYOUT_THREAD_WAKER)))
		return GVL_LOOK_OUTSIDE;
	if (status == STATUS_RUNNABLE)
		return GVL_LOOK_WAITS;
	return word_at(thread, layout_value(LAYOUT_THREAD_REGION)) && !is_queued(thread) ? GVL_LOOK_OUTSIDE : GVL_LOOK_WAITS;
}

uint32_t gvl_layout_native_id(uintptr_t thread)
{
	uintptr_t native, word;
	clockid_t clock;

	if (!layout_is_known(LAYOUT_THREAD_NATIVE))
		return 0;
	native = word_at(thread, layout_value(LAYOUT_THREAD_NATIVE));
	if (!safe_read_words(native, &word, 1) || pthread_getcpuclockid((pthread_t)native, &clock) != 0)
		return 0;
	return ~((uint32_t)clock >> THREAD_CLOCK_BITS) & UINT32_MAX >> THREAD_CLOCK_BITS;
}
