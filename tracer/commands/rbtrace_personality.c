/*
 * The command line of rbtrace, translated into one of rbprobe's: it becomes the words of a subcommand, which then runs as if it
 * had been called so. Several processes to trace have a process of rbprobe's each, as rbtrace has it.
 */

#define _GNU_SOURCE
#include "tracer/commands/rbtrace_personality.h"

#include "tracer/base/apart.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/cli/options.h"
#include "tracer/cli/rbtrace_line.h"
#include "tracer/cli/rbtrace_tracers.h"
#include "tracer/commands/rbtrace_ps.h"
#include "tracer/commands/rbtrace_requests.h"
#include "tracer/commands/subcommands.h"

#include "proto/names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAILED_LIKE_RBTRACE 255 /* its exit(-1) */
#define SLOW_MS "250"
#define PREFIX "2"

struct personality {
	struct rbtrace_line line;
};

/* What is done with one process. */
struct task {
	const struct personality *all;
	const char *pid; /* NULL: --exec starts it */
};

bool rbtrace_is_meant(const char *program)
{
	const char *slash = program ? strrchr(program, '/') : NULL;

	return program && strcmp(slash ? slash + 1 : program, "rbtrace") == 0;
}

static bool given(const struct personality *all, enum rbtrace_option_id id)
{
	return all->line.options[id].given;
}

static const struct word_list *values_of(const struct personality *all, enum rbtrace_option_id id)
{
	return &all->line.options[id].values;
}

static const char *value(const struct personality *all, enum rbtrace_option_id id, const char *otherwise)
{
	return rbtrace_line_value(&all->line, id, otherwise);
}

/* --- Words */

static void add_option(struct word_list *words, const char *option, const char *argument)
{
	word_list_add(words, option);
	if (argument)
		word_list_add(words, argument);
}

static void add_list(struct word_list *words, const struct word_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		word_list_add(words, list->items[i]);
}

/* What every subcommand that attaches takes. */
static void add_target(struct word_list *words, const struct task *task)
{
	const struct personality *all = task->all;
	const char *timeout = value(all, RBTRACE_TIMEOUT, NULL);

	if (task->pid)
		add_option(words, "-p", task->pid);
	if (timeout && strcmp(timeout, "0") != 0)
		add_option(words, "--timeout", timeout);
	if (all->line.own[RBTRACE_NO_LOAD].given)
		add_option(words, "--no-load", NULL);
	if (all->line.own[RBTRACE_INTERRUPT].given)
		add_option(words, "--interrupt", NULL);
}

/* rbtrace asks nobody: without a terminal, what would leave the process slower is left out, and told. */
static void add_consent(struct word_list *words, const struct personality *all)
{
	bool somebody = isatty(STDIN_FILENO) && isatty(STDERR_FILENO) && !given(all, RBTRACE_EXEC);

	if (all->line.own[RBTRACE_YES].given)
		add_option(words, "--yes", NULL);
	else if (all->line.own[RBTRACE_NO_HOOK].given || !somebody)
		add_option(words, "--no-hook", NULL);
}

static void add_output(struct word_list *words, const struct task *task, char **path)
{
	const char *file = value(task->all, RBTRACE_OUTPUT, NULL);

	if (!file)
		return;
	if (values_of(task->all, RBTRACE_PID)->count > 1 && asprintf(path, "%s.%s", file, task->pid) < 0)
		*path = NULL;
	add_option(words, "-o", *path ? *path : file);
	if (given(task->all, RBTRACE_APPEND))
		add_option(words, "-a", NULL);
}

static void add_lists(struct word_list *words, const struct personality *all, const char *option)
{
	const struct word_list *names = values_of(all, RBTRACE_CONFIG);

	for (size_t i = 0; i < names->count; i++)
		add_option(words, option, names->items[i]);
}

/* Slow calls are shown of the methods that are named for it, or of all; those of --methods and --config in any case. */
static void add_slow(struct word_list *words, const struct personality *all)
{
	if (given(all, RBTRACE_SLOWCPU))
		add_option(words, "--slow-cpu", value(all, RBTRACE_SLOWCPU, SLOW_MS));
	else
		add_option(words, "--slow", value(all, RBTRACE_SLOW, SLOW_MS));
	if (!values_of(all, RBTRACE_SLOW_METHODS)->count)
		add_option(words, "--firehose", NULL);
	for (size_t i = 0; i < values_of(all, RBTRACE_METHODS)->count; i++)
		add_option(words, "--always", values_of(all, RBTRACE_METHODS)->items[i]);
	add_lists(words, all, "--" RBTRACE_LIST_ALWAYS_OPTION);
}

/* --- Running them */

static int run(const struct subcommand *subcommand, const struct word_list *words)
{
	struct word_list copy = {0};
	char *name;
	int status;

	if (asprintf(&name, "rbprobe %s", subcommand->name) < 0)
		return STATUS_FAILED;
	word_list_add(&copy, name);
	add_list(&copy, words);
	word_list_add(&copy, NULL);
	status = subcommand_run(subcommand, (int)copy.count - 1, (char **)copy.items);
	free(copy.items);
	free(name);
	return status;
}

static int trace(const struct task *task)
{
	const struct personality *all = task->all;
	bool firehose = given(all, RBTRACE_FIREHOSE), exec = given(all, RBTRACE_EXEC);
	bool slow = (given(all, RBTRACE_SLOW) || given(all, RBTRACE_SLOWCPU)) && !firehose;
	const struct word_list *selectors = values_of(all, slow ? RBTRACE_SLOW_METHODS : RBTRACE_METHODS);
	struct word_list words = {0};
	char *path = NULL;
	int status;

	add_target(&words, task);
	add_option(&words, "--format", "rbtrace");
	add_option(&words, "--prefix", value(all, RBTRACE_PREFIX, PREFIX));
	add_consent(&words, all);
	add_output(&words, task, &path);
	if (given(all, RBTRACE_START_TIME))
		add_option(&words, "-t", NULL);
	if (given(all, RBTRACE_NO_DURATION))
		add_option(&words, "-n", NULL);
	if (given(all, RBTRACE_GC))
		add_option(&words, "--gc", NULL);
	if (all->line.own[RBTRACE_VERBOSE].given)
		add_option(&words, "--verbose", NULL);
	if (all->line.own[RBTRACE_INSPECT].given)
		add_option(&words, "--inspect", NULL);
	if (all->line.own[RBTRACE_MAX_OVERHEAD].given)
		add_option(&words, "--max-overhead", all->line.own[RBTRACE_MAX_OVERHEAD].values.items[0]);
	if (firehose)
		add_option(&words, "--firehose", NULL);
	else if (slow)
		add_slow(&words, all);
	else
		add_lists(&words, all, "--" RBTRACE_LIST_OPTION);
	if (!firehose && !exec)
		add_option(&words, "--", NULL);
	if (!firehose)
		add_list(&words, selectors);
	if (exec) {
		add_option(&words, "--", NULL);
		for (char **word = all->line.command; *word; word++)
			word_list_add(&words, *word);
	}
	status = run(exec ? &cmd_exec : &cmd_trace, &words);
	free(words.items);
	free(path);
	return status;
}

/* With a name that is not there yet, where none is given. */
static int dump(const struct task *task, enum rbtrace_option_id id, const char *what)
{
	const char *directory = getenv("TMPDIR"), *file = value(task->all, id, "AUTO");
	struct word_list words = {0};
	char *made = NULL;
	int fd = -1, status;

	if (strcmp(file, "AUTO") == 0 &&
	    asprintf(&made, "%s/dump%sXXXXXX", directory ? directory : "/tmp", task->pid ? task->pid : "") >= 0)
		fd = mkstemp(made);
	if (made && fd < 0) {
		message("cannot create %s: %s", made, strerror(errno));
		free(made);
		return STATUS_FAILED;
	}
	if (fd >= 0)
		close(fd);
	add_option(&words, "dump", NULL);
	add_target(&words, task);
	add_option(&words, "-o", made ? made : file);
	printf("%s being written to %s\n", what, made ? made : file);
	fflush(stdout);
	status = run(&cmd_heap, &words);
	free(words.items);
	free(made);
	return status;
}

/* A number of frames becomes an option; what is none, or negative, all of them, as rbtrace has it. */
static int backtraces(const struct task *task, const struct subcommand *subcommand, enum rbtrace_option_id id)
{
	struct word_list words = {0};
	long frames = strtol(value(task->all, id, "-1"), NULL, 10);
	char number[32];
	int status;

	add_target(&words, task);
	snprintf(number, sizeof(number), "%ld", frames);
	if (frames > 0)
		add_option(&words, "-b", number);
	status = run(subcommand, &words);
	free(words.items);
	return status;
}

static int simple(const struct task *task, const struct subcommand *subcommand, const char *argument)
{
	struct word_list words = {0};
	int status;

	add_target(&words, task);
	if (argument) {
		word_list_add(&words, "--");
		word_list_add(&words, argument);
	}
	status = run(subcommand, &words);
	free(words.items);
	return status;
}

static int task_run(const struct task *task)
{
	const struct personality *all = task->all;

	if (given(all, RBTRACE_FORK))
		return simple(task, &rbtrace_fork, NULL);
	if (given(all, RBTRACE_BACKTRACE))
		return backtraces(task, &rbtrace_backtrace, RBTRACE_BACKTRACE);
	if (given(all, RBTRACE_BACKTRACES))
		return backtraces(task, &rbtrace_backtraces, RBTRACE_BACKTRACES);
	if (given(all, RBTRACE_MEMORY))
		return simple(task, &cmd_memory, NULL);
	if (given(all, RBTRACE_HEAPDUMP))
		return dump(task, RBTRACE_HEAPDUMP, "Heapdump");
	if (given(all, RBTRACE_SHAPESDUMP))
		return dump(task, RBTRACE_SHAPESDUMP, "Shapes dump");
	if (given(all, RBTRACE_EVAL))
		return simple(task, &rbtrace_eval, value(all, RBTRACE_EVAL, ""));
	if (given(all, RBTRACE_INTERACTIVE))
		return simple(task, &cmd_console, NULL);
	return trace(task);
}

/* --- The whole */

static int help(void)
{
	printf("Usage: rbtrace -p PID... TRACER...\n"
	       "       rbtrace TRACER... --exec COMMAND...\n"
	       "Follow method calls in running Ruby processes. This is rbprobe with the command line of rbtrace.\n\n");
	for (int i = 0; i < RBTRACE_OPTION_COUNT + RBTRACE_OWN_COUNT; i++) {
		const struct rbtrace_option *option =
			i < RBTRACE_OPTION_COUNT ? &rbtrace_options[i] : &rbtrace_own_options[i - RBTRACE_OPTION_COUNT];
		char letter[] = "-x, ", name[64];

		letter[1] = option->letter;
		snprintf(name, sizeof(name), "--%s%s%s", option->name, *option->placeholder ? " " : "", option->placeholder);
		printf("  %s%-*s %s\n", option->letter ? letter : "    ", 28, name, option->help);
		if (i == RBTRACE_OPTION_COUNT - 1)
			printf("\nOf rbprobe:\n");
	}
	printf("\nSelectors: sleep, String#gsub, Process.pid, Kernel#, Dir., 'String#gsub(self, @test)'.\n"
	       "rbtrace(1) says what is different from rbtrace; `rbprobe --help` says what else there is.\n");
	return fflush(stdout) == 0 ? 0 : FAILED_LIKE_RBTRACE;
}

static int version(void)
{
	printf("rbtrace: like strace, but for ruby code\n  by rbprobe %s, with the command line of rbtrace 0.5\n",
	       RBPROBE_VERSION);
	return fflush(stdout) == 0 ? 0 : FAILED_LIKE_RBTRACE;
}

/* What rbtrace is to do; one of them has to be there. */
static const enum rbtrace_option_id tracers[] = {
	RBTRACE_FORK, RBTRACE_EVAL,    RBTRACE_INTERACTIVE, RBTRACE_BACKTRACE,  RBTRACE_BACKTRACES,
	RBTRACE_SLOW, RBTRACE_SLOWCPU, RBTRACE_FIREHOSE,    RBTRACE_METHODS,    RBTRACE_CONFIG,
	RBTRACE_GC,   RBTRACE_MEMORY,  RBTRACE_HEAPDUMP,    RBTRACE_SHAPESDUMP,
};

static bool is_trace(const struct personality *all)
{
	return !given(all, RBTRACE_FORK) && !given(all, RBTRACE_EVAL) && !given(all, RBTRACE_INTERACTIVE) &&
	       !given(all, RBTRACE_BACKTRACE) && !given(all, RBTRACE_BACKTRACES) && !given(all, RBTRACE_MEMORY) &&
	       !given(all, RBTRACE_HEAPDUMP) && !given(all, RBTRACE_SHAPESDUMP);
}

static const char *wrong(const struct personality *all)
{
	const struct word_list *pids = values_of(all, RBTRACE_PID);
	bool any = false, exec = given(all, RBTRACE_EXEC);

	for (size_t i = 0; i < sizeof(tracers) / sizeof(*tracers); i++)
		any = any || given(all, tracers[i]);
	if (!any)
		return "what is to be done? --firehose, --methods, --slow, --slowcpu, --gc, --config, --eval, --interactive, "
		       "--backtraces, --backtrace, --memory, --heapdump, --shapesdump or --fork";
	if (exec && (given(all, RBTRACE_PID) || given(all, RBTRACE_PS)))
		return "--exec starts a process, --pid and --ps name one that runs; give one of them";
	if (exec && !is_trace(all))
		return "--exec traces what it starts; for everything else, start it and give --pid";
	for (size_t i = 0; i < pids->count; i++)
		if (!options_are_pids(pids->items[i]))
			return "--pid takes numbers; --methods are the selectors";
	if (!exec && !given(all, RBTRACE_PS) && !pids->count)
		return "--pid is missing; `rbprobe ps` lists the Ruby processes";
	return NULL;
}

/* What cannot be done with several processes. */
static const char *wrong_of_several(const struct personality *all)
{
	const char *file = value(all, given(all, RBTRACE_HEAPDUMP) ? RBTRACE_HEAPDUMP : RBTRACE_SHAPESDUMP, "AUTO");

	if (values_of(all, RBTRACE_PID)->count < 2)
		return NULL;
	if (given(all, RBTRACE_FORK) || given(all, RBTRACE_INTERACTIVE))
		return "--fork and --interactive are for one process; give one --pid";
	return strcmp(file, "AUTO") == 0 ? NULL : "one file cannot have the dumps of several processes; give one --pid";
}

/* Once for all processes. */
static int check_lists(const struct personality *all)
{
	const struct word_list *names = values_of(all, RBTRACE_CONFIG);

	for (size_t i = 0; i < names->count; i++) {
		struct tracer_file file;
		struct error err;

		if (rbtrace_tracer_find(&file, names->items[i], &err) < 0) {
			message("rbtrace: --config: %s", err.text);
			return STATUS_USAGE;
		}
		tracer_file_free(&file);
	}
	return 0;
}

/* rbtrace does not mind either. */
static void say_what_does_nothing(const struct personality *all)
{
	if (given(all, RBTRACE_SLOW_METHODS) && !given(all, RBTRACE_SLOW) && !given(all, RBTRACE_SLOWCPU))
		message("rbtrace: --slow-methods does nothing without --slow or --slowcpu");
}

/* One for each process. */
struct task_list {
	struct task *items;
	size_t count;
};

static size_t task_count(void *owner)
{
	return ((const struct task_list *)owner)->count;
}

static int task_run_apart(void *owner, size_t index)
{
	return task_run(&((const struct task_list *)owner)->items[index]);
}

static int task_list_run(struct task_list *tasks)
{
	const struct apart apart = {.owner = tasks, .together = true, .count = task_count, .run = task_run_apart};

	return tasks->count == 1 ? task_run(tasks->items) : apart_run(&apart);
}

static int tasks_run(const struct personality *all)
{
	const struct word_list *pids = values_of(all, RBTRACE_PID);
	size_t processes = pids->count ? pids->count : 1;
	struct task_list tasks = {.items = memory_zeroed(processes * sizeof(*tasks.items)), .count = processes};
	int status;

	for (size_t i = 0; i < processes; i++)
		tasks.items[i] = (struct task){.all = all, .pid = pids->count ? pids->items[i] : NULL};
	status = task_list_run(&tasks);
	free(tasks.items);
	return status;
}

/* rbtrace knows of no more: it worked, also where the process went away meanwhile, or it did not. */
static int exit_status(int status, bool exec)
{
	if (status == STATUS_TARGET_GONE && !exec)
		return 0;
	return (status == STATUS_USAGE || status == STATUS_NOT_ATTACHED) && !exec ? FAILED_LIKE_RBTRACE : status;
}

int rbtrace_main(int argc, char **argv)
{
	struct personality all = {0};
	const char *problem = NULL;
	bool exec;
	int status = argc > 1 ? rbtrace_line_read(&all.line, argc, argv) : 0;

	if (!status && (argc == 1 || given(&all, RBTRACE_HELP))) {
		rbtrace_line_free(&all.line);
		return help();
	}
	if (!status && given(&all, RBTRACE_VERSION)) {
		rbtrace_line_free(&all.line);
		return version();
	}
	if (!status)
		status = check_lists(&all);
	if (!status)
		problem = wrong(&all);
	if (!status && !problem && given(&all, RBTRACE_PS))
		status = rbtrace_ps(&all.line);
	if (!status && !problem)
		problem = wrong_of_several(&all);
	if (problem) {
		message("rbtrace: %s; --help says more", problem);
		status = STATUS_USAGE;
	}
	exec = !status && given(&all, RBTRACE_EXEC);
	if (!status) {
		say_what_does_nothing(&all);
		status = tasks_run(&all);
	}
	rbtrace_line_free(&all.line);
	return exit_status(status, exec);
}
