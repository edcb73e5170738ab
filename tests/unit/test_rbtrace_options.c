/* Every option of the rbtrace gem (0.4.14 and 0.5.4), tried with `rbprobe trace`: it is the same there, or is told what it is. */

#define _GNU_SOURCE
#include "tracer/cli/option_names.h"
#include "tracer/cli/rbtrace_options.h"
#include "tracer/commands/subcommands.h"

#include "stderr_fixture.h"
#include "unit.h"

#include "tracer/base/exit_status.h"

/* As `rbtrace --help` lists them. hint: NULL where rbprobe trace takes the same. */
static const struct {
	const char *name;
	char letter; /* 0: it has none */
	const char *hint;
	bool letter_is_taken; /* by something else of trace's */
} every[] = {
	{"exec", 'x', "use `rbprobe exec SELECTOR... -- COMMAND...`", false},
	{"pid", 'p', NULL, false},
	{"ps", 0, NULL, false},
	{"firehose", 'f', NULL, false},
	{"slow", 's', "use --slow MS", false},
	{"slowcpu", 'l', "use --slow-cpu MS", false},
	{"slow-methods", 'w', "use --slow-methods SELECTOR", false},
	{"methods", 'm', NULL, false},
	{"gc", 'g', "use --gc", false},
	{"start-time", 't', NULL, false},
	{"no-duration", 'n', NULL, false},
	{"output", 'o', NULL, false},
	{"append", 'a', NULL, false},
	{"prefix", 'r', NULL, false},
	{"config", 'c', "use -c FILE", true},
	{"devmode", 'd', "methods that are defined later are traced anyway", false},
	{"fork", 'k', "use `rbprobe fork -p PID`", false},
	{"eval", 'e', "use `rbprobe eval -p PID CODE`", false},
	{"interactive", 'i', "use `rbprobe console -p PID`", false},
	{"backtraces", 'b', "use `rbprobe backtrace -p PID`", false},
	{"backtrace", 0, "use `rbprobe backtrace -p PID`", false},
	{"wait", 0, NULL, false},
	{"timeout", 'u', "use --timeout SEC", false},
	{"memory", 'y', "use `rbprobe memory -p PID`", true},
	{"heapdump", 'h', "use `rbprobe heap dump -p PID`", true},
	{"shapesdump", 0, "use `rbprobe heap dump -p PID`", false},
	{"version", 'v', "use `rbprobe --version`", true},
	{"help", 0, NULL, false},
};

static struct subcommand_parser parser;

static int setup(void **state)
{
	(void)state;
	subcommand_parser_init(&parser, &cmd_trace);
	return stderr_begin();
}

static int teardown(void **state)
{
	(void)state;
	stderr_end();
	return 0;
}

/* hint: NULL if it is an option. */
static void expect(const char *word, const char *hint)
{
	char name[] = "rbprobe trace", copy[64], expected[256];
	char *words[] = {name, copy, NULL};

	snprintf(copy, sizeof(copy), "%s", word);
	assert_int_equal(options_check_names(&parser.argp, "trace", 2, words), hint ? STATUS_USAGE : 0);
	snprintf(expected, sizeof(expected), hint ? "rbprobe: trace has no option %s; %s\n" : "", word, hint);
	assert_string_equal(stderr_take(), expected);
}

static void each_is_there_or_told_of(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(every) / sizeof(*every); i++) {
		char word[64];
		struct argp_option own;
		/* What rbtrace's letter stands for may be an option of trace's that has no letter. */
		bool same = options_find(&parser.argp, every[i].name, strlen(every[i].name), &own) == 1;

		snprintf(word, sizeof(word), "--%s", every[i].name);
		expect(word, same ? NULL : every[i].hint);
		if (same && every[i].hint)
			assert_true(strncmp(every[i].hint, "use --", 6) == 0 &&
			            strncmp(every[i].hint + 6, own.name, strlen(own.name)) == 0);
		snprintf(word, sizeof(word), "-%c", every[i].letter);
		if (every[i].letter)
			expect(word, every[i].letter_is_taken ? NULL : every[i].hint);
	}
}

static void a_value_is_no_part_of_the_name(void **state)
{
	(void)state;
	assert_int_equal(options_check_names(&parser.argp, "trace", 2,
	                                     (char *[]){(char[]){"rbprobe trace"}, (char[]){"--slowcpu=5"}, NULL}),
	                 STATUS_USAGE);
	assert_string_equal(stderr_take(), "rbprobe: trace has no option --slowcpu; use --slow-cpu MS\n");
}

static void other_subcommands_name_what_there_is_instead(void **state)
{
	char *words[] = {(char[]){"rbprobe memory"}, (char[]){"--eval"}, NULL};

	(void)state;
	subcommand_parser_init(&parser, &cmd_memory);
	assert_int_equal(options_check_names(&parser.argp, "memory", 2, words), STATUS_USAGE);
	assert_string_equal(stderr_take(), "rbprobe: memory has no option --eval; use `rbprobe eval -p PID CODE`\n");
}

static void commands(void **state)
{
	static const struct {
		const char *words[4], *command;
	} cases[] = {
		{{"-p", "12", "--eval", "1"}, "rbprobe eval -p PID CODE"},
		{{"-e", "1", "-p", "12"}, "rbprobe eval -p PID CODE"},
		{{"-p", "12", "--slowcpu=5", "a"}, "rbprobe trace -p PID SELECTOR... --slow-cpu MS"},
		{{"-p", "12", "--wait", "--backtraces"}, "rbprobe backtrace -p PID"},
		{{"-p", "12", "--", "--fork"}, NULL},
		{{"-p", "12", "-m", "fork"}, NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char command[RBTRACE_HINT_SIZE] = "";

		assert_int_equal(rbtrace_command(cases[i].words, 4, command), cases[i].command != NULL);
		assert_string_equal(command, cases[i].command ? cases[i].command : "");
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(each_is_there_or_told_of),
		TEST(a_value_is_no_part_of_the_name),
		TEST(other_subcommands_name_what_there_is_instead),
		TEST(commands),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
