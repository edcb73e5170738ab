/*
 * Samples from outside. See sampler.h. Context: a thread of its own, as the kernel lets only who traces a thread let go of it.
 * Between two samples nothing is traced. Should rbprobe be killed in between, the kernel lets go.
 */

#define _GNU_SOURCE
#include "tracer/native/sampler.h"

#include "proto/sampling_budget.h"
#include "tracer/base/buffer.h"
#include "tracer/base/proc_file.h"
#include "tracer/inject/thread_wait.h"
#include "tracer/process/tasks.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define STOP_NS (2 * NS_PER_S) /* on a busy machine it needs a processor for that; in a system call of some kinds it may never */
#define STACK_MAX (256u << 10)
#define BYTES_MAX (256u << 20) /* of samples that nobody has taken yet */
#define WOKEN_NS NS_PER_MS     /* what a thread may use that a stop has woken, and which waits on */

struct place {
	struct sampled_thread thread;
	pid_t tid;
	uint64_t cpu_ns, wanted_ns, last_ns;
	struct thread_wait wait; /* what it was in at its last sample */
	bool waits;
	uint64_t stack;  /* of its VM stack, where it is known */
	uint32_t sample; /* its last one, from 1; 0: it was taken */
};

struct sampler {
	struct target target;
	uint64_t began_ns, end_ns;
	uint64_t first_cpu_ns;         /* of the process, at the beginning */
	struct sampling_budget budget; /* of the time for which threads are stopped */
	pthread_t thread;
	pthread_mutex_t lock; /* of all that follows */
	bool stopping;
	bool hangs; /* a thread did not stop, and would when nobody waits for it: only our thread's end lets go of it */
	struct place *places;
	uint32_t place_count;
	struct native_sample *samples;
	uint32_t sample_count, sample_room;
	size_t bytes;
	struct sampler_counts counts;
	struct control_copy copy;
};

/* For how long it has used a processor, or wanted to. */
static bool cpu_read(pid_t pid, pid_t tid, uint64_t *ns, uint64_t *wanted_ns)
{
	char name[48], text[128];

	snprintf(name, sizeof(name), "task/%d/schedstat", (int)tid);
	return proc_file_read(pid, name, text, sizeof(text)) > 0 && sscanf(text, "%" SCNu64 " %" SCNu64, ns, wanted_ns) == 2;
}

/* For how long all its threads have used a processor, those that are gone too. 0: not known. */
static uint64_t process_cpu_ns(pid_t pid)
{
	struct timespec used;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) < 0)
		return 0;
	return (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec;
}

/* Which native threads these are, as we see them. */
static void tids_find(struct sampler *sampler)
{
	struct tasks tasks;

	tasks_read(&tasks, sampler->target.pid);
	for (uint32_t i = 0; i < sampler->place_count; i++) {
		const struct task *task = tasks_find(&tasks, (pid_t)sampler->places[i].thread.native_id);

		sampler->places[i].tid = task && sampler->places[i].thread.native_id ? task->tid : 0;
	}
	tasks_free(&tasks);
}

static bool waits_on(struct sampler *sampler, struct place *place, uint64_t used_ns)
{
	struct thread_wait now;
	bool waits = thread_wait_read(&now, sampler->target.pid, place->tid) == 1;
	bool same = waits && place->waits && now.number == place->wait.number && now.sp == place->wait.sp &&
	            now.pc == place->wait.pc && used_ns < WOKEN_NS;

	place->waits = waits;
	place->wait = now;
	return same && place->sample;
}

static void copy_control(void *argument)
{
	control_copy(argument);
}

static struct native_sample *sample_add(struct sampler *sampler)
{
	if (sampler->sample_count == sampler->sample_room) {
		sampler->sample_room = sampler->sample_room ? 2 * sampler->sample_room : 256;
		sampler->samples = memory_resize(sampler->samples, sampler->sample_room * sizeof(*sampler->samples));
	}
	sampler->samples[sampler->sample_count] = (struct native_sample){0};
	return &sampler->samples[sampler->sample_count++];
}

static void note_pause(struct sampler_counts *counts, uint64_t ns)
{
	counts->pauses[counts->stops++ % SAMPLER_PAUSES_MAX] = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
	counts->stopped_ns += ns;
	if (ns > counts->longest_ns)
		counts->longest_ns = ns;
}

/*
 * False: it has no sample. A thread without a VM stack has none: it has ended, and its native thread waits for the next one, or
 * is another's by now.
 */
static bool stop(struct sampler *sampler, struct place *place)
{
	const struct snapshot_beside beside = {.stack_end = place->stack, .copy = copy_control, .argument = &sampler->copy};
	struct native_sample *sample;
	struct snapshot snapshot;
	int status;

	place->sample = 0; /* what comes now does not belong to the one before */
	if (sampler->bytes > BYTES_MAX) {
		sampler->counts.no_room++;
		return false;
	}
	sampler->copy.context_at = place->thread.context_at;
	sampler->copy.count = sampler->copy.environment_count = 0;
	sampler->copy.stack = 0;
	status = snapshot_take_beside(&snapshot, sampler->target.pid, place->tid, STACK_MAX, clock_now_ns() + STOP_NS, &beside);
	if (status < 0) {
		sampler->counts.not_stopped++;
		sampler->hangs = status == -ETIMEDOUT;
		if (status == -EPERM && !sampler->counts.stops)
			sampler->counts.refused = status;
		return false;
	}
	if (snapshot.stopped_ns)
		note_pause(&sampler->counts, snapshot.stopped_ns);
	place->stack = sampler->copy.stack;
	if (!place->stack) {
		snapshot_free(&snapshot);
		return false;
	}
	sample = sample_add(sampler);
	sample->thread = place->thread.id;
	sample->snapshot = snapshot;
	control_understand(&sampler->copy, &sample->control);
	sampler->bytes += snapshot.stack_size + sizeof(*sample) + sample->control.count * sizeof(struct control_frame);
	place->sample = sampler->sample_count;
	return true;
}

static void look_at(struct sampler *sampler, struct place *place, uint64_t now_ns, uint64_t ticks)
{
	uint64_t cpu_ns, wanted_ns, used_ns, busy_ns, wall_ns;
	struct native_sample *sample;
	bool first = !place->last_ns;

	if (!place->tid || !cpu_read(sampler->target.pid, place->tid, &cpu_ns, &wanted_ns))
		return;
	used_ns = first || cpu_ns < place->cpu_ns ? 0 : cpu_ns - place->cpu_ns;
	busy_ns = first || wanted_ns < place->wanted_ns ? used_ns : used_ns + wanted_ns - place->wanted_ns;
	wall_ns = first ? sampler->counts.period_ns : now_ns - place->last_ns;
	if (!waits_on(sampler, place, used_ns) && !stop(sampler, place))
		return; /* the time until now is the next one's */
	sample = &sampler->samples[place->sample - 1];
	sample->ticks += ticks;
	sample->wall_ns += wall_ns;
	sample->cpu_ns += used_ns;
	sampler->counts.sampled_cpu_ns += used_ns;
	sample->idle_ns += busy_ns < wall_ns ? wall_ns - busy_ns : 0;
	place->cpu_ns = cpu_ns;
	place->wanted_ns = wanted_ns;
	place->last_ns = now_ns;
}

static void tick(struct sampler *sampler, uint64_t now_ns, uint64_t ticks)
{
	struct timespec used;
	uint64_t cpu_ns;

	tids_find(sampler);
	for (uint32_t i = 0; i < sampler->place_count && !sampler->counts.refused && !sampler->hangs; i++)
		look_at(sampler, &sampler->places[i], now_ns, ticks);
	sampler->counts.ticks++;
	cpu_ns = process_cpu_ns(sampler->target.pid);
	if (cpu_ns && sampler->first_cpu_ns)
		sampler->counts.process_cpu_ns = cpu_ns - sampler->first_cpu_ns;
	if (ticks > 1) {
		sampler->counts.late_ticks += ticks - 1;
		sampler->counts.late_ns += (ticks - 1) * sampler->counts.period_ns;
	}
	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) == 0)
		sampler->counts.own_cpu_ns = (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec;
}

/* Time has passed. Where threads are stopped for longer than they may be, there are fewer samples. */
static void keep_to_budget(struct sampler *sampler, uint64_t now_ns)
{
	struct sampler_counts *counts = &sampler->counts;

	counts->milliperiods += (now_ns - sampler->began_ns - counts->elapsed_ns) * 1000 / counts->period_ns;
	counts->elapsed_ns = now_ns - sampler->began_ns;
	if (sampling_budget_is_due(&sampler->budget, counts->period_ns, now_ns))
		counts->period_ns = sampling_budget_period_ns(&sampler->budget, counts->period_ns, now_ns, counts->stopped_ns);
}

static void *sample(void *argument);

/* Another thread of ours goes on, and this one ends. */
static void renew(struct sampler *sampler)
{
	pthread_t own = sampler->thread;

	sampler->hangs = false;
	if (pthread_create(&sampler->thread, NULL, sample, sampler) == 0)
		pthread_detach(own);
}

/* While a thread stands still nobody should take our processor away. Where that is not allowed it may happen. */
static void be_prompt(void)
{
	const struct sched_param lowest = {.sched_priority = 1};

	prctl(PR_SET_TIMERSLACK, 1);
	pthread_setschedparam(pthread_self(), SCHED_RR, &lowest);
}

static void *sample(void *argument)
{
	struct sampler *sampler = argument;
	uint64_t due_ns = clock_now_ns();
	bool stopping = false;

	be_prompt();
	while (!stopping) {
		uint64_t now_ns = clock_now_ns(), ticks;
		struct timespec pause;

		if (now_ns < due_ns) {
			pause = (struct timespec){.tv_sec = (time_t)((due_ns - now_ns) / NS_PER_S),
			                          .tv_nsec = (long)((due_ns - now_ns) % NS_PER_S)};
			nanosleep(&pause, NULL);
			now_ns = clock_now_ns();
		}
		ticks = now_ns > due_ns ? (now_ns - due_ns) / sampler->counts.period_ns + 1 : 1;
		pthread_mutex_lock(&sampler->lock);
		stopping = sampler->stopping || sampler->counts.refused || now_ns >= sampler->end_ns;
		if (!stopping)
			tick(sampler, now_ns, ticks);
		due_ns += ticks * sampler->counts.period_ns;
		keep_to_budget(sampler, clock_now_ns());
		stopping = stopping || sampler->hangs;
		if (sampler->hangs)
			renew(sampler);
		pthread_mutex_unlock(&sampler->lock);
	}
	return NULL;
}

struct sampler *sampler_new(const struct target *target, uint64_t period_ns, uint64_t duration_ns, size_t frame_words)
{
	struct sampler *sampler = memory_zeroed(sizeof(*sampler));

	sampler->target = *target;
	sampler->began_ns = clock_now_ns();
	sampler->end_ns = sampler->began_ns + duration_ns;
	sampler->first_cpu_ns = process_cpu_ns(target->pid);
	sampler->counts.period_ns = period_ns;
	sampler->budget = (struct sampling_budget){.least_ns = period_ns,
	                                           .allowed = profile_allowed((double)NS_PER_S / (double)period_ns),
	                                           .since_ns = sampler->began_ns};
	sampler->copy.pid = target->pid;
	sampler->copy.frame_words = frame_words;
	pthread_mutex_init(&sampler->lock, NULL);
	if (pthread_create(&sampler->thread, NULL, sample, sampler) == 0)
		return sampler;
	free(sampler);
	return NULL;
}

void sampler_set_threads(struct sampler *sampler, const struct sampled_thread *threads, uint32_t count)
{
	struct place *places = memory_zeroed((count + 1) * sizeof(*places));

	pthread_mutex_lock(&sampler->lock);
	for (uint32_t i = 0; i < count; i++) {
		for (uint32_t j = 0; j < sampler->place_count; j++)
			if (sampler->places[j].thread.id == threads[i].id)
				places[i] = sampler->places[j];
		places[i].thread = threads[i];
	}
	free(sampler->places);
	sampler->places = places;
	sampler->place_count = count;
	pthread_mutex_unlock(&sampler->lock);
}

uint32_t sampler_take(struct sampler *sampler, struct native_sample **samples, struct sampler_counts *counts)
{
	uint32_t count;

	pthread_mutex_lock(&sampler->lock);
	*samples = sampler->samples;
	count = sampler->sample_count;
	*counts = sampler->counts;
	sampler->samples = NULL;
	sampler->sample_count = sampler->sample_room = 0;
	sampler->bytes = 0;
	for (uint32_t i = 0; i < sampler->place_count; i++)
		sampler->places[i].sample = 0;
	pthread_mutex_unlock(&sampler->lock);
	return count;
}

void sampler_free_samples(struct native_sample *samples, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		snapshot_free(&samples[i].snapshot);
		free(samples[i].control.frames);
	}
	free(samples);
}

void sampler_stop(struct sampler *sampler)
{
	pthread_t thread;

	pthread_mutex_lock(&sampler->lock);
	sampler->stopping = true;
	thread = sampler->thread;
	pthread_mutex_unlock(&sampler->lock);
	pthread_join(thread, NULL);
}

void sampler_free(struct sampler *sampler)
{
	if (!sampler)
		return;
	sampler_free_samples(sampler->samples, sampler->sample_count);
	free(sampler->places);
	pthread_mutex_destroy(&sampler->lock);
	free(sampler);
}

static int compare_pauses(const void *one, const void *other)
{
	uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;

	return (a > b) - (a < b);
}

uint64_t sampler_median_pause_ns(const struct sampler_counts *counts)
{
	uint32_t count = counts->stops < SAMPLER_PAUSES_MAX ? (uint32_t)counts->stops : SAMPLER_PAUSES_MAX;
	uint32_t sorted[SAMPLER_PAUSES_MAX];

	if (!count)
		return 0;
	memcpy(sorted, counts->pauses, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), compare_pauses);
	return sorted[count / 2];
}

uint64_t sampler_unseen_cpu_ns(const struct sampler_counts *counts)
{
	return counts->process_cpu_ns > counts->sampled_cpu_ns ? counts->process_cpu_ns - counts->sampled_cpu_ns : 0;
}

double sampler_rate_hz(const struct sampler_counts *counts)
{
	return sampling_rate_hz(counts->milliperiods, counts->elapsed_ns, counts->period_ns);
}
