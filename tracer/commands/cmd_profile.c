/* rbprobe profile: what the threads of a process do, by samples of their stacks. */

#include "proto/clock.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/cli/choose_processes.h"
#include "tracer/cli/subcommand.h"
#include "tracer/commands/worker_requests.h"
#include "tracer/native/native_profile.h"
#include "tracer/profile/profile_file.h"
#include "tracer/profile/profile_text.h"
#include "tracer/recording/recording_fit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RATE_DEFAULT 100
#define RATE_NATIVE 50 /* each sample stops threads */
#define RATE_MAX 1000
#define DURATION_DEFAULT_NS (10 * NS_PER_S)

enum long_option {
	OPTION_RATE = 0x200,
	OPTION_DURATION,
	OPTION_WALL,
	OPTION_CPU,
	OPTION_NO_IDLE,
	OPTION_GVL,
	OPTION_ALLOC,
	OPTION_RETAINED,
	OPTION_EVERY,
	OPTION_NATIVE,
	OPTION_THREADS,
	OPTION_NO_TREE,
	OPTION_TOP,
};

struct profiling {
	struct invocation invocation;
	uint64_t rate_hz, duration_ns, top;
	uint64_t every;    /* --alloc: about every so many'th object; 0: as is cheap */
	const char *class; /* --alloc; NULL: any */
	bool rate_given, retained, native;
	const char *counted, *also; /* the first option that says what is counted, and one that says otherwise; NULL: none */
	struct profile_style style;
	struct profile *profile;
	struct profile_writer *writer; /* NULL: it is shown, and not kept */
	struct error error;
};

/* --alloc and --retained are the same to it. */
static void count_by(struct profiling *profiling, enum profile_weight weight, const char *option)
{
	if (!profiling->counted)
		profiling->counted = option;
	else if (profiling->style.weight != weight)
		profiling->also = option;
	profiling->style.weight = weight;
}

static error_t parse_profile(int key, char *argument, struct argp_state *state)
{
	struct profiling *profiling = state->input;

	switch (key) {
	case OPTION_RATE:
		profiling->rate_given = true;
		return options_whole_number("--rate", argument, 1, RATE_MAX, &profiling->rate_hz);
	case OPTION_DURATION:
		return options_seconds("--duration", argument, &profiling->duration_ns);
	case OPTION_WALL:
		count_by(profiling, PROFILE_WALL, "--wall");
		return 0;
	case OPTION_CPU:
		count_by(profiling, PROFILE_CPU, "--cpu");
		return 0;
	case OPTION_NO_IDLE:
		count_by(profiling, PROFILE_BUSY, "--no-idle");
		return 0;
	case OPTION_GVL:
		count_by(profiling, PROFILE_WAITED, "--gvl");
		return 0;
	case OPTION_ALLOC:
		count_by(profiling, PROFILE_BYTES, "--alloc");
		profiling->class = argument;
		return 0;
	case OPTION_RETAINED:
		count_by(profiling, PROFILE_BYTES, "--retained");
		profiling->retained = true;
		return 0;
	case OPTION_EVERY:
		return options_whole_number("--every", argument, 1, UINT32_MAX, &profiling->every);
	case OPTION_NATIVE:
		profiling->native = true;
		return 0;
	case OPTION_THREADS:
		profiling->style.threads = true;
		return 0;
	case OPTION_NO_TREE:
		profiling->style.no_tree = true;
		return 0;
	case OPTION_TOP:
		return options_whole_number("--top", argument, 1, UINT32_MAX, &profiling->top);
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_option profile_list[] = {
	{"duration", OPTION_DURATION, "SEC", 0, "For so long (default 10); Ctrl-C ends it earlier", 2},
	{"rate", OPTION_RATE, "HZ", 0, "So many samples a second (default 100, with --native 50; at most 1000)", 2},
	{"wall", OPTION_WALL, NULL, 0, "By time, be a thread running or waiting (default)", 3},
	{"cpu", OPTION_CPU, NULL, 0, "By the CPU time that threads used", 3},
	{"no-idle", OPTION_NO_IDLE, NULL, 0, "By time, without that for which threads waited", 3},
	{"gvl", OPTION_GVL, NULL, 0, "By the time that threads waited for the GVL, and who had it meanwhile", 3},
	{"alloc", OPTION_ALLOC, "CLASS", OPTION_ARG_OPTIONAL,
         "By the objects that are made, and their bytes: all, or those of a class (CLASS+: and of classes below it)", 3},
	{"retained", OPTION_RETAINED, NULL, 0, "As --alloc, but only what is still alive at the end, after a garbage collection",
         3},
	{"every", OPTION_EVERY, "N", 0, "With --alloc: look at about one object of N (default: as many as stay cheap)", 3},
	{"native", OPTION_NATIVE, NULL, 0,
         "With the native frames of C functions below and between Ruby's: each sample stops the running threads for a moment", 3},
	{"threads", OPTION_THREADS, NULL, 0, "A tree for each thread", 3},
	{"no-tree", OPTION_NO_TREE, NULL, 0, "Show the tables alone", 3},
	{"top", OPTION_TOP, "N", 0, "Show so many rows of a table (default 20)", 3},
	{0},
};

static const struct argp options_profile = {.options = profile_list, .parser = parse_profile};

static void profile_init(void *self)
{
	struct profiling *profiling = self;

	profiling->rate_hz = RATE_DEFAULT;
	profiling->duration_ns = DURATION_DEFAULT_NS;
	profiling->top = PROFILE_TOP_DEFAULT;
}

static int profile_check(void *self)
{
	struct profiling *profiling = self;
	const struct options *options = &profiling->invocation.options;
	struct error err;

	if (profiling->duration_ns / NS_PER_MS > INT32_MAX) {
		message("--duration takes at most %d seconds", (int)(INT32_MAX / 1000));
		return STATUS_USAGE;
	}
	if (profiling->also) {
		message("a profile counts one thing: give %s or %s, not both", profiling->counted, profiling->also);
		return STATUS_USAGE;
	}
	if (profiling->every && profiling->style.weight != PROFILE_BYTES) {
		message("--every is for --alloc; --rate says how often time is sampled");
		return STATUS_USAGE;
	}
	if (profiling->style.weight == PROFILE_BYTES && profiling->rate_given) {
		message("--rate is for samples of time; --every N says how many objects --alloc looks at");
		return STATUS_USAGE;
	}
	if (profiling->native && profiling->style.weight >= PROFILE_WAITED) {
		message("--native samples time; it does not go with --gvl, --alloc or --retained");
		return STATUS_USAGE;
	}
	if (profiling->native && library_require(LIBRARY_DW, "profile --native", &err) < 0) {
		message("%s", err.text);
		return STATUS_FAILED;
	}
	if (profiling->native && !profiling->rate_given)
		profiling->rate_hz = RATE_NATIVE;
	if (options->append) {
		message("a profile begins a file, and is not appended to one (-a)");
		return STATUS_USAGE;
	}
	if (options->output_path && library_require(LIBRARY_ZSTD, "profile -o", &err) < 0) {
		message("%s", err.text);
		return STATUS_FAILED;
	}
	return 0;
}

static int take_answer(void *self, const struct target *target, const msgpack_object *object, struct error *err)
{
	struct profiling *profiling = self;

	if (profiling->writer)
		profile_write(profiling->writer, target, object);
	return profile_add(profiling->profile, profile_process(profiling->profile, target->pid, 0), object, err);
}

static int on_data(struct request *request, const msgpack_object *object, struct error *err)
{
	request->stream->answered = 0; /* it comes as long as the profile lasts; what is kept of it is limited */
	return take_answer(request->owner, &request->attachment.target, object, err);
}

static bool is_begun(const struct request *request)
{
	const struct profiling *profiling = request->owner;

	return profile_has(profiling->profile, request->attachment.target.pid);
}

static void profile_fill(const void *self, struct command *command)
{
	const struct profiling *profiling = self;

	command->arguments.number = profiling->rate_hz;
	if (profiling->style.weight == PROFILE_WAITED)
		command->arguments.flags = PROFILE_GVL;
	if (profiling->style.weight == PROFILE_BYTES) {
		command->arguments.flags = PROFILE_ALLOCATIONS | (profiling->retained ? PROFILE_RETAINED : 0);
		command->arguments.number = profiling->every;
		command->arguments.name =
			(struct slice){profiling->class ? profiling->class : "", profiling->class ? strlen(profiling->class) : 0};
	}
	command->arguments.timeout_ms = (uint32_t)(profiling->duration_ns / NS_PER_MS);
}

static int run_native(struct profiling *profiling)
{
	const struct native_profile_order order = {.invocation = &profiling->invocation,
	                                           .period_ns = NS_PER_S / profiling->rate_hz,
	                                           .duration_ns = profiling->duration_ns,
	                                           .answer = take_answer,
	                                           .owner = profiling};

	return native_profile_run(&order);
}

static int sample(struct profiling *profiling)
{
	struct invocation *invocation = &profiling->invocation;
	struct options *options = &invocation->options;
	struct pid_list parents = {0};
	int status = options->children ? choose_children_of(options, &parents) : 0;

	if (!status && profiling->native)
		status = run_native(profiling);
	else if (!status && options->children)
		status = worker_requests_run(invocation, &parents);
	else if (!status)
		status = invocation_request(invocation, options->pids.items, options->pids.count);
	free(parents.items);
	return status;
}

/* What was counted otherwise than usual for such a profile is said once more, as the file has all of it. */
static void say_kept(const struct profiling *profiling)
{
	const char *name = profiling->invocation.output.name;
	bool is_usual = profiling->style.weight == profile_weight_usual(profiling->profile);
	const char *option = is_usual ? "" : profiling->counted, *space = is_usual ? "" : " ";

	message("%s has the profile; `rbprobe report%s%s %s` shows it, `rbprobe export --to svg%s%s -o %s.svg %s` makes a flame "
	        "graph of it",
	        name, space, option, name, space, option, name, name);
}

static int profile_run(void *self)
{
	struct profiling *profiling = self;
	struct invocation *invocation = &profiling->invocation;
	struct options *options = &invocation->options;
	int status;

	profiling->style.top = (uint32_t)profiling->top;
	profiling->style.width = invocation->output.width;
	profiling->profile = profile_new();
	profiling->profile->rate_hz = (uint32_t)profiling->rate_hz;
	if (options->output_path && recording_fit(&invocation->output, options->output_path, false, &profiling->error) < 0) {
		message("%s", profiling->error.text);
		return STATUS_FAILED;
	}
	if (options->output_path && invocation_refuses_terminal(invocation, "a profile that is kept"))
		return STATUS_USAGE;
	if (options->output_path)
		profiling->writer = profile_writer_new(&invocation->output, (uint32_t)profiling->rate_hz);
	else if (!options->quiet && isatty(STDERR_FILENO))
		message("sampling for %g s; Ctrl-C ends it and shows what there is", (double)profiling->duration_ns / 1e9);
	status = sample(profiling);
	if (!profiling->profile->process_count) {
		/* No answer at all, also where the process went away: a file keeps what it had. */
		invocation->output.is_spared = true;
		return status;
	}
	profile_settle(profiling->profile);
	if (!profiling->writer && invocation->json)
		profile_json(profiling->profile, &profiling->style, &invocation->output.buffer);
	else if (!profiling->writer)
		profile_text(profiling->profile, &profiling->style, &invocation->output.buffer);
	else if (!options->quiet && !invocation->output.status && invocation->output.own_fd)
		say_kept(profiling);
	return status;
}

static void profile_end(void *self)
{
	struct profiling *profiling = self;

	profile_writer_free(profiling->writer);
	profile_free(profiling->profile);
}

const struct subcommand cmd_profile = {
	.name = "profile",
	.arguments = "-p PID[,PID...]",
	.summary = "what its threads do, by samples",
	.usage = "-p PID",
	.description =
		"Sample the stacks of all threads of running Ruby processes, and show which methods take the time, a table of "
		"threads, and a tree. rbprobe says what it took of the process; where that would be more than 1 % of a "
		"processor at 100 samples a second, or 3 % at 1000, it takes fewer samples and says so.\vA method counts "
		"with the time of the samples that found it. They are taken where Ruby can be interrupted: a method written in "
		"C that had ended by then counts as its caller.",
	.report = true,
	.pids = PIDS_SOME,
	.children_itself = true,
	.timeout = "How long attaching may take, and --native wait for names in the end (default 5)",
	.format = "Tables for people, or one JSON object a line",
	.options = (const struct argp *const[]){&options_profile, &options_one_file, NULL},
	.size = sizeof(struct profiling),
	.init = profile_init,
	.check = profile_check,
	.kind = COMMAND_PROFILE,
	.fill = profile_fill,
	.handler = {.data = on_data, .partial = is_begun},
	.run = profile_run,
	.free = profile_end,
};
