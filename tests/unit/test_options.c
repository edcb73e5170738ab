/* Options that subcommands share: each parses, and a wrong value gives one line and the status for wrong usage. */

#define _GNU_SOURCE
#include "tracer/cli/option_names.h"
#include "tracer/cli/options.h"

#include "stderr_fixture.h"
#include "unit.h"

#include "proto/clock.h"
#include "tracer/base/exit_status.h"

static struct options options;

static int setup(void **state)
{
	(void)state;
	options_init(&options);
	return stderr_begin();
}

static int teardown(void **state)
{
	(void)state;
	stderr_end();
	options_free(&options);
	return 0;
}

/* What is in the line's words, parsed by all that there is. */
static int parse(const char *line)
{
	static const struct argp_child children[] = {{.argp = &options_target},    {.argp = &options_session},
	                                             {.argp = &options_color},     {.argp = &options_engine},
	                                             {.argp = &options_run},       {.argp = &options_trace},
	                                             {.argp = &options_shown},     {.argp = &options_conditions},
	                                             {.argp = &options_events},    {.argp = &options_always},
	                                             {.argp = &options_selectors}, {.argp = &options_file},
	                                             {.argp = &options_standard},  {0}};
	const struct argp argp = {.children = children};
	static char copy[512];
	char name[] = "rbprobe test", *words[32] = {name}, *save = NULL;
	int count = 1;

	snprintf(copy, sizeof(copy), "%s", line);
	for (char *word = strtok_r(copy, " ", &save); word && count < 31; word = strtok_r(NULL, " ", &save))
		words[count++] = word;
	words[count] = NULL;
	return options_parse(&argp, count, words, &options);
}

static void parsed(const char *line)
{
	int status;

	options_free(&options);
	options_init(&options);
	status = parse(line);
	if (status != 0)
		fail_msg("%s: refused: %s", line, stderr_take());
	assert_string_equal(stderr_take(), "");
}

/* One line, which says just this. */
static void refused(const char *line, const char *message)
{
	char expected[512];

	options_free(&options);
	options_init(&options);
	assert_int_equal(parse(line), STATUS_USAGE);
	snprintf(expected, sizeof(expected), "rbprobe: %s\n", message);
	assert_string_equal(stderr_take(), expected);
}

static void without_any_there_are_defaults(void **state)
{
	(void)state;
	parsed("");
	assert_int_equal(options.pids.count, 0);
	assert_int_equal(options.timeout_ns, 5 * NS_PER_S);
	assert_int_equal(options.trace.flags, 0);
	assert_int_equal(options.trace.engine, ENGINE_AUTO);
	assert_int_equal(options.trace.value_size, VALUE_SIZE_DEFAULT);
	assert_string_equal(options.format->name, "text");
	assert_true(options.style.durations);
	assert_int_equal(options.style.indent, 3);
	assert_false(options.no_load || options.interrupt || options.quiet || options.verbose || options.append);
}

static void processes(void **state)
{
	(void)state;
	parsed("-p 12 -p 13,14 --pid=12");
	assert_int_equal(options.pids.count, 3);
	assert_int_equal(options.pids.items[0], 12);
	assert_int_equal(options.pids.items[2], 14);
	refused("-p 0", "-p takes a whole number from 1 to 4194304, not \"0\"");
	refused("-p -5", "-p takes a whole number from 1 to 4194304, not \"-5\"");
	refused("-p 12x", "-p takes a whole number from 1 to 4194304, not \"12x\"");
	refused("-p 4194305", "-p takes a whole number from 1 to 4194304, not \"4194305\"");
	refused("-p ,", "-p takes a process id, or several as in 12,13");
}

static void how_to_attach(void **state)
{
	(void)state;
	parsed("--no-load --interrupt -q -v");
	assert_true(options.no_load && options.interrupt && options.quiet && options.verbose);
	assert_false(options_manner(&options).may_load);
	assert_true(options_manner(&options).interrupt);
	parsed("--quiet --verbose");
	assert_true(options.quiet && options.verbose && options_manner(&options).may_load);
}

static void flags_of_a_trace(void **state)
{
	static const struct {
		const char *option;
		uint32_t flags;
	} cases[] = {
		{"-f", TRACE_FIREHOSE},
		{"--firehose", TRACE_FIREHOSE},
		{"-y", TRACE_HOOK},
		{"--yes", TRACE_HOOK},
		{"--no-hook", TRACE_WITHOUT_HOOK | TRACE_NO_HOOK},
		{"--attributes", TRACE_ATTRIBUTES},
		{"--args", TRACE_ARGUMENTS},
		{"--return", TRACE_RESULT},
		{"--inspect", TRACE_INSPECT},
		{"--ivars", TRACE_IVARS},
		{"--args --return --ivars", TRACE_ARGUMENTS | TRACE_RESULT | TRACE_IVARS},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		parsed(cases[i].option);
		assert_int_equal(options.trace.flags, cases[i].flags);
	}
}

static void words_that_choose(void **state)
{
	(void)state;
	parsed("--engine hook --overflow block --color never --format json");
	assert_int_equal(options.trace.engine, ENGINE_HOOK);
	assert_int_equal(options.trace.overflow, OVERFLOW_BLOCK);
	assert_int_equal(options.colors, COLORS_NEVER);
	assert_string_equal(options.format->name, "json");
	parsed("--engine=patch --overflow=drop");
	assert_int_equal(options.trace.engine, ENGINE_PATCH);
	assert_int_equal(options.trace.overflow, OVERFLOW_DROP);
	refused("--engine fast", "--engine takes auto, target, patch or hook, not \"fast\"");
	refused("--engine none", "--engine takes auto, target, patch or hook, not \"none\"");
	refused("--overflow wait", "--overflow takes drop or block, not \"wait\"");
	refused("--color yes", "--color takes auto, always or never, not \"yes\"");
	refused("--format xml", "--format takes text, json or rbtrace, not \"xml\"");
}

static void numbers_and_times(void **state)
{
	(void)state;
	parsed("--duration 0.5 --count 7 --value-size 16384 -r 0");
	assert_int_equal(options.duration_ns, NS_PER_S / 2);
	assert_int_equal(options.count, 7);
	assert_int_equal(options.trace.value_size, 16384);
	assert_int_equal(options.style.indent, 0);
	refused("--duration 0", "--duration takes seconds, such as 10 or 0.5, not \"0\"");
	refused("--duration -1", "--duration takes seconds, such as 10 or 0.5, not \"-1\"");
	refused("--duration nan", "--duration takes seconds, such as 10 or 0.5, not \"nan\"");
	refused("--duration 5s", "--duration takes seconds, such as 10 or 0.5, not \"5s\"");
	refused("--count 0", "--count takes a whole number from 1 to 9223372036854775807, not \"0\"");
	refused("--count 99999999999999999999",
	        "--count takes a whole number from 1 to 9223372036854775807, not \"99999999999999999999\"");
	refused("--value-size 16385", "--value-size takes a whole number from 1 to 16384, not \"16385\"");
	refused("-r 17", "-r takes a whole number from 0 to 16, not \"17\"");
}

static void a_timeout(void **state)
{
	(void)state;
	parsed("");
	assert_int_equal(options_timeout("0.25", &options), 0);
	assert_int_equal(options.timeout_ns, NS_PER_S / 4);
	assert_int_equal(options_limit_ms(&options), 250);
	assert_int_not_equal(options_timeout("0", &options), 0);
	assert_string_equal(stderr_take(), "rbprobe: --timeout takes seconds, such as 10 or 0.5, not \"0\"\n");
	options.may_be_unlimited = true;
	assert_int_equal(options_timeout("0", &options), 0);
	assert_int_equal(options_limit_ms(&options), 0);
	assert_int_equal(options.timeout_ns, NS_PER_S / 4);
}

static void how_it_is_shown(void **state)
{
	(void)state;
	parsed("-t -n -r 5 -o /tmp/x -a");
	assert_true(options.style.start_times && options.append);
	assert_false(options.style.durations);
	assert_int_equal(options.style.indent, 5);
	assert_string_equal(options.output_path, "/tmp/x");
	parsed("--order thread");
	assert_int_equal(options.order, ORDER_THREAD);
	options_settle(&options, -1);
	assert_true(options.style.by_thread);
	parsed("-t");
	options_settle(&options, -1);
	assert_false(options.style.by_thread);
}

static void selectors(void **state)
{
	(void)state;
	parsed("String#gsub -m Dir. sleep");
	assert_int_equal(options.selectors.count, 3);
	assert_int_equal(options_check_trace(&options), 0);
	assert_int_equal(options_command(&options, COMMAND_TRACE).selector_count, 3);
}

static void what_an_expression_reads(void **state)
{
	static const struct {
		const char *code;
		bool at_end;
	} cases[] = {
		{"result", true},       {"!result", true},       {"result.nil?", true}, {"1 if elapsed>0.5", true},
		{"x == error", true},   {"(0..elapsed)", true},  {"result!=5", true},   {"[result]", true},
		{"x.result", false},    {"x&.error", false},     {"@result", false},    {"$error", false},
		{":result", false},     {"m(result: 1)", false}, {"results", false},    {"my_error", false},
		{"error_count", false}, {"result?", false},      {"number > 3", false}, {"", false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct conditions conditions = {.expression = {cases[i].code, strlen(cases[i].code)}};

		if (conditions_at_end(&conditions) != cases[i].at_end)
			fail_msg("%s", cases[i].code);
	}
}

static void conditions(void **state)
{
	(void)state;
	parsed("--within A#b C#d --outside E. F#g --slow 0.5 --slow-cpu 3 --raised --every 7 --rate 8 --thread w*");
	assert_int_equal(options_check_trace(&options), 0);
	assert_int_equal(options.trace.conditions.slow_ns, NS_PER_MS / 2);
	assert_int_equal(options.trace.conditions.slow_cpu_ns, 3 * NS_PER_MS);
	assert_int_equal(options.trace.conditions.every, 7);
	assert_int_equal(options.trace.conditions.rate, 8);
	assert_slice(options.trace.conditions.raised, "");
	assert_slice(options.trace.conditions.thread, "w*");
	/* Shown ones first, in their order; so the command has them. */
	assert_int_equal(options.selectors.count, 4);
	assert_slice(options.selectors.items[0].class_pattern, "C");
	assert_string_equal(options.selectors.texts[0], "C#d");
	assert_slice(options.selectors.items[1].class_pattern, "F");
	assert_int_equal(options.selectors.items[2].role, ROLE_WITHIN);
	assert_string_equal(options.selectors.texts[2], "A#b");
	assert_int_equal(options.selectors.items[3].role, ROLE_OUTSIDE);
	parsed("a --raised=Errno::* --depth 2");
	assert_slice(options.trace.conditions.raised, "Errno::*");
	assert_int_equal(options.trace.conditions.depth, 2);
	parsed("a --raised=::IOError");
	assert_slice(options.trace.conditions.raised, "IOError");
}

static void wrong_conditions(void **state)
{
	(void)state;
	refused("--slow 0", "--slow takes milliseconds, such as 100 or 0.5, not \"0\"");
	refused("--slow x", "--slow takes milliseconds, such as 100 or 0.5, not \"x\"");
	refused("--slow 1s", "--slow takes milliseconds, such as 100 or 0.5, not \"1s\"");
	refused("--slow-cpu -1", "--slow-cpu takes milliseconds, such as 100 or 0.5, not \"-1\"");
	refused("--slow nan", "--slow takes milliseconds, such as 100 or 0.5, not \"nan\"");
	refused("--raised=", "--raised= names no class; --raised alone means every exception");
	refused("--raise=nosuch", "--raise: \"nosuch\" is no class: its name begins with a capital letter");
	refused("--raised=::Net::error*", "--raised: \"error*\" is no class: its name begins with a capital letter");
	refused("--raised=::", "--raised= names no class; --raised alone means every exception");
	refused("--thread=", "--thread= names no thread");
	refused("--within a(b)", "--within takes a selector without expressions, not \"a(b)\"");
}

static void what_contradicts_itself(void **state)
{
	static const struct {
		const char *line, *message;
	} cases[] = {
		{"", "which methods? Give selectors such as String#gsub, a tracer (-c sql), or --firehose for all"},
		{"-f --engine patch", "--firehose is by all engines, or by --engine hook"},
		{"-f --no-hook --engine hook", "--engine hook and --no-hook contradict each other"},
		{"a -y --no-hook", "--yes and --no-hook contradict each other"},
		{"a --no-hook --attributes", "--attributes needs engine hook, which --no-hook forbids"},
		{"a -a", "-a appends to a file; name it with -o FILE"},
		{"--within a", "which methods? Give selectors such as String#gsub, a tracer (-c sql), or --firehose for all"},
		{"a --depth 2 --slow 1",
	         "--depth goes with conditions that are decided when a call ends (--slow, --raised, ...) only in a --tree"},
		{"a --always b", "--always and --slow-methods go with --slow or --slow-cpu"},
		{"--slow 1 --always b",
	         "which calls are to be shown if they are slow? Beside --always give selectors, or --firehose"},
		{"--slow 1 -f --slow-methods b",
	         "--firehose shows slow calls of all methods, --slow-methods of some; give one of them"},
		{"a --slow 1 --tree --always b",
	         "--always and --slow-methods cannot go with --tree, which shows all that happens inside a slow call"},
		{"--raise --depth 2", "--slow, --slow-cpu, --raised, --if and --depth are about calls, and no method is "
	                              "selected; give a selector such as "
	                              "Order#total"},
		{"--gc --within a",
	         "--thread, --within, --outside, --every and --rate do not apply to --gc and --gvl, and nothing else "
	         "is selected; give a selector such as Order#total, --raise or --allocations"},
		{"a --tree --every 3", "--tree shows what happens inside the calls that meet --slow, --slow-cpu, --raised or an "
	                               "--if about the end; give one of "
	                               "these"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char expected[320];

		parsed(cases[i].line);
		assert_int_equal(options_check_trace(&options), STATUS_USAGE);
		snprintf(expected, sizeof(expected), "rbprobe: %s\n", cases[i].message);
		assert_string_equal(stderr_take(), expected);
	}
}

static void all_methods_without_consent_are_those_that_cost_little(void **state)
{
	(void)state;
	parsed("-f");
	assert_int_equal(options_check_trace(&options), 0);
	assert_int_equal(options.trace.flags, TRACE_WITHOUT_HOOK);
	assert_int_equal(options.selectors.count, 2);
	parsed("-f -y");
	assert_int_equal(options_check_trace(&options), 0);
	assert_int_equal(options.trace.flags, TRACE_FIREHOSE | TRACE_HOOK);
}

static void an_option_that_does_not_exist(void **state)
{
	(void)state;
	refused("--no-such-option", "test has no option --no-such-option; `rbprobe test --help` lists them");
	refused("--slowcpu 5", "test has no option --slowcpu; use --slow-cpu MS");
	refused("--retrun", "test has no option --retrun; did you mean --return?");
	refused("--nohook=1", "test has no option --nohook; did you mean --no-hook?");
	refused("-duration 5", "test has no option -d; did you mean --duration?");
	refused("-yZ", "test has no option -Z as in -yZ; `rbprobe test --help` lists them");
	refused("-Z", "test has no option -Z; `rbprobe test --help` lists them");
	/* Longer than any. */
	refused("--aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	        "test has no option --aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; `rbprobe test "
	        "--help` lists them");
	/* What rbtrace has. */
	refused("-s", "test has no option -s; use --slow MS");
	refused("--eval 1", "test has no option --eval; use `rbprobe eval -p PID CODE`");
}

static void what_looks_like_an_option_and_is_none(void **state)
{
	(void)state;
	parsed("--slow 5 --thread --x -r 3 -- -Z");
	assert_slice(options.trace.conditions.thread, "--x");
	assert_string_equal(options.selectors.texts[0], "-Z");
	parsed("-p1 --if -Z --slow-c 1 --durat=2");
	assert_slice(options.trace.conditions.expression, "-Z");
	assert_int_equal(options.trace.conditions.slow_cpu_ns, NS_PER_MS);
}

static void what_getopt_says(void **state)
{
	(void)state;
	assert_int_equal(parse("-p"), STATUS_USAGE);
	assert_non_null(strstr(stderr_take(), "requires an argument"));
	assert_int_equal(parse("--ret=5"), STATUS_USAGE);
	assert_non_null(strstr(stderr_take(), "doesn't allow an argument"));
	assert_int_equal(parse("--no"), STATUS_USAGE);
	assert_non_null(strstr(stderr_take(), "is ambiguous"));
}

static void expect_pids(const char *line, pid_t first, size_t count)
{
	parsed(line);
	assert_int_equal(options.pids.count, count);
	assert_int_equal(options.pids.items[0], first);
	assert_int_equal(options.selectors.count, strchr(line, '#') != NULL);
}

static void processes_without_their_option(void **state)
{
	(void)state;
	expect_pids("-p 12 34", 12, 2);
	expect_pids("34 A#b -p 12", 12, 2);
	expect_pids("34", 34, 1);
	expect_pids("34,35 A#b", 34, 2);
	expect_pids("-p 12, 34,35", 12, 3);
	refused("0 a", "-p takes a whole number from 1 to 4194304, not \"0\"");
	refused("-p 1 -m12", "-m takes a selector, and 12 is none; a process is given with -p 12");
	/* Where a line of a file is meant. */
	parsed("-p 1 a.rb:12");
	assert_int_equal(options.selectors.count, 1);
}

/* A subcommand that attaches to nothing. */
static void a_number_where_no_process_is_asked_for(void **state)
{
	static const struct argp_child children[] = {{.argp = &options_selectors}, {0}};
	static const struct argp argp = {.children = children};
	char *words[] = {(char[]){"rbprobe test"}, (char[]){"12"}, NULL};

	(void)state;
	assert_int_equal(options_parse(&argp, 2, words, &options), STATUS_USAGE);
	assert_string_equal(stderr_take(), "rbprobe: 12 is a number, and no process is asked for here\n");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(without_any_there_are_defaults),
		TEST(processes),
		TEST(how_to_attach),
		TEST(flags_of_a_trace),
		TEST(words_that_choose),
		TEST(numbers_and_times),
		TEST(a_timeout),
		TEST(how_it_is_shown),
		TEST(selectors),
		TEST(what_an_expression_reads),
		TEST(conditions),
		TEST(wrong_conditions),
		TEST(what_contradicts_itself),
		TEST(all_methods_without_consent_are_those_that_cost_little),
		TEST(an_option_that_does_not_exist),
		TEST(what_looks_like_an_option_and_is_none),
		TEST(what_getopt_says),
		TEST(processes_without_their_option),
		TEST(a_number_where_no_process_is_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
