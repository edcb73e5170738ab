/* What samples of stacks add up to. See profile.h. Everything in an answer may be anybody's. */

#include "tracer/profile/profile.h"

#include "proto/limits.h"
#include "proto/profile_words.h"
#include "tracer/base/buffer.h"
#include "tracer/base/value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NUMBERS_MAX (1u << 18) /* of one process's functions, stacks */
#define THREADS_MAX (1u << 22) /* that come and go, of all processes */
#define SUM_NUMBERS 5
#define IDLE_NUMBERS 3
#define PAIR_NUMBERS 3
#define PAIRS_MAX 4096u
#define STACK_NUMBERS 3
#define DEPTH_MAX 1024u /* of a process's stacks, which cuts them off before */
#define FUNCTION_VALUES 3
#define TEXTS_MAX (256ull << 20) /* bytes */
#define SUMS_MAX (1u << 22)      /* 350 MiB; each of a stack that a thread was really found in */
#define MEMORY_MAX (1ull << 30)  /* of a file that lies: it may have thousands of processes */

/* Room for one more of the items. */
static void *grown(void *items, uint32_t count, uint32_t *room, size_t size)
{
	if (count < *room)
		return items;
	*room = *room ? 2 * *room : 64;
	return memory_resize(items, *room * size);
}

struct profile *profile_new(void)
{
	struct profile *profile = memory_zeroed(sizeof(*profile));

	profile->nodes = grown(NULL, 0, &profile->node_room, sizeof(*profile->nodes));
	profile->nodes[0] = (struct profile_node){0};
	profile->node_count = 1;
	profile->memory_max = MEMORY_MAX;
	return profile;
}

void profile_free(struct profile *profile)
{
	if (!profile)
		return;
	for (uint32_t i = 0; i < profile->process_count; i++) {
		free(profile->processes[i].functions.items);
		free(profile->processes[i].stacks.items);
		free(profile->processes[i].threads.items);
	}
	words_free(&profile->texts);
	free(profile->functions);
	free(profile->function_slots);
	free(profile->nodes);
	free(profile->node_slots);
	free(profile->threads);
	free(profile->sums);
	free(profile->slots);
	free(profile->pairs);
	words_free(&profile->thread_keys);
	number_index_free(&profile->pair_index);
	number_index_free(&profile->process_index);
	free(profile->processes);
	free(profile);
}

static uint64_t process_number(pid_t pid, uint32_t session)
{
	return (uint64_t)session << 32 | (uint32_t)pid;
}

struct profile_process *profile_process(struct profile *profile, pid_t pid, uint32_t session)
{
	uint64_t number = process_number(pid, session);
	uint32_t place = number_index_get(&profile->process_index, number);

	if (place != NUMBER_INDEX_NONE)
		return &profile->processes[place];
	place = profile->process_count;
	if (place == profile->process_room) {
		profile->process_room = place ? 2 * place : 4;
		profile->processes = memory_resize(profile->processes, profile->process_room * sizeof(*profile->processes));
	}
	profile->processes[place] = (struct profile_process){.pid = pid, .session = session};
	profile->process_count++;
	number_index_put(&profile->process_index, number, place);
	return &profile->processes[place];
}

bool profile_has(const struct profile *profile, pid_t pid)
{
	return number_index_get(&profile->process_index, process_number(pid, 0)) != NUMBER_INDEX_NONE;
}

struct slice profile_label(const struct profile *profile, uint32_t function)
{
	return profile->texts.texts[profile->functions[function].label];
}

struct slice profile_path(const struct profile *profile, uint32_t function)
{
	return profile->texts.texts[profile->functions[function].path];
}

/* --- Numbers of the process */

static void number_add(struct profile *profile, struct profile_numbers *numbers, uint32_t ours)
{
	profile->number_count++;
	numbers->items = grown(numbers->items, numbers->count, &numbers->room, sizeof(*numbers->items));
	numbers->items[numbers->count++] = ours;
}

/* False: it has no such number. */
static bool number_find(const struct profile_numbers *numbers, const msgpack_object *value, uint32_t *ours)
{
	uint64_t number = value_uint(value);

	if (number == 0 || number > numbers->count)
		return false;
	*ours = numbers->items[number - 1];
	return true;
}

/* --- Frames */

static uint32_t *function_slot(const struct profile *profile, const struct profile_function *function)
{
	uint64_t at = ((uint64_t)function->label << 32 | function->path) * UINT64_C(0x9e3779b97f4a7c15);

	at = (at ^ (uint32_t)function->line) * UINT64_C(0xbf58476d1ce4e5b9) >> 32;
	for (;; at++) {
		uint32_t *slot = &profile->function_slots[at & (profile->function_slot_count - 1)];
		const struct profile_function *there = *slot ? &profile->functions[*slot - 1] : NULL;

		if (!there || (there->label == function->label && there->path == function->path && there->line == function->line))
			return slot;
	}
}

static void grow_functions(struct profile *profile)
{
	profile->functions =
		grown(profile->functions, profile->function_count, &profile->function_room, sizeof(*profile->functions));
	if (profile->function_slot_count >= 2 * profile->function_room)
		return;
	free(profile->function_slots);
	profile->function_slot_count = 2 * profile->function_room;
	profile->function_slots = memory_zeroed(profile->function_slot_count * sizeof(*profile->function_slots));
	for (uint32_t i = 0; i < profile->function_count; i++)
		*function_slot(profile, &profile->functions[i]) = i + 1;
}

uint32_t profile_function_number(struct profile *profile, struct slice label, struct slice path, int32_t line)
{
	struct profile_function function = {words_number(&profile->texts, label), words_number(&profile->texts, path), line};
	uint32_t *slot;

	grow_functions(profile);
	slot = function_slot(profile, &function);
	if (!*slot) {
		profile->functions[profile->function_count] = function;
		*slot = ++profile->function_count;
	}
	return *slot - 1;
}

static uint32_t *node_slot(const struct profile *profile, const struct profile_node *node)
{
	uint64_t at = ((uint64_t)node->parent << 32 | node->function) * UINT64_C(0x9e3779b97f4a7c15);

	at = (at ^ at >> 32 ^ (uint32_t)node->line) * UINT64_C(0xbf58476d1ce4e5b9) >> 32;
	for (;; at++) {
		uint32_t *slot = &profile->node_slots[at & (profile->node_slot_count - 1)];
		const struct profile_node *there = &profile->nodes[*slot];

		if (!*slot || (there->parent == node->parent && there->function == node->function && there->line == node->line))
			return slot;
	}
}

static void grow_nodes(struct profile *profile)
{
	profile->nodes = grown(profile->nodes, profile->node_count, &profile->node_room, sizeof(*profile->nodes));
	if (profile->node_slot_count >= 2 * profile->node_room)
		return;
	free(profile->node_slots);
	profile->node_slot_count = 2 * profile->node_room;
	profile->node_slots = memory_zeroed(profile->node_slot_count * sizeof(*profile->node_slots));
	for (uint32_t i = 1; i < profile->node_count; i++)
		*node_slot(profile, &profile->nodes[i]) = i;
}

uint32_t profile_node_number(struct profile *profile, uint32_t parent, uint32_t function, int32_t line, uint32_t max)
{
	struct profile_node node = {
		.parent = parent, .function = function, .line = line, .depth = profile->nodes[parent].depth + 1};
	uint32_t *slot;

	grow_nodes(profile);
	slot = node_slot(profile, &node);
	if (!*slot && profile->node_count < max) {
		profile->nodes[profile->node_count] = node;
		*slot = profile->node_count++;
	}
	return *slot;
}

/* --- Sums */

static uint32_t *slot_of(const struct profile *profile, uint32_t thread, uint32_t node)
{
	uint64_t at = ((uint64_t)node * UINT64_C(0x9e3779b97f4a7c15) + thread) * UINT64_C(0xbf58476d1ce4e5b9) >> 32;

	for (;; at++) {
		uint32_t *slot = &profile->slots[at & (profile->slot_count - 1)];

		if (!*slot || (profile->sums[*slot - 1].thread == thread && profile->sums[*slot - 1].node == node))
			return slot;
	}
}

static void grow_sums(struct profile *profile)
{
	profile->sums = grown(profile->sums, profile->sum_count, &profile->sum_room, sizeof(*profile->sums));
	if (profile->slot_count >= 2 * profile->sum_room)
		return;
	free(profile->slots);
	profile->slot_count = 2 * profile->sum_room;
	profile->slots = memory_zeroed(profile->slot_count * sizeof(*profile->slots));
	for (uint32_t i = 0; i < profile->sum_count; i++)
		*slot_of(profile, profile->sums[i].thread, profile->sums[i].node) = i + 1;
}

struct profile_sum *profile_sum_add(struct profile *profile, uint32_t thread, uint32_t node)
{
	uint32_t *slot;

	grow_sums(profile);
	slot = slot_of(profile, thread, node);
	if (!*slot) {
		profile->sums[profile->sum_count] = (struct profile_sum){.thread = thread, .node = node};
		*slot = ++profile->sum_count;
	}
	return &profile->sums[*slot - 1];
}

/* --- Threads of who has no numbers of the process's */

uint32_t profile_thread_number(struct profile *profile, const struct profile_thread *thread, uint32_t max)
{
	const uint64_t key[] = {thread->process, thread->id};
	const struct slice text = {(const char *)key, sizeof(key)};
	uint32_t number =
		profile->thread_count < max ? words_number(&profile->thread_keys, text) : words_find(&profile->thread_keys, text);
	struct profile_thread *made;

	if (number == NO_WORD)
		return max - 1;
	if (number < profile->thread_count)
		return number;
	profile->threads = grown(profile->threads, profile->thread_count, &profile->thread_room, sizeof(*profile->threads));
	made = &profile->threads[profile->thread_count];
	*made = *thread;
	made->name = (struct slice){"", 0};
	if (thread->name.size)
		made->name = profile->texts.texts[words_number(&profile->texts, thread->name)];
	return profile->thread_count++;
}

/* --- An answer */

static int malformed(const struct profile_process *process, struct error *err)
{
	return error_set(err, -EPROTO, "process %d sends a profile that is none", (int)process->pid);
}

static bool add_threads(struct profile *profile, struct profile_process *process, const msgpack_object *threads)
{
	for (uint32_t i = 0; i < value_count(threads); i++) {
		const msgpack_object *map = value_at(threads, i);
		uint64_t number = value_uint(value_get(map, "thread"));
		struct profile_thread *thread;

		if (number == 0 || number > THREADS_MAX)
			return false;
		/* Some are none of the application's, and are not sent. */
		while (process->threads.count < number) {
			if (profile->thread_count == THREADS_MAX)
				return false;
			number_add(profile, &process->threads, profile->thread_count);
			profile->threads =
				grown(profile->threads, profile->thread_count, &profile->thread_room, sizeof(*profile->threads));
			profile->threads[profile->thread_count++] =
				(struct profile_thread){.process = (uint32_t)(process - profile->processes), .name = {"", 0}};
		}
		thread = &profile->threads[process->threads.items[number - 1]];
		thread->id = value_uint(value_get(map, "id"));
		thread->native_id = (uint32_t)value_uint(value_get(map, "native_id"));
		thread->main = value_bool(value_get(map, "main"));
		thread->name = (struct slice){"", 0};
		if (value_text(value_get(map, "name")).size) {
			uint32_t word = words_number(&profile->texts, value_text(value_get(map, "name")));

			thread->name = profile->texts.texts[word];
		}
	}
	return true;
}

static bool add_functions(struct profile *profile, struct profile_process *process, const msgpack_object *functions)
{
	uint32_t count = value_count(functions);

	if (count % FUNCTION_VALUES || count / FUNCTION_VALUES > NUMBERS_MAX - process->functions.count ||
	    profile->texts.memory > TEXTS_MAX)
		return false;
	for (uint32_t i = 0; i < count; i += FUNCTION_VALUES)
		number_add(profile, &process->functions,
		           profile_function_number(profile, value_text(value_at(functions, i)),
		                                   value_text(value_at(functions, i + 1)),
		                                   value_line(value_at(functions, i + 2))));
	return true;
}

static bool add_stacks(struct profile *profile, struct profile_process *process, const msgpack_object *stacks)
{
	uint32_t count = value_count(stacks);

	if (count % STACK_NUMBERS || count / STACK_NUMBERS > NUMBERS_MAX - process->stacks.count)
		return false;
	for (uint32_t i = 0; i < count; i += STACK_NUMBERS) {
		uint32_t parent = 0, function;

		if (value_uint(value_at(stacks, i)) && !number_find(&process->stacks, value_at(stacks, i), &parent))
			return false;
		if (!number_find(&process->functions, value_at(stacks, i + 1), &function) ||
		    profile->nodes[parent].depth == DEPTH_MAX)
			return false;
		number_add(profile, &process->stacks,
		           profile_node_number(profile, parent, function, value_line(value_at(stacks, i + 2)), UINT32_MAX));
	}
	return true;
}

/* A stack without frames has one here, so that its time is in every table and format. */
static bool stack_find(struct profile *profile, const struct profile_process *process, const msgpack_object *number,
                       uint32_t *node)
{
	const struct slice label = {PROFILE_NO_FRAMES, strlen(PROFILE_NO_FRAMES)},
			   path = {PROFILE_PATH_STATE, strlen(PROFILE_PATH_STATE)};

	if (value_uint(number))
		return number_find(&process->stacks, number, node);
	*node = profile_node_number(profile, 0, profile_function_number(profile, label, path, 0), 0, UINT32_MAX);
	return true;
}

/* One of either sort: of time, or of objects. */
static bool add_sums(struct profile *profile, struct profile_process *process, const msgpack_object *sums,
                     enum profile_weight first, enum profile_weight second)
{
	if (value_count(sums) % SUM_NUMBERS || profile->sum_count > SUMS_MAX)
		return false;
	for (uint32_t i = 0; i < value_count(sums); i += SUM_NUMBERS) {
		uint32_t thread, node = 0;
		struct profile_sum *sum;

		if (!number_find(&process->threads, value_at(sums, i), &thread))
			return false;
		if (!stack_find(profile, process, value_at(sums, i + 1), &node))
			return false;
		sum = profile_sum_add(profile, thread, node);
		sum->ticks += value_uint(value_at(sums, i + 2));
		sum->weights[first] += value_uint(value_at(sums, i + 3));
		sum->weights[second] += value_uint(value_at(sums, i + 4));
	}
	return true;
}

static bool add_idle(struct profile *profile, struct profile_process *process, const msgpack_object *idle)
{
	if (value_count(idle) % IDLE_NUMBERS || profile->sum_count > SUMS_MAX)
		return false;
	for (uint32_t i = 0; i < value_count(idle); i += IDLE_NUMBERS) {
		uint32_t thread, node = 0;
		struct profile_sum *sum;

		if (!number_find(&process->threads, value_at(idle, i), &thread))
			return false;
		if (!stack_find(profile, process, value_at(idle, i + 1), &node))
			return false;
		sum = profile_sum_add(profile, thread, node);
		sum->idle_ns += value_uint(value_at(idle, i + 2));
	}
	return true;
}

static void add_pair(struct profile *profile, uint32_t waiter, uint32_t holder, uint64_t ns)
{
	uint64_t key = (uint64_t)waiter << 32 | holder;
	uint32_t place = number_index_get(&profile->pair_index, key);

	if (place != NUMBER_INDEX_NONE) {
		profile->pairs[place].ns += ns;
		return;
	}
	if (profile->pair_count == PAIRS_MAX)
		return;
	number_index_put(&profile->pair_index, key, profile->pair_count);
	profile->pairs = grown(profile->pairs, profile->pair_count, &profile->pair_room, sizeof(*profile->pairs));
	profile->pairs[profile->pair_count++] = (struct profile_pair){waiter, holder, ns};
}

static bool add_pairs(struct profile *profile, struct profile_process *process, const msgpack_object *pairs)
{
	if (value_count(pairs) % PAIR_NUMBERS)
		return false;
	for (uint32_t i = 0; i < value_count(pairs); i += PAIR_NUMBERS) {
		uint32_t waiter, holder = PROFILE_NOBODY;

		if (!number_find(&process->threads, value_at(pairs, i), &waiter))
			return false;
		if (value_uint(value_at(pairs, i + 1)) && !number_find(&process->threads, value_at(pairs, i + 1), &holder))
			holder = PROFILE_NOBODY; /* one of rbprobe's own */
		add_pair(profile, waiter, holder, value_uint(value_at(pairs, i + 2)));
	}
	return true;
}

static bool add_clocks(struct profile *profile, struct profile_process *process, const msgpack_object *clocks)
{
	for (uint32_t i = 0; i + 1 < value_count(clocks); i += 2) {
		uint32_t thread;

		if (!number_find(&process->threads, value_at(clocks, i), &thread))
			return false;
		profile->threads[thread].has_clock = true;
		profile->threads[thread].clock_ns = value_uint(value_at(clocks, i + 1));
	}
	return true;
}

/* With what finds them. */
static uint64_t memory_of(const struct profile *profile)
{
	return profile->texts.memory + profile->function_count * (sizeof(*profile->functions) + 2 * sizeof(uint32_t)) +
	       profile->node_count * (sizeof(*profile->nodes) + 2 * sizeof(uint32_t)) +
	       profile->thread_count * sizeof(*profile->threads) + profile->number_count * sizeof(uint32_t) +
	       profile->sum_count * (sizeof(*profile->sums) + 2 * sizeof(uint32_t));
}

int profile_add(struct profile *profile, struct profile_process *process, const msgpack_object *map, struct error *err)
{
	const msgpack_object *summary = value_get(map, "summary");

	if (memory_of(profile) > profile->memory_max)
		return error_set(err, -ENOMEM, "the profile of process %d and others takes more than %llu MiB", (int)process->pid,
		                 (unsigned long long)profile->memory_max >> 20);
	if (!add_threads(profile, process, value_get(map, "threads")) ||
	    !add_functions(profile, process, value_get(map, "functions")) ||
	    !add_stacks(profile, process, value_get(map, "stacks")) ||
	    !add_sums(profile, process, value_get(map, "sums"), PROFILE_WALL, PROFILE_CPU) ||
	    !add_sums(profile, process, value_get(map, "objects"), PROFILE_OBJECTS, PROFILE_BYTES) ||
	    !add_sums(profile, process, value_get(map, "gvl"), PROFILE_WAITED, PROFILE_HELD) ||
	    !add_pairs(profile, process, value_get(map, "gvl_pairs")) || !add_idle(profile, process, value_get(map, "idle")) ||
	    !add_clocks(profile, process, value_get(map, "clocks")))
		return malformed(process, err);
	if (value_get(map, "idle"))
		profile->has_idle = true;
	if (value_get(map, "gvl"))
		profile->of_gvl = true;
	if (value_get(map, "objects"))
		profile->of_objects = true;
	if (summary)
		profile_summary_read(&process->summary, summary);
	return 0;
}

void profile_settle(struct profile *profile)
{
	uint64_t *sampled_ns = memory_zeroed((profile->thread_count + 1) * sizeof(*sampled_ns));

	for (uint32_t i = 0; i < profile->sum_count; i++)
		sampled_ns[profile->sums[i].thread] += profile->sums[i].weights[PROFILE_CPU];
	for (uint32_t i = 0; i < profile->sum_count; i++) {
		struct profile_sum *sum = &profile->sums[i];
		const struct profile_thread *thread = &profile->threads[sum->thread];
		uint64_t wall_ns = sum->weights[PROFILE_WALL];

		sum->weights[PROFILE_BUSY] = wall_ns > sum->idle_ns ? wall_ns - sum->idle_ns : 0;
		if (thread->has_clock && sampled_ns[sum->thread])
			sum->weights[PROFILE_CPU] = (uint64_t)((double)sum->weights[PROFILE_CPU] * (double)thread->clock_ns /
			                                       (double)sampled_ns[sum->thread]);
	}
	free(sampled_ns);
}
