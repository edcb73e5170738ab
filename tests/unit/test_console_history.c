/* The console's history file: what goes in comes back, in any number of processes at once, and the file stays bounded. */

#include "tracer/base/buffer.h"
#include "tracer/console/console_history.h"
#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[64], path[128];
static struct buffer read_back; /* entries, each with a | behind it */
static unsigned entries;

static void keep(const char *entry)
{
	buffer_add_text(&read_back, entry);
	buffer_add_char(&read_back, '|');
	entries++;
}

static int setup(void **state)
{
	(void)state;
	snprintf(directory, sizeof(directory), "/tmp/history-test-XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	snprintf(path, sizeof(path), "%s/a/b/history", directory);
	read_back = (struct buffer){0};
	entries = 0;
	return 0;
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	buffer_free(&read_back);
	snprintf(command, sizeof(command), "rm -rf %s", directory);
	return system(command);
}

static struct history open_history(void)
{
	struct history history = {.path = strdup(path)};

	entries = 0;
	read_back.size = 0;
	assert_int_equal(history_open(&history, keep), 0);
	buffer_add_char(&read_back, '\0');
	return history;
}

static void what_is_entered_comes_back(void **state)
{
	struct history history = open_history();
	struct stat status;

	(void)state;
	assert_int_equal(entries, 0);
	history_add(&history, "1 + 1");
	history_add(&history, "a\\n\nb\\");
	history_add(&history, " secret");
	history_add(&history, "");
	history_add(&history, "\xc3\xa9");
	history_close(&history);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0600);
	history = open_history();
	assert_string_equal(read_back.bytes, "1 + 1|a\\n\nb\\|\xc3\xa9|");
	history_close(&history);
}

static void other_people_may_not_read_what_others_have_made_there(void **state)
{
	struct history history = open_history();
	struct stat status;

	(void)state;
	history_close(&history);
	chmod(path, 0644);
	history = open_history();
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0600);
	history_close(&history);
}

static void a_torn_line_is_not_continued(void **state)
{
	struct history history = open_history();
	FILE *file = fopen(path, "a");

	(void)state;
	fputs("torn\\", file);
	fclose(file);
	history_add(&history, "whole");
	history_close(&history);
	history = open_history();
	assert_string_equal(read_back.bytes, "torn\\|whole|");
	history_close(&history);
}

static void a_long_file_is_shortened_to_the_newest(void **state)
{
	struct history history = open_history();
	FILE *file = fopen(path, "w");

	(void)state;
	for (unsigned i = 1; i <= 3 * HISTORY_MAX; i++)
		fprintf(file, "%u\n", i);
	fclose(file);
	history_close(&history);
	history = open_history();
	assert_int_equal(entries, HISTORY_MAX);
	assert_memory_equal(read_back.bytes, "4001|", 5);
	history_add(&history, "more");
	history_close(&history);
	history = open_history();
	assert_int_equal(entries, HISTORY_MAX);
	assert_memory_equal(read_back.bytes, "4002|", 5);
	history_close(&history);
}

/* Among them those that shorten the file. */
static void several_at_once_lose_nothing(void **state)
{
	enum { PROCESSES = 4, EACH = 200 };
	struct history history = open_history();
	unsigned seen[PROCESSES] = {0};
	FILE *file = fopen(path, "w");

	(void)state;
	for (unsigned i = 1; i <= 2 * HISTORY_MAX; i++)
		fprintf(file, "old\n");
	fclose(file);
	history_close(&history);
	for (int process = 0; process < PROCESSES; process++) {
		if (fork() != 0)
			continue;
		for (int i = 0; i < EACH; i++) {
			char entry[32];
			struct history own = {.path = strdup(path)};

			snprintf(entry, sizeof(entry), "%d %d\n", process, i);
			if (history_open(&own, keep) == 0)
				history_add(&own, entry);
			history_close(&own);
		}
		_exit(0);
	}
	for (int process = 0; process < PROCESSES; process++) {
		int status;

		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	history = open_history();
	for (char *entry = strtok(read_back.bytes, "|"); entry; entry = strtok(NULL, "|")) {
		unsigned process, number;

		if (sscanf(entry, "%u %u", &process, &number) != 2)
			continue;
		assert_true(process < PROCESSES);
		assert_int_equal(number, seen[process]);
		seen[process]++;
	}
	for (int process = 0; process < PROCESSES; process++)
		assert_int_equal(seen[process], EACH);
	history_close(&history);
}

static void what_cannot_be_a_file_is_refused(void **state)
{
	struct history history = open_history();

	(void)state;
	history_close(&history);
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	history.path = strdup(path);
	assert_int_equal(history_open(&history, keep), -EINVAL);
	assert_null(history.path);
	assert_int_equal(history_open(&history, keep), -ENOENT);
	history_add(&history, "goes nowhere");
}

static void its_place(void **state)
{
	char *place;

	(void)state;
	setenv("XDG_STATE_HOME", "/state", 1);
	setenv("HOME", "/home/me", 1);
	place = history_path();
	assert_string_equal(place, "/state/rbprobe/console_history");
	free(place);
	setenv("XDG_STATE_HOME", "relative", 1);
	place = history_path();
	assert_string_equal(place, "/home/me/.local/state/rbprobe/console_history");
	free(place);
	unsetenv("HOME");
	assert_null(history_path());
}

static void expect_refusal(int code)
{
	struct history history = {.path = strdup(path)};

	assert_int_equal(history_open(&history, keep), code);
	history_add(&history, "must not get there");
	history_close(&history);
}

static void make_above(void)
{
	char name[128];

	snprintf(name, sizeof(name), "%s/a", directory);
	assert_int_equal(mkdir(name, 0700), 0);
	snprintf(name, sizeof(name), "%s/a/b", directory);
	assert_int_equal(mkdir(name, 0700), 0);
}

/* A file that somebody wants us to change. */
static void make_victim(char victim[128])
{
	FILE *file;

	snprintf(victim, 128, "%s/victim", directory);
	file = fopen(victim, "w");
	assert_non_null(file);
	fputs("precious", file);
	fclose(file);
	chmod(victim, 0644);
}

static void assert_untouched(const char *victim)
{
	struct stat status;

	assert_int_equal(stat(victim, &status), 0);
	assert_int_equal(status.st_size, strlen("precious"));
	assert_int_equal(status.st_mode & 07777, 0644);
}

static void a_link_is_not_followed(void **state)
{
	char victim[128];

	(void)state;
	make_victim(victim);
	make_above();
	assert_int_equal(symlink(victim, path), 0);
	expect_refusal(-EPERM);
	assert_untouched(victim);
}

static void a_file_with_two_names_is_not_ours_alone(void **state)
{
	char victim[128];

	(void)state;
	make_victim(victim);
	make_above();
	assert_int_equal(link(victim, path), 0);
	expect_refusal(-EPERM);
	assert_untouched(victim);
}

/* With sudo HOME may be somebody else's. */
static void root_keeps_none_in_another_user_s_home(void **state)
{
	char name[128];
	struct stat status;

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(chown(directory, 61999, 61999), 0);
	expect_refusal(-EPERM);
	snprintf(name, sizeof(name), "%s/a", directory);
	assert_int_equal(stat(name, &status), -1);
	/* A link of his to a place of root's. */
	assert_int_equal(chown(directory, 0, 0), 0);
	assert_int_equal(symlink("/tmp", name), 0);
	assert_int_equal(lchown(name, 61999, 61999), 0);
	expect_refusal(-EPERM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_link_is_not_followed, setup, teardown),
		cmocka_unit_test_setup_teardown(a_file_with_two_names_is_not_ours_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(root_keeps_none_in_another_user_s_home, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_entered_comes_back, setup, teardown),
		cmocka_unit_test_setup_teardown(other_people_may_not_read_what_others_have_made_there, setup, teardown),
		cmocka_unit_test_setup_teardown(a_torn_line_is_not_continued, setup, teardown),
		cmocka_unit_test_setup_teardown(a_long_file_is_shortened_to_the_newest, setup, teardown),
		cmocka_unit_test_setup_teardown(several_at_once_lose_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(what_cannot_be_a_file_is_refused, setup, teardown),
		cmocka_unit_test(its_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
