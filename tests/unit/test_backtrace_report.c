/* Backtraces, put together: states in words, circles of threads, and what differs from the look before. */

#include "answer_fixture.h"
#include "tracer/backtrace/backtrace_report.h"

#define SECOND_NS 1000000000u

static const struct report_style plain = {.group = false};

struct thread {
	uint64_t id;
	const char *name, *status, *label;
	uint64_t mutex, monitor, owner, joins; /* 0: none */
	bool timed;
	uint64_t waits_for, cpu_ns;
	const char *sql;
};

static void number(const char *key, uint64_t value)
{
	answer_text(key);
	msgpack_pack_uint64(&packer, value);
}

static void text(const char *key, const char *value)
{
	answer_text(key);
	answer_text(value);
}

static void add(struct report *report)
{
	assert_int_equal(msgpack_unpack_next(&unpacked, packed.data, packed.size, NULL), MSGPACK_UNPACK_SUCCESS);
	report_add(report, &unpacked.data);
	msgpack_sbuffer_clear(&packed);
}

static void add_process(struct report *report, uint64_t time_ns)
{
	msgpack_pack_map(&packer, 4);
	text("type", "process");
	text("ruby", "3.1.2");
	number("threads", 2);
	number("time_ns", time_ns);
	add(report);
}

static void add_thread(struct report *report, const struct thread *thread)
{
	msgpack_pack_map(&packer,
	                 6 + (thread->mutex > 0) + (thread->joins > 0) + (thread->waits_for > 0) + (thread->sql != NULL));
	text("type", "thread");
	number("id", thread->id);
	text("name", thread->name);
	text("status", thread->status);
	number("cpu_ns", thread->cpu_ns);
	if (thread->mutex) {
		answer_text("mutex");
		msgpack_pack_map(&packer, 3);
		number("id", thread->mutex);
		number("monitor", thread->monitor);
		number("owner", thread->owner);
	}
	if (thread->joins) {
		answer_text("joins");
		msgpack_pack_map(&packer, 3);
		number("thread", thread->joins);
		text("thread_name", "other");
		answer_text("timed");
		(thread->timed ? msgpack_pack_true : msgpack_pack_false)(&packer);
	}
	if (thread->waits_for)
		number("waits_for", thread->waits_for);
	if (thread->sql)
		text("sql", thread->sql);
	answer_text("frames");
	msgpack_pack_array(&packer, 1);
	msgpack_pack_map(&packer, 1);
	text("label", thread->label);
	add(report);
}

/* PID 0 has no files in /proc. */
static void make(struct report *report, bool json, uint64_t time_ns, const struct thread *threads, size_t count)
{
	report_begin(report, 0, json, &plain);
	add_process(report, time_ns);
	for (size_t i = 0; i < count; i++)
		add_thread(report, &threads[i]);
}

static void shows(const char *expected)
{
	buffer_add_char(&shown, '\0');
	assert_non_null(shown.bytes);
	if (!strstr(shown.bytes, expected))
		assert_string_equal(shown.bytes, expected);
	buffer_free(&shown);
}

static void circle(const struct thread *threads, size_t count, bool json, const char *expected)
{
	struct report report;

	make(&report, json, SECOND_NS, threads, count);
	report_write(&report, NULL, &plain, &shown);
	report_free(&report);
	shows(expected);
}

static const struct thread mixed[] = {
	{.id = 1, .name = "a", .status = "sleep", .label = "Mutex#lock", .mutex = 0x10, .owner = 2},
	{.id = 2, .name = "b", .status = "sleep", .label = "Monitor#enter", .mutex = 0x20, .monitor = 0x30, .owner = 3},
	{.id = 3, .name = "c", .status = "sleep", .label = "Thread#join", .joins = 1},
	{.id = 4, .name = "d", .status = "sleep", .label = "Thread#join", .joins = 1},
};

static void a_circle_through_a_mutex_a_monitor_and_a_join(void **state)
{
	(void)state;
	circle(mixed, 4, false,
	       "\ndeadlock of 3 threads:\n   thread \"a\" waits for Mutex 0x10, held by\n"
	       "   -> thread \"b\" waits for Monitor 0x30, held by\n   -> thread \"c\" waits in Thread#join for the end of\n"
	       "   -> thread \"a\"\nthread \"a\", waiting for Mutex 0x10 held by thread 0x2, 0.000 s CPU\n");
	circle(mixed, 4, true,
	       "{\"type\":\"deadlock\",\"pid\":0,\"threads\":[{\"id\":1,\"mutex\":16},{\"id\":2,\"mutex\":32,\"monitor\":48},"
	       "{\"id\":3,\"joins\":1}]}\n");
}

static void a_join_with_a_limit_ends_the_circle(void **state)
{
	static const struct thread threads[] = {
		{.id = 1, .name = "a", .status = "sleep", .label = "Thread#join", .joins = 2},
		{.id = 2, .name = "b", .status = "sleep", .label = "Thread#join", .joins = 1, .timed = true},
	};

	(void)state;
	circle(threads, 2, false, "\ndeadlock of 2 threads, until the time limit of a join:\n");
	circle(threads, 2, true, "{\"type\":\"deadlock\",\"pid\":0,\"timed\":true,\"threads\":[");
}

static void threads_held_up_by_one_at_a_queue(void **state)
{
	static const struct thread threads[] = {
		{.id = 1, .name = "a", .status = "sleep_forever", .label = "Mutex#lock", .mutex = 0x10, .owner = 2},
		{.id = 2, .name = "b", .status = "sleep_forever", .label = "Monitor#enter", .mutex = 0x20, .owner = 3},
		{.id = 3, .name = "c", .status = "sleep_forever", .label = "Thread::Queue#pop", .waits_for = 0x50},
		{.id = 4, .name = "d", .status = "sleep_forever", .label = "Mutex#lock", .mutex = 0x20, .owner = 3},
		{.id = 5, .name = "e", .status = "sleep_forever", .label = "Thread#join", .joins = 3},
	};

	(void)state;
	circle(threads, 5, false,
	       "\n3 threads wait for one that waits to be woken:\n   thread \"a\" waits for Mutex 0x10, held by\n"
	       "   -> thread \"b\" waits for Mutex 0x20, held by\n"
	       "   -> thread \"c\", sleeping in Thread::Queue#pop on 0x50\n   and so do thread \"d\"\nthread \"a\", ");
	circle(threads, 5, true, "{\"type\":\"held_up\",\"pid\":0,\"by\":3,\"waits_for\":80,\"threads\":[1,2,4]}\n");
}

static void nobody_can_wake(void **state)
{
	static const struct thread threads[] = {
		{.id = 1, .name = "a", .status = "sleep_forever", .label = "Thread#join", .joins = 2},
		{.id = 2, .name = "b", .status = "sleep_forever", .label = "Thread::Queue#pop", .waits_for = 0x50},
	};
	static const struct thread limited[] = {
		{.id = 1, .name = "a", .status = "sleep_forever", .label = "Thread#join", .joins = 2},
		{.id = 2, .name = "b", .status = "sleep", .label = "Thread::Queue#pop", .waits_for = 0x50},
	};

	(void)state;
	circle(threads, 2, false,
	       "\nall 2 threads wait without a limit, and none can wake another: only the handler of a signal (trap) or C code "
	       "could\nthread \"a\", ");
	circle(threads, 2, true, "{\"type\":\"nobody_wakes\",\"pid\":0,\"threads\":2}\n");
	/* One that is not shown may wake them. */
	circle(threads, 1, false, "\nthread \"a\", ");
	circle(limited, 2, false, "\nthread \"a\", ");
}

static void what_a_thread_waits_for(void **state)
{
	static const struct thread threads[] = {
		{.id = 1, .name = "a", .status = "sleep", .label = "Thread#join", .joins = 9},
		{.id = 2, .name = "b", .status = "sleep", .label = "Thread::Queue#pop", .waits_for = 0x50},
		{.id = 3, .name = "c", .status = "sleep", .label = "PG::Connection#exec", .sql = "SELECT\x1b 1"},
	};

	(void)state;
	circle(threads, 1, false, "\nthread \"a\", sleeping in Thread#join on thread \"other\", 0.000 s CPU\n");
	circle(threads, 2, false, "\nthread \"b\", sleeping in Thread::Queue#pop on 0x50, 0.000 s CPU\n");
	circle(threads, 3, false, "\nthread \"c\", sleeping in PG::Connection#exec, 0.000 s CPU\n   SQL SELECT\\x1b 1\n");
	circle(threads, 1, true, "\"state\":\"sleeping in Thread#join\",\"waits_on\":\"thread \\\"other\\\"\"");
}

/* Of two looks, the second. */
static void second(bool json, const struct thread *then, const struct thread *now, size_t count)
{
	struct report before, report;

	make(&before, json, SECOND_NS, then, count);
	report_write(&before, NULL, &plain, &shown);
	buffer_free(&shown);
	make(&report, json, 3u * SECOND_NS, now, count);
	report_write(&report, &before, &plain, &shown);
	report_free(&before);
	report_free(&report);
}

static void what_two_looks_tell(void **state)
{
	static const struct thread then[] = {
		{.id = 1, .name = "hot", .status = "run", .label = "a", .cpu_ns = SECOND_NS},
		{.id = 2, .name = "cold", .status = "sleep", .label = "b", .cpu_ns = 7},
	};
	static const struct thread now[] = {
		{.id = 1, .name = "hot", .status = "run", .label = "a", .cpu_ns = SECOND_NS + SECOND_NS / 4},
		{.id = 2, .name = "cold", .status = "sleep", .label = "b", .cpu_ns = 7},
	};

	(void)state;
	second(false, then, now, 2);
	shows("1.250 s CPU (+0.250 s)\n");
	second(false, then, now, 2);
	shows("1 as before, for 2.0 s or longer: thread \"cold\"\n");
	second(true, then, now, 2);
	shows("\"frames\":[{\"label\":\"a\"}],\"unmoved_ns\":0,\"cpu_since_ns\":250000000}\n");
	second(true, then, now, 2);
	shows("\"frames\":[{\"label\":\"b\"}],\"unmoved_ns\":2000000000,\"cpu_since_ns\":0}\n");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_circle_through_a_mutex_a_monitor_and_a_join, answer_setup, answer_teardown),
		cmocka_unit_test_setup_teardown(a_join_with_a_limit_ends_the_circle, answer_setup, answer_teardown),
		cmocka_unit_test_setup_teardown(threads_held_up_by_one_at_a_queue, answer_setup, answer_teardown),
		cmocka_unit_test_setup_teardown(nobody_can_wake, answer_setup, answer_teardown),
		cmocka_unit_test_setup_teardown(what_a_thread_waits_for, answer_setup, answer_teardown),
		cmocka_unit_test_setup_teardown(what_two_looks_tell, answer_setup, answer_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
