/* Lies about samples of stacks, objects, and what threads do. */

#include "tests/security/liar/lie.h"

#include <stdio.h>
#include <stdlib.h>

static const char hostile_name[] = "</script><script>alert(1)</script>\x1b]0;title\a\n\x9b"
				   "2J\xff\xe2\x80\xae\0x";

struct packing {
	msgpack_sbuffer bytes;
	msgpack_packer packer;
};

static void begin(struct packing *packing, uint32_t keys)
{
	msgpack_sbuffer_init(&packing->bytes);
	msgpack_packer_init(&packing->packer, &packing->bytes, msgpack_sbuffer_write);
	msgpack_pack_map(&packing->packer, keys);
}

static void add_text(struct packing *packing, struct slice text)
{
	msgpack_pack_str(&packing->packer, text.size);
	msgpack_pack_str_body(&packing->packer, text.bytes, text.size);
}

static void add_array(struct packing *packing, const char *key, uint32_t count)
{
	add_text(packing, text(key));
	msgpack_pack_array(&packing->packer, count);
}

static void add_number(struct packing *packing, uint64_t number)
{
	msgpack_pack_uint64(&packing->packer, number);
}

static bool tell(struct lie *lie, struct packing *packing)
{
	lie_add_data(lie, &packing->bytes);
	msgpack_sbuffer_destroy(&packing->bytes);
	return lie_flush(lie);
}

static void add_named_thread(struct packing *packing, uint32_t number, struct slice name)
{
	msgpack_pack_map(&packing->packer, 4);
	add_text(packing, text("thread"));
	add_number(packing, number);
	add_text(packing, text("id"));
	add_number(packing, UINT64_MAX - number);
	add_text(packing, text("native_id"));
	add_number(packing, UINT64_MAX);
	add_text(packing, text("name"));
	add_text(packing, name);
}

static bool tell_functions(struct lie *lie, uint32_t from, uint32_t count)
{
	struct packing packing;
	char name[32];

	begin(&packing, 1);
	add_array(&packing, "functions", 3 * count);
	for (uint32_t i = from; i < from + count; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		add_text(&packing, text(name));
		add_text(&packing, text("f.rb"));
		add_number(&packing, i);
	}
	return tell(lie, &packing);
}

#define CALLED 250000u
#define AT_A_TIME 25000u

/* All of them are called by one. */
static void tell_wide_stacks(struct lie *lie)
{
	struct packing packing;

	for (uint32_t from = 0; from < CALLED; from += AT_A_TIME) {
		tell_functions(lie, from, AT_A_TIME);
		begin(&packing, 1);
		add_array(&packing, "stacks", 3 * AT_A_TIME);
		for (uint32_t i = from; i < from + AT_A_TIME; i++) {
			add_number(&packing, 0);
			add_number(&packing, i + 1);
			add_number(&packing, i);
		}
		if (!tell(lie, &packing))
			return;
	}
}

void wide_profile(struct lie *lie)
{
	struct packing packing;

	tell_wide_stacks(lie);
	begin(&packing, 2);
	add_array(&packing, "threads", 1);
	add_named_thread(&packing, 1, text("a thread"));
	add_array(&packing, "sums", 5 * AT_A_TIME);
	for (uint32_t i = 1; i <= AT_A_TIME; i++) {
		add_number(&packing, 1);
		add_number(&packing, i);
		for (int k = 0; k < 3; k++)
			add_number(&packing, i);
	}
	tell(lie, &packing);
	lie_add_done(lie);
	lie_flush(lie);
}

/* Each thread was everywhere. */
void sums_for_ever(struct lie *lie)
{
	struct packing packing;

	tell_functions(lie, 0, AT_A_TIME);
	begin(&packing, 1);
	add_array(&packing, "stacks", 3 * AT_A_TIME);
	for (uint32_t i = 0; i < AT_A_TIME; i++) {
		add_number(&packing, 0);
		add_number(&packing, i + 1);
		add_number(&packing, i);
	}
	tell(lie, &packing);
	for (uint32_t thread = 1;; thread++) {
		begin(&packing, 2);
		add_array(&packing, "threads", 1);
		add_named_thread(&packing, thread, text(hostile_name));
		add_array(&packing, "sums", 5 * AT_A_TIME);
		for (uint32_t i = 1; i <= AT_A_TIME; i++) {
			add_number(&packing, thread);
			add_number(&packing, i);
			for (int k = 0; k < 3; k++)
				add_number(&packing, 1);
		}
		if (!tell(lie, &packing))
			return;
	}
}

/* One thread, which has another name each time. */
void names_for_ever(struct lie *lie)
{
	static char name[500000];
	struct packing packing;

	memset(name, 'n', sizeof(name));
	for (uint32_t i = 0;; i++) {
		memcpy(name, &i, sizeof(i));
		begin(&packing, 1);
		add_array(&packing, "threads", 1);
		add_named_thread(&packing, 1, (struct slice){name, sizeof(name)});
		if (!tell(lie, &packing))
			return;
	}
}

/* Who waited for whom: everyone for everyone. */
void pairs_for_ever(struct lie *lie)
{
	struct packing packing;

	for (uint32_t k = 0;; k++) {
		begin(&packing, 2);
		add_array(&packing, "threads", k ? 0 : 300);
		for (uint32_t i = 1; i <= 300 && !k; i++)
			add_named_thread(&packing, i, text("a thread"));
		add_array(&packing, "gvl_pairs", 3 * 90000);
		for (uint32_t i = 0; i < 90000; i++) {
			msgpack_pack_uint32(&packing.packer, i / 300 + 1);
			msgpack_pack_uint32(&packing.packer, i % 300 + 1);
			msgpack_pack_uint8(&packing.packer, 1);
		}
		if (!tell(lie, &packing))
			return;
	}
}

static void add_impossible_summary(struct packing *packing)
{
	static const char *const numbers[] = {
		"elapsed_ns", "samples",   "cpu_samples", "late_ticks", "late_ns", "no_room_ticks", "threads_left_out",
		"cut",        "woken",     "own_cpu_ns",  "made",       "every",   "noted",         "lost",
		"off_ns",     "unwatched", "unwatched_ns"};
	static const char *const doubles[] = {"rate_hz", "event_ns"};

	add_text(packing, text("summary"));
	msgpack_pack_map(&packing->packer, 19);
	for (size_t i = 0; i < 17; i++) {
		add_text(packing, text(numbers[i]));
		add_number(packing, UINT64_MAX - i);
	}
	for (size_t i = 0; i < 2; i++) {
		add_text(packing, text(doubles[i]));
		msgpack_pack_double(&packing->packer, i ? -1e308 : (double)__builtin_inff());
	}
}

/* Numbers whose sums overflow, and names that a terminal or a browser takes for more than a name. */
void impossible_profile(struct lie *lie)
{
	static const char *const tables[] = {"sums", "objects", "gvl"};
	const struct slice name = {hostile_name, sizeof(hostile_name)};
	struct packing packing;

	begin(&packing, 10);
	add_array(&packing, "threads", 2);
	add_named_thread(&packing, 1, name);
	add_named_thread(&packing, 7, name);
	add_array(&packing, "functions", 6);
	for (int i = 0; i < 2; i++) {
		add_text(&packing, name);
		add_text(&packing, name);
		msgpack_pack_int64(&packing.packer, i ? INT64_MIN : INT64_MAX);
	}
	add_array(&packing, "stacks", 6);
	for (uint64_t i = 0; i < 2; i++) {
		add_number(&packing, i);
		add_number(&packing, i + 1);
		add_number(&packing, UINT64_MAX);
	}
	for (size_t table = 0; table < 3; table++) {
		add_array(&packing, tables[table], 20);
		for (uint64_t i = 0; i < 4; i++) {
			add_number(&packing, 1 + 6 * (i / 2));
			add_number(&packing, i % 3);
			for (uint64_t k = 0; k < 3; k++)
				add_number(&packing, UINT64_MAX - k * i);
		}
	}
	add_array(&packing, "idle", 3);
	add_number(&packing, 1);
	add_number(&packing, 1);
	add_number(&packing, UINT64_MAX);
	add_array(&packing, "gvl_pairs", 6);
	for (uint64_t i = 0; i < 2; i++) {
		add_number(&packing, 1);
		add_number(&packing, i ? UINT64_MAX : 7);
		add_number(&packing, UINT64_MAX);
	}
	add_array(&packing, "clocks", 2);
	add_number(&packing, 1);
	add_number(&packing, UINT64_MAX);
	add_impossible_summary(&packing);
	tell(lie, &packing);
	lie_add_done(lie);
	lie_flush(lie);
}

/* --- What threads do */

static bool tell_states(struct lie *lie, uint64_t lost, const struct thread_state *states, uint32_t count)
{
	struct record record = {.kind = RECORD_STATES, .states = {lost, count, states}};

	record_encode(&lie->records, &record);
	return lie_flush(lie);
}

static void add_hostile_fiber(struct lie *lie, uint32_t ref, uint32_t native_id)
{
	struct record record = {.kind = RECORD_FIBER};

	record.fiber = (struct record_fiber){.ref = ref,
	                                     .thread_id = UINT64_MAX,
	                                     .native_id = native_id,
	                                     .thread_name = {hostile_name, sizeof(hostile_name)},
	                                     .root = true,
	                                     .created_at = text("")};
	record_encode(&lie->records, &record);
}

static void add_hostile_call(struct lie *lie)
{
	static const struct slice name = {hostile_name, sizeof(hostile_name)};
	struct record record = {.kind = RECORD_METHOD};
	struct batch_event event = {.kind = EVENT_CALL, .method = 1, .fiber = 1, .time_ns = 1000, .duration_ns = UINT64_MAX};
	struct batch batch;

	record.method = (struct record_method){.ref = 1,
	                                       .class_name = name,
	                                       .separator = '#',
	                                       .method_name = name,
	                                       .file = name,
	                                       .line = INT32_MIN,
	                                       .engine = ENGINE_TARGET};
	record_encode(&lie->records, &record);
	batch_begin(&batch, &lie->records, UINT64_MAX / 2);
	batch_add(&batch, &event);
	event.duration_ns = 1;
	batch_add(&batch, &event);
	batch_end(&batch);
}

/* Times that go back, or are as far apart as can be; threads that end twice, and go on. */
void impossible_states(struct lie *lie)
{
	static const uint64_t times[] = {0, 1, UINT64_MAX, UINT64_MAX / 2, 1000, UINT64_MAX - 1, 5};
	static const uint64_t threads[] = {0, UINT64_C(1) << 63, UINT64_MAX};
	struct thread_state states[STATES_MAX];
	uint32_t count = 0;

	add_hostile_fiber(lie, 1, UINT32_MAX);
	for (uint32_t i = 0; i < STATES_MAX; i++)
		states[count++] = (struct thread_state){.thread = threads[lie_random(lie) % 3],
		                                        .time_ns = times[lie_random(lie) % 7],
		                                        .native_id = lie_random(lie) % 3 ? UINT32_MAX : 0,
		                                        .event = (enum state_event)(lie_random(lie) % STATE_EVENTS)};
	tell_states(lie, 0, states, count);
	add_hostile_call(lie);
	tell_states(lie, UINT64_MAX, states, count);
	tell_states(lie, UINT64_MAX, states, 0);
	lie_end(lie);
}

/* Threads that come and go, each with a stretch of time. */
void states_for_ever(struct lie *lie)
{
	struct thread_state states[STATES_MAX];
	uint64_t number = 1;

	do {
		for (uint32_t i = 0; i < STATES_MAX; i += 2, number++) {
			states[i] = (struct thread_state){number, number, (uint32_t)number, STATE_RUNS};
			states[i + 1] = (struct thread_state){number, number + 1, 0, number % 2 ? STATE_ENDED : STATE_BLOCKED};
		}
	} while (tell_states(lie, 0, states, STATES_MAX));
}
