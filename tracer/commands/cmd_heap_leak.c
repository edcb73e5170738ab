/*
 * rbprobe heap leak: three dumps of a running process, and who holds what leaks. The dumps have no names, so that nothing is
 * left of them however this ends. Of several processes each has a run of its own, at the same time; but one dump is taken after
 * the other, and one report written.
 */

#define _GNU_SOURCE
#include "tracer/base/apart.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/base/output_name.h"
#include "tracer/base/poll_until.h"
#include "tracer/base/signals.h"
#include "tracer/commands/heap_report_options.h"
#include "tracer/commands/heap_verbs.h"
#include "tracer/heap/dump_file.h"
#include "tracer/heap/heap_dump.h"
#include "tracer/heap/heap_recording.h"

#include "proto/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DUMPS 3
#define INTERVAL_NS (10 * NS_PER_S)
#define TURN_LOOK_NS (20 * NS_PER_MS)

enum long_option { OPTION_INTERVAL = 0x200, OPTION_ALLOCATIONS };

struct arguments {
	struct heap_report_arguments common;
	uint64_t interval_ns;
	bool allocations;
	struct heap_recording recording;
	int process; /* a descriptor of it; -1: the kernel has none */
};

static error_t parse_leak(int key, char *argument, struct argp_state *state)
{
	struct arguments *arguments = state->input;

	switch (key) {
	case OPTION_INTERVAL:
		return options_seconds("--interval", argument, &arguments->interval_ns);
	case OPTION_ALLOCATIONS:
		arguments->allocations = true;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_option leak_list[] = {
	{"interval", OPTION_INTERVAL, "SEC", 0, "The pause between two dumps (default 10)", 2},
	{"allocations", OPTION_ALLOCATIONS, NULL, 0,
         "Record meanwhile where the process allocates objects; the report has their file and line, and takes no object for "
         "another that had its place",
         2},
	{0},
};

static const struct argp options_leak = {.options = leak_list, .parser = parse_leak};

static void leak_init(void *self)
{
	struct arguments *arguments = self;

	heap_report_arguments_init(self);
	arguments->interval_ns = INTERVAL_NS;
	arguments->process = -1;
}

static const char *directory_of_dumps(void)
{
	const char *directory = getenv("TMPDIR");

	return directory && *directory == '/' ? directory : "/tmp";
}

/* A file without a name, or one that has lost it at once. */
static int open_nameless(void)
{
	const char *directory = directory_of_dumps();
	char name[4096];
	int file;

	file = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL))
		return file;
	if (snprintf(name, sizeof(name), "%s/rbprobe-leak-XXXXXX", directory) >= (int)sizeof(name)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	file = mkostemp(name, O_CLOEXEC);
	if (file >= 0)
		unlink(name);
	return file;
}

static bool has_ended(const struct arguments *arguments)
{
	return arguments->process >= 0 && poll_until(&(struct pollfd){.fd = arguments->process, .events = POLLIN}, 1, 0);
}

/* False: it is over, and was said to be. */
static bool may_go_on(struct arguments *arguments)
{
	bool sent_by_process;

	if (signals_take(&sent_by_process))
		message("interrupted; no dump was kept");
	else if (has_ended(arguments))
		message("process %d has ended before it was dumped three times",
		        (int)arguments->common.invocation.options.pids.items[0]);
	else
		return true;
	return false;
}

static bool pause_for(struct arguments *arguments, uint64_t time_ns)
{
	uint64_t until_ns = clock_now_ns() + time_ns;
	struct pollfd polled[] = {
		{.fd = invocation_signals(&arguments->common.invocation), .events = POLLIN},
		{.fd = arguments->process, .events = POLLIN},
	};

	while (clock_now_ns() < until_ns && !poll_until(polled, 2, until_ns))
		;
	return may_go_on(arguments);
}

static bool wait_for_turn(struct arguments *arguments)
{
	while (!apart_turn_take())
		if (!pause_for(arguments, TURN_LOOK_NS))
			return false;
	return true;
}

static int take_dump(struct arguments *arguments, uint32_t number, const char *path)
{
	const struct invocation *invocation = &arguments->common.invocation;
	char name[64], shown[PATH_MAX];
	struct heap_dump_order order = {.options = &invocation->options, .name = name, .others = invocation->several};
	struct error err;
	int status;

	if (invocation->several)
		snprintf(name, sizeof(name), "process %d, dump %u of %d", (int)invocation->options.pids.items[0], number + 1,
		         DUMPS);
	else
		snprintf(name, sizeof(name), "dump %u of %d", number + 1, DUMPS);
	if (!wait_for_turn(arguments))
		return STATUS_FAILED;
	if (dump_file_open(&order.file, path, false, library_is_there(LIBRARY_ZSTD) ? DUMP_ZSTD : DUMP_PLAIN, &err) < 0) {
		message("%s", err.text);
		return STATUS_FAILED;
	}
	snprintf(shown, sizeof(shown), "%s (TMPDIR names another directory)", directory_of_dumps());
	dump_file_call(order.file, shown);
	status = heap_dump_take(&order);
	apart_turn_end();
	return status;
}

static int add_dump(struct arguments *arguments, uint32_t number)
{
	static const char *const names[DUMPS] = {"dump 1", "dump 2", "dump 3"};
	struct heap_report *report = &arguments->common.report;
	int descriptor = open_nameless(), status;
	struct error err;
	char path[32];

	if (descriptor < 0) {
		message("cannot make a file for the dump in %s: %s; TMPDIR names another directory", directory_of_dumps(),
		        strerror(errno));
		return STATUS_FAILED;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", descriptor);
	report->paths[number] = path;
	status = take_dump(arguments, number, path);
	if (status == STATUS_DONE && heap_report_read(report, number, &err) < 0) {
		message("%s", err.text);
		status = STATUS_FAILED;
	}
	report->paths[number] = report->dumps[number].reading.name = names[number];
	close(descriptor);
	return status;
}

/* Before the first dump, which has what that makes in a process; else it would be new in the second. */
static int begin_recording(struct arguments *arguments)
{
	struct invocation *invocation = &arguments->common.invocation;
	int status = heap_recording_begin(&arguments->recording, &invocation->options, invocation_signals(invocation));

	if (status == STATUS_DONE && !invocation->options.quiet)
		message("process %d records where it allocates objects, until its third dump",
		        (int)invocation->options.pids.items[0]);
	return status;
}

static int take_dumps(struct arguments *arguments)
{
	int status = arguments->allocations ? begin_recording(arguments) : STATUS_DONE;

	for (uint32_t i = 0; i < DUMPS && status == STATUS_DONE; i++) {
		if (i > 0 && !pause_for(arguments, arguments->interval_ns))
			return STATUS_FAILED;
		if (arguments->allocations && !heap_recording_goes_on(&arguments->recording)) {
			message("process %d no longer records where it allocates objects; no dump was kept",
			        (int)arguments->common.invocation.options.pids.items[0]);
			return STATUS_FAILED;
		}
		status = add_dump(arguments, i);
	}
	return status;
}

static int leak_check(void *self)
{
	const struct arguments *arguments = self;
	const struct options *options = &arguments->common.invocation.options;
	bool is_page = arguments->common.format == &heap_format_html;

	if (options->pids.count == 1 && !options->children)
		return 0;
	if (options->output_path ? output_name_has_pid(options->output_path) : !is_page)
		return 0;
	message("reports of several processes need a file each: -o 'leak-%%p.%s', where %%p stands for the PID",
	        is_page ? "html" : "txt");
	return STATUS_USAGE;
}

/* Of several, in the order in which they are made. */
static void show(struct arguments *arguments)
{
	struct invocation *invocation = &arguments->common.invocation;
	bool has_heading = invocation->several && arguments->common.format == &heap_format_text;

	if (has_heading)
		buffer_add_format(&invocation->output.buffer, "process %d:\n", (int)invocation->options.pids.items[0]);
	heap_report_show(&arguments->common);
	if (has_heading)
		buffer_add_char(&invocation->output.buffer, '\n');
}

static int leak_run(void *self)
{
	struct arguments *arguments = self;
	struct heap_report *report = &arguments->common.report;
	struct error err;
	int status;

	report->pid = arguments->common.invocation.options.pids.items[0];
	if (invocation_signals(&arguments->common.invocation) < 0)
		return STATUS_FAILED;
	arguments->process = (int)syscall(SYS_pidfd_open, arguments->common.invocation.options.pids.items[0], 0);
	report->dump_count = DUMPS;
	report->leaks = true;
	heap_report_arguments_settle(&arguments->common);
	heap_report_begin(report);
	status = take_dumps(arguments);
	heap_recording_end(&arguments->recording);
	if (status == STATUS_DONE && heap_report_end(report, &err) < 0) {
		message("%s", err.text);
		status = STATUS_FAILED;
	}
	if (status == STATUS_DONE && !wait_for_turn(arguments))
		status = STATUS_FAILED;
	if (status != STATUS_DONE)
		return status;
	show(arguments);
	if (!arguments->allocations && !report->compared.with_site.objects)
		message("where these objects were allocated was not recorded; with --allocations it is");
	return STATUS_DONE;
}

static void leak_free(void *self)
{
	struct arguments *arguments = self;

	if (arguments->process >= 0)
		close(arguments->process);
	heap_report_arguments_free(self);
}

const struct subcommand heap_leak = {
	.name = "leak",
	.arguments = "-p PID",
	.summary = "what leaks in a process, and who holds it",
	.usage = "-p PID",
	.description =
		"Take three heap dumps of a running Ruby process, as `rbprobe heap dump` does, and show what is in the second "
		"and "
		"the third but not in the first, by class and allocation site, and who holds it: the shortest paths from the "
		"roots. The dumps are files without a name in TMPDIR (or /tmp), of which nothing is left.",
	.pids = PIDS_EACH,
	.together = true,
	.report = true,
	.options = (const struct argp *const[]){&options_heap_report, &options_leak, NULL},
	.needs = {[LIBRARY_SIMDJSON] = true, [LIBRARY_JANSSON] = true},
	.size = sizeof(struct arguments),
	.init = leak_init,
	.check = leak_check,
	.run = leak_run,
	.free = leak_free,
};
