/* What observing takes. See overhead.h. Context: job; any thread for overhead_is_due(), which reads what others write. */

#define _GNU_SOURCE
#include "tracee/observe/overhead.h"

#include "proto/clock.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/foreign_hooks.h"
#include "tracee/vm/scratch.h"

#include <ruby.h>
#include <ruby/debug.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <time.h>

#define LOOK_NS (250 * NS_PER_MS)
#define TRIAL_CALLS 500
#define TRIALS 3
#define NOBODY 101u
#define SAMPLE_MAX_NS 10000
#define LONG_NS NS_PER_MS
#define LONG_MAKINGS 1000u         /* after one that took long */
#define ENOUGH_NS (20 * NS_PER_MS) /* of CPU time, for a share to mean something */

struct overhead overhead = {.long_ticks = UINT64_MAX};

static struct {
	uint64_t event_ps; /* what the VM takes for one event, in picoseconds; 0: not measured */
	uint64_t tick_ps;
	_Atomic unsigned minimum; /* percent */
	/* Of the thread that looks: there may be several writers. */
	atomic_flag looking;
	uint64_t looked_ns, cpu_ns;
	struct overhead before;
	/* What the job takes. */
	_Atomic bool due;
	struct overhead_look look;
} account = {.minimum = NOBODY, .looking = ATOMIC_FLAG_INIT};

/* --- What an event costs */

struct trial {
	const struct scratch *scratch;
	uint64_t least_ns;
};

static VALUE run_trial(VALUE argument)
{
	struct trial *trial = (struct trial *)argument;

	for (unsigned i = 0; i < TRIALS; i++) {
		uint64_t began_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID), took_ns;

		scratch_call(trial->scratch, "trial", 0, NULL);
		took_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns;
		trial->least_ns = took_ns < trial->least_ns ? took_ns : trial->least_ns;
	}
	return Qnil;
}

static void on_event(VALUE tracepoint, void *nothing)
{
	(void)tracepoint;
	(void)nothing;
}

static uint64_t trial_ns(const struct scratch *scratch, VALUE observed)
{
	struct trial trial = {.scratch = scratch, .least_ns = UINT64_MAX};
	struct scratch_watch watch = {.events = RUBY_EVENT_CALL | RUBY_EVENT_RETURN,
	                              .event = on_event,
	                              .targets = {observed},
	                              .run = run_trial,
	                              .argument = (VALUE)&trial};

	if (observed)
		scratch_watch(&watch);
	else
		run_trial((VALUE)&trial);
	return trial.least_ns;
}

static VALUE calibrate(VALUE unused)
{
	struct scratch scratch;
	uint64_t plain_ns, watched_ns;

	if (account.event_ps || foreign_hooks_on(RUBY_EVENT_CALL | RUBY_EVENT_RETURN))
		return unused;
	scratch_make(&scratch);
	scratch_define_block(&scratch, "trial", builtin_lambda("-> { i = 0; while i < 500; observed; i += 1; end }"));
	scratch_run(&scratch, "-> { def observed; end }");
	plain_ns = trial_ns(&scratch, 0);
	watched_ns = trial_ns(&scratch, scratch_method(&scratch, "observed"));
	account.tick_ps = ticks_rate() * 1000 >> 32;
	overhead.sample_max = SAMPLE_MAX_NS * 1000 / account.tick_ps;
	overhead.long_ticks = LONG_NS * 1000 / account.tick_ps;
	account.event_ps = watched_ns > plain_ns ? (watched_ns - plain_ns) * 1000 / (TRIAL_CALLS * 2) : 1;
	return unused;
}

/* A process that is just starting may not have all that the trial needs: then the next trace measures. */
void overhead_calibrate(void)
{
	int failed = 0;

	rb_protect(calibrate, Qnil, &failed);
	if (failed)
		exception_drop(Qnil);
}

void overhead_fork_child(void)
{
	atomic_flag_clear(&account.looking);
	atomic_store(&account.minimum, NOBODY);
	atomic_store(&account.due, false);
}

/* --- Values that took long */

static uint64_t cpu_of(const struct rusage *usage)
{
	return (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * NS_PER_S +
	       (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * 1000;
}

void overhead_making_ask(struct overhead_making *making)
{
	struct rusage usage;

	overhead.long_makings--;
	making->asked = getrusage(RUSAGE_THREAD, &usage) == 0;
	making->cpu_ns = cpu_of(&usage);
	making->interruptions = usage.ru_nivcsw;
}

/* What waits keeps the application as well as what computes. */
uint64_t overhead_making_long(const struct overhead_making *making, uint64_t took)
{
	struct rusage usage;
	uint64_t computed;

	overhead.long_makings = LONG_MAKINGS;
	if (!making->asked || getrusage(RUSAGE_THREAD, &usage) != 0)
		return overhead.long_ticks;
	if (usage.ru_nivcsw == making->interruptions)
		return took;
	computed = (cpu_of(&usage) - making->cpu_ns) * 1000 / account.tick_ps;
	return computed < took ? computed : took;
}

/* --- The account */

static uint64_t process_cpu_ns(void)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

void overhead_watch(unsigned minimum_percent)
{
	atomic_store(&account.due, false);
	atomic_store(&account.minimum, minimum_percent);
	/* A writer that looks meanwhile has the same result. */
	if (atomic_flag_test_and_set(&account.looking))
		return;
	account.looked_ns = clock_now_ns();
	account.cpu_ns = process_cpu_ns();
	account.before = overhead;
	atomic_flag_clear(&account.looking);
}

static void look(uint64_t now_ns)
{
	struct overhead now = overhead;
	uint64_t cpu_ns = process_cpu_ns(), computed_ns = cpu_ns - account.cpu_ns;
	uint64_t values_ticks = now.values_ticks + now.values_rest - account.before.values_ticks - account.before.values_rest;
	uint64_t ticks = now.own_ticks - account.before.own_ticks + values_ticks;
	double taken_ns = ((double)(now.events - account.before.events) * (double)account.event_ps +
	                   (double)ticks * (double)account.tick_ps) /
	                  1e3;
	double share = computed_ns ? taken_ns / (double)computed_ns : 0;

	/* Of a process that does next to nothing, one interruption would be all: the time goes on until there is more to see. */
	if (computed_ns < ENOUGH_NS && taken_ns < (double)ENOUGH_NS) {
		account.looked_ns = now_ns;
		return;
	}
	if (share * 100 >= (double)atomic_load(&account.minimum) && !atomic_load(&account.due)) {
		account.look.share = share > 1 ? 1 : share;
		account.look.values =
			taken_ns > 0 ? account.look.share * (double)values_ticks * (double)account.tick_ps / 1e3 / taken_ns : 0;
		atomic_store(&account.due, true);
	}
	account.looked_ns = now_ns;
	account.cpu_ns = cpu_ns;
	account.before = now;
}

bool overhead_is_due(void)
{
	uint64_t now_ns;

	if (atomic_load_explicit(&account.minimum, memory_order_relaxed) == NOBODY)
		return false;
	now_ns = clock_now_ns();
	if (!atomic_flag_test_and_set(&account.looking)) {
		if (now_ns - account.looked_ns >= LOOK_NS)
			look(now_ns);
		atomic_flag_clear(&account.looking);
	}
	return atomic_load_explicit(&account.due, memory_order_acquire);
}

bool overhead_take(struct overhead_look *taken)
{
	if (!atomic_load_explicit(&account.due, memory_order_acquire))
		return false;
	*taken = account.look;
	return true;
}
