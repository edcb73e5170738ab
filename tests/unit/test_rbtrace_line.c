/* rbtrace's command line, by rbtrace's rules. */

#define _GNU_SOURCE
#include "tracer/cli/rbtrace_line.h"

#include "stderr_fixture.h"
#include "unit.h"

#include "tracer/base/exit_status.h"
#include "tracer/cli/rbtrace_tracers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct rbtrace_line line;

static int setup(void **state)
{
	(void)state;
	memset(&line, 0, sizeof(line));
	return stderr_begin();
}

static int teardown(void **state)
{
	(void)state;
	stderr_end();
	rbtrace_line_free(&line);
	return 0;
}

/* words, separated by blanks */
static int read_line(const char *words)
{
	static char text[512], *argv[32];
	int argc = 0;

	snprintf(text, sizeof(text), "rbtrace %s", words);
	for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
		argv[argc++] = word;
	argv[argc] = NULL;
	rbtrace_line_free(&line);
	memset(&line, 0, sizeof(line));
	return rbtrace_line_read(&line, argc, argv);
}

/* expected: the values of the option, separated by blanks; NULL: it was not given */
static void has(enum rbtrace_option_id id, const char *expected)
{
	const struct rbtrace_given *given = &line.options[id];
	char values[512] = "";

	for (size_t i = 0; i < given->values.count; i++)
		snprintf(values + strlen(values), sizeof(values) - strlen(values), "%s%s", i ? " " : "", given->values.items[i]);
	assert_int_equal(given->given, expected != NULL);
	assert_string_equal(values, expected ? expected : "");
}

static void some_take_all_that_follows(void **state)
{
	(void)state;
	assert_int_equal(read_line("-p 12 13 -m sleep Dir. String#gsub(self) -t -c io --slow-methods a b"), 0);
	has(RBTRACE_PID, "12 13");
	has(RBTRACE_METHODS, "sleep Dir. String#gsub(self)");
	has(RBTRACE_START_TIME, "");
	has(RBTRACE_CONFIG, "io");
	has(RBTRACE_SLOW_METHODS, "a b");
	has(RBTRACE_FIREHOSE, NULL);
}

static void some_take_one_or_nothing(void **state)
{
	(void)state;
	assert_int_equal(read_line("--slow -p 12"), 0);
	has(RBTRACE_SLOW, "");
	assert_string_equal(rbtrace_line_value(&line, RBTRACE_SLOW, "250"), "250");
	assert_int_equal(read_line("-s 100 -p 12"), 0);
	has(RBTRACE_SLOW, "100");
	assert_int_equal(read_line("-s100 --slowcpu=5 -p12 -i -h"), 0);
	has(RBTRACE_SLOW, "100");
	has(RBTRACE_SLOWCPU, "5");
	has(RBTRACE_PID, "12");
	has(RBTRACE_INTERACTIVE, "");
	has(RBTRACE_HEAPDUMP, "");
}

static void a_negative_number_is_a_value(void **state)
{
	(void)state;
	assert_int_equal(read_line("-b -1 -p 12"), 0);
	has(RBTRACE_BACKTRACES, "-1");
	has(RBTRACE_PID, "12");
	assert_int_equal(read_line("--backtraces -15 -p 12"), 0);
	has(RBTRACE_BACKTRACES, "-15");
}

static void letters_may_stand_together(void **state)
{
	(void)state;
	assert_int_equal(read_line("-ftn -p 1"), 0);
	has(RBTRACE_FIREHOSE, "");
	has(RBTRACE_START_TIME, "");
	has(RBTRACE_NO_DURATION, "");
	assert_int_equal(read_line("-ftm sleep -p 1"), 0);
	has(RBTRACE_METHODS, "sleep");
}

static void the_command_is_all_that_follows_exec(void **state)
{
	(void)state;
	assert_int_equal(read_line("-m sleep --exec ruby -p x.rb --slow"), 0);
	has(RBTRACE_EXEC, "");
	has(RBTRACE_PID, NULL);
	assert_string_equal(line.command[0], "ruby");
	assert_string_equal(line.command[3], "--slow");
}

static void what_rbtrace_has_not(void **state)
{
	(void)state;
	assert_int_equal(read_line("-p 1 -f --yes --max-overhead 0"), 0);
	assert_true(line.own[RBTRACE_YES].given);
	assert_string_equal(line.own[RBTRACE_MAX_OVERHEAD].values.items[0], "0");
	assert_false(line.own[RBTRACE_NO_HOOK].given);
}

static void what_takes_no_value_has_a_contrary(void **state)
{
	(void)state;
	assert_int_equal(read_line("-p 1 --no-gc --firehose --no-firehose -n --duration --no-append -m sleep"), 0);
	has(RBTRACE_GC, NULL);
	has(RBTRACE_FIREHOSE, NULL);
	has(RBTRACE_NO_DURATION, NULL);
	has(RBTRACE_APPEND, NULL);
	has(RBTRACE_METHODS, "sleep");
	assert_int_equal(read_line("-p 1 --no-slow"), STATUS_USAGE);
	assert_string_equal(stderr_take(), "rbprobe: rbtrace: there is no option --no-slow; --help lists them\n");
	assert_int_equal(read_line("-p 1 --no-gc 7"), STATUS_USAGE);
	assert_string_equal(stderr_take(), "rbprobe: rbtrace: \"7\" belongs to no option; --help lists them\n");
}

static void refuses(const char *words, const char *said)
{
	assert_int_equal(read_line(words), STATUS_USAGE);
	assert_string_equal(stderr_take(), said);
}

static void what_is_wrong_is_named(void **state)
{
	(void)state;
	refuses("-p 1 --nonsense", "rbprobe: rbtrace: there is no option --nonsense; --help lists them\n");
	refuses("-p 1 -f nonsense", "rbprobe: rbtrace: \"nonsense\" belongs to no option; --help lists them\n");
	refuses("nonsense", "rbprobe: rbtrace: \"nonsense\" belongs to no option; --help lists them\n");
	refuses("-p 1 -e 1 2", "rbprobe: rbtrace: \"2\" belongs to no option; --help lists them\n");
	refuses("-p 1 -f -- more", "rbprobe: rbtrace: \"more\" belongs to no option; --help lists them\n");
	refuses("-p 1 -o -f", "rbprobe: rbtrace: --output needs FILE; --help says more\n");
	refuses("-f -x", "rbprobe: rbtrace: --exec needs COMMAND...; --help says more\n");
	refuses("-f -p", "rbprobe: rbtrace: --pid needs PID...; --help says more\n");
}

/* The selectors of the tracer that rbtrace's -c names, separated by blanks. */
static void selects(const char *name, const char *expected)
{
	struct tracer_file file;
	struct error err;
	char texts[512] = "";

	assert_int_equal(rbtrace_tracer_find(&file, name, &err), 0);
	for (uint32_t i = 0; i < file.selectors.count; i++)
		snprintf(texts + strlen(texts), sizeof(texts) - strlen(texts), "%s%s", i ? " " : "", file.selectors.texts[i]);
	assert_string_equal(texts, expected);
	tracer_file_free(&file);
}

static void lists_have_names_or_are_files(void **state)
{
	static const char *const names[] = {"activerecord", "redis", "mongo", "eventmachine", "unicorn", "testunit"};
	static const char bytes[] = "# a comment\n  String#gsub(self) \r\n\n\tsleep\n";
	char path[] = "/tmp/test-rbtrace-XXXXXX";
	struct tracer_file file;
	struct error err;
	int fd = mkstemp(path);

	(void)state;
	selects("io", "IO.select IO# TCPSocket# TCPServer#");
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		assert_int_equal(rbtrace_tracer_find(&file, names[i], &err), 0);
		assert_true(file.library_count > 0);
		tracer_file_free(&file);
	}
	assert_int_equal(write(fd, bytes, sizeof(bytes) - 1), sizeof(bytes) - 1);
	selects(path, "String#gsub(self) sleep");
	assert_int_equal(pwrite(fd, "\0", 1, 3), 1);
	assert_true(rbtrace_tracer_find(&file, path, &err) < 0);
	assert_true(rbtrace_tracer_find(&file, "/nowhere", &err) < 0);
	assert_string_equal(err.text,
	                    "there is no file /nowhere, and no list of this name; there are io, activerecord, redis, mongo, "
	                    "eventmachine, unicorn and testunit, and what `rbprobe tracers` lists");
	close(fd);
	unlink(path);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(some_take_all_that_follows),           TEST(some_take_one_or_nothing),
		TEST(a_negative_number_is_a_value),         TEST(letters_may_stand_together),
		TEST(the_command_is_all_that_follows_exec), TEST(what_rbtrace_has_not),
		TEST(what_takes_no_value_has_a_contrary),   TEST(what_is_wrong_is_named),
		TEST(lists_have_names_or_are_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
