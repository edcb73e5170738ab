/* What all subcommands have in common. See subcommand.h. */

#include "tracer/cli/subcommand.h"

#include "tracer/base/apart.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/base/output_name.h"
#include "tracer/base/signals.h"
#include "tracer/cli/choose_processes.h"
#include "tracer/cli/nearest.h"
#include "tracer/cli/option_names.h"
#include "tracer/cli/pager.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of no other parser. */
enum long_option {
	OPTION_FORMAT = 0x10000,
	OPTION_TIMEOUT,
	OPTION_EVERY,
	OPTION_COUNT,
};

static struct invocation *invocation_of(struct argp_state *state)
{
	return state->input;
}

static error_t parse_format(int key, char *argument, struct argp_state *state)
{
	static const char *const formats[] = {"text", "json", NULL};
	unsigned chosen;

	if (key != OPTION_FORMAT)
		return ARGP_ERR_UNKNOWN;
	if (options_choice("--format", argument, formats, &chosen))
		return EINVAL;
	invocation_of(state)->json = chosen;
	return 0;
}

static error_t parse_timeout(int key, char *argument, struct argp_state *state)
{
	return key == OPTION_TIMEOUT ? options_timeout(argument, state->input) : ARGP_ERR_UNKNOWN;
}

static error_t parse_every(int key, char *argument, struct argp_state *state)
{
	switch (key) {
	case OPTION_EVERY:
		return options_seconds("--every", argument, &invocation_of(state)->every_ns);
	case OPTION_COUNT:
		return options_whole_number("--count", argument, 1, UINT64_MAX / 2, &invocation_of(state)->count);
	case ARGP_KEY_SUCCESS:
		if (!invocation_of(state)->count || invocation_of(state)->every_ns)
			return 0;
		message("--count goes with --every SEC");
		return EINVAL;
	}
	return ARGP_ERR_UNKNOWN;
}

void subcommand_parser_init(struct subcommand_parser *parser, const struct subcommand *subcommand)
{
	const char *timeout_help = subcommand->timeout ? subcommand->timeout : "How long attaching may take (default 5)";
	size_t count = 0;

	*parser = (struct subcommand_parser){
		.format_list = {{"format", OPTION_FORMAT, "text|json", 0, subcommand->format, 4}},
		.timeout_list = {{"timeout", OPTION_TIMEOUT, "SEC", 0, timeout_help, 9}},
		.every_list = {{"every", OPTION_EVERY, "SEC", 0, subcommand->every, 2},
	                       {"count", OPTION_COUNT, "N", 0, "With --every: stop after N times", 2}},
		.format = {.options = parser->format_list, .parser = parse_format},
		.timeout = {.options = parser->timeout_list, .parser = parse_timeout},
		.every = {.options = parser->every_list, .parser = parse_every},
		.argp = {.args_doc = subcommand->usage, .doc = subcommand->description, .children = parser->parts},
	};
	if (subcommand->pids != PIDS_NONE)
		parser->parts[count++].argp = subcommand->pids == PIDS_ONE ? &options_target_one : &options_target;
	if (subcommand->format)
		parser->parts[count++].argp = &parser->format;
	if (subcommand->every)
		parser->parts[count++].argp = &parser->every;
	for (size_t i = 0; subcommand->options && subcommand->options[i]; i++)
		parser->parts[count++].argp = subcommand->options[i];
	if (subcommand->pids != PIDS_NONE || subcommand->timeout) {
		parser->parts[count++].argp = &parser->timeout;
		parser->parts[count++].argp = &options_session;
	}
	parser->parts[count].argp = &options_standard;
}

static struct {
	const struct subcommand *const *all;
	size_t count;
} there_are;

void subcommands_know(const struct subcommand *const *all, size_t count)
{
	there_are.all = all;
	there_are.count = count;
}

static bool has_option(const struct subcommand *subcommand, const char *name, size_t size)
{
	struct argp_option option;

	for (size_t i = 0; subcommand->options && subcommand->options[i]; i++)
		if (options_find(subcommand->options[i], name, size, &option) == 1 && strlen(option.name) == size &&
		    !(option.flags & OPTION_HIDDEN))
			return true;
	return false;
}

bool subcommand_with_option(const char *name, size_t size, char words[SUBCOMMAND_WORDS_SIZE])
{
	for (size_t i = 0; i < there_are.count; i++) {
		const struct subcommand *one = there_are.all[i];

		snprintf(words, SUBCOMMAND_WORDS_SIZE, "%s", one->name);
		if (has_option(one, name, size))
			return true;
		for (size_t j = 0; one->verbs && one->verbs[j]; j++) {
			snprintf(words, SUBCOMMAND_WORDS_SIZE, "%s %s", one->name, one->verbs[j]->name);
			if (has_option(one->verbs[j], name, size))
				return true;
		}
	}
	return false;
}

struct invocation *invocation_new(const struct subcommand *subcommand)
{
	struct invocation *invocation = memory_zeroed(subcommand->size ? subcommand->size : sizeof(*invocation));

	invocation->subcommand = subcommand;
	invocation->signals = -1;
	options_init(&invocation->options);
	if (subcommand->init)
		subcommand->init(invocation);
	return invocation;
}

static int parse(struct invocation *invocation, int argc, char **argv)
{
	struct subcommand_parser parser;

	subcommand_parser_init(&parser, invocation->subcommand);
	if (invocation->subcommand->positional)
		invocation->options.positional = invocation->subcommand->positional;
	return options_parse(&parser.argp, argc, argv, &invocation->options);
}

/* Leaves what belongs to the command after "--" to it. */
static int words_split(struct invocation *invocation, int argc, char **argv)
{
	int own = 1;

	if (!invocation->subcommand->takes_words)
		return argc;
	while (own < argc && strcmp(argv[own], "--") != 0)
		own++;
	if (own + 1 < argc)
		invocation->words = argv + own + 1;
	return own;
}

int invocation_parse(struct invocation *invocation, int argc, char **argv)
{
	return parse(invocation, words_split(invocation, argc, argv), argv);
}

/* name: as --help calls it. */
static int libraries_check(const struct subcommand *subcommand, const char *name)
{
	struct error err;

	for (enum library i = 0; i < LIBRARY_COUNT; i++)
		if (subcommand->needs[i] && library_require(i, name, &err) < 0) {
			message("%s", err.text);
			return STATUS_FAILED;
		}
	return STATUS_DONE;
}

static int pids_check(const struct invocation *invocation, const char *name)
{
	const struct subcommand *subcommand = invocation->subcommand;
	size_t count = invocation->options.pids.count;

	if (subcommand->pids == PIDS_NONE || subcommand->pids == PIDS_ANY || count == 1 ||
	    (subcommand->pids != PIDS_ONE && count > 0))
		return 0;
	if (count > 1 && subcommand->pids_too_many)
		message("%s", subcommand->pids_too_many);
	else if (subcommand->pids_wanted)
		message("%s", subcommand->pids_wanted);
	else if (subcommand->pids == PIDS_ONE)
		message("%s needs the PID of one process: -p PID; `rbprobe ps` lists them", name);
	else
		message("%s needs -p PID; `rbprobe ps` lists the Ruby processes", name);
	return STATUS_USAGE;
}

int invocation_signals(struct invocation *invocation)
{
	if (invocation->signals >= 0)
		return invocation->signals;
	invocation->signals = signals_install();
	if (invocation->signals < 0)
		message("cannot make a pipe: %s", strerror(-invocation->signals));
	return invocation->signals;
}

int invocation_output_end(struct invocation *invocation, int status)
{
	struct output *output = &invocation->output;
	bool ended_well = status == STATUS_DONE || status == STATUS_TARGET_GONE;

	if (output->held) {
		output_release(output);
		if (pager_show(output->buffer.bytes, output->buffer.size))
			output->buffer.size = 0;
	}
	if (output->fd < 0 || (ended_well ? output_close(output) : output_give_up(output)) == 0)
		return status;
	message("%s", output->error.text);
	return STATUS_FAILED;
}

struct command invocation_command(const struct invocation *invocation)
{
	struct command command = options_command(&invocation->options, invocation->subcommand->kind);

	if (invocation->subcommand->fill)
		invocation->subcommand->fill(invocation, &command);
	return command;
}

int invocation_request(struct invocation *invocation, const pid_t *pids, size_t count)
{
	const struct request_handler *handler = &invocation->subcommand->handler;
	struct request *requests = memory_zeroed(count * sizeof(*requests));
	struct command command = invocation_command(invocation);
	int signals = invocation_signals(invocation), status;

	for (size_t i = 0; i < count; i++)
		request_open(&requests[i], pids[i], &command, &invocation->options, handler, invocation);
	status = request_run(requests, count, NULL, signals, &invocation->interrupted);
	for (size_t i = 0; i < count; i++)
		request_close(&requests[i]);
	free(requests);
	return status;
}

/* On a terminal nothing is wider than it, and what is longer has a pager, but not what comes again and again. */
static void invocation_report(struct invocation *invocation)
{
	struct output *output = &invocation->output;

	output->width = invocation->json ? 0 : term_width(output->fd);
	output->held = isatty(output->fd) && !invocation->several && !invocation->every_ns && !invocation->options.interval_ns;
}

/* Where there is a file for each process, none of it is common to them. */
static int open_output(struct invocation *invocation)
{
	const struct options *options = &invocation->options;
	char *name = NULL;
	struct error err;
	int status;

	if (options->output_path && output_name_has_pid(options->output_path) && invocation->subcommand->file_each) {
		invocation->output = (struct output){.fd = -1, .name = options->output_path};
		return 0;
	}
	if (options->output_path && output_name_has_pid(options->output_path) && invocation->subcommand->pids != PIDS_EACH) {
		message("%s makes one file of all processes: leave out the %%p of %s", invocation->subcommand->name,
		        options->output_path);
		return STATUS_USAGE;
	}
	/* As for input, - is what was given to us. */
	if (options->output_path && strcmp(options->output_path, "-") != 0)
		name = output_name_of(options->output_path, options->pids.count ? options->pids.items[0] : 0);
	status = output_open(&invocation->output, name, options->append, &err);
	if (status == 0 && invocation->subcommand->report && !options->output_path)
		invocation_report(invocation);
	if (name)
		invocation->output.name = options->output_path;
	free(name);
	if (status < 0)
		message("%s", err.text);
	return status < 0 ? STATUS_FAILED : 0;
}

bool invocation_refuses_terminal(const struct invocation *invocation, const char *what)
{
	if (invocation->output.own_fd || !isatty(invocation->output.fd))
		return false;
	message("%s is no text for a terminal: name a file with -o, or a program after a pipe", what);
	return true;
}

static int run(struct invocation *invocation)
{
	const struct options *options = &invocation->options;
	int status;

	signals_ignore_file_limit();
	status = open_output(invocation);
	if (status)
		return status;
	if (invocation->several && invocation->subcommand->heading && !invocation->json)
		buffer_add_format(&invocation->output.buffer, "%sprocess %d:\n", invocation->first ? "" : "\n",
		                  (int)options->pids.items[0]);
	if (invocation->subcommand->run)
		status = invocation->subcommand->run(invocation);
	else if (invocation->subcommand->every)
		status = invocation_repeat(invocation);
	else
		status = invocation_request(invocation, options->pids.items, options->pids.count);
	return invocation_output_end(invocation, status);
}

/* --- A run for each process */

struct each {
	struct invocation *invocation;
	struct pid_list parents, pids; /* those that were named, where their children are meant; those that are meant */
	size_t most;                   /* of pids; 0: any number */
};

/* Where they run at a time, workers come and go meanwhile. */
static size_t each_count(void *owner)
{
	struct each *each = owner;
	size_t known = each->pids.count;

	if (!each->invocation->every_ns && !each->invocation->subcommand->together)
		return known;
	for (size_t i = 0; i < each->parents.count; i++)
		choose_joining_children(each->parents.items[i], &each->pids);
	if (each->most && each->pids.count > each->most)
		each->pids.count = each->most > known ? each->most : known;
	for (size_t i = known; i < each->pids.count && !each->invocation->every_ns; i++)
		message("worker %d joined", (int)each->pids.items[i]);
	return each->pids.count;
}

static int each_run(void *owner, size_t index)
{
	struct each *each = owner;
	struct pid_list *one = &each->invocation->options.pids;

	*one = (struct pid_list){0};
	pid_list_add(one, each->pids.items[index]);
	each->invocation->several = true;
	each->invocation->first = index == 0;
	return run(each->invocation);
}

static bool is_for_each(const struct invocation *invocation)
{
	return invocation->subcommand->pids == PIDS_EACH && (invocation->options.children || invocation->options.pids.count > 1);
}

static int run_each(struct invocation *invocation)
{
	struct options *options = &invocation->options;
	struct each each = {.invocation = invocation};
	const struct apart apart = {.owner = &each,
	                            .together = invocation->every_ns != 0 || invocation->subcommand->together,
	                            .count = each_count,
	                            .run = each_run};
	int status = options->children ? choose_children_of(options, &each.parents) : 0;

	each.pids = options->pids;
	options->pids = (struct pid_list){0};
	/* What ends by itself ends also where a worker starts again and again: each may be replaced once. */
	each.most = invocation->every_ns ? 0 : 2 * each.pids.count;
	if (!status)
		status = apart_run(&apart);
	free(each.parents.items);
	free(each.pids.items);
	return status;
}

static int verbs_show(const struct subcommand *subcommand)
{
	struct buffer text = {0};
	bool shown;

	buffer_add_format(&text, "Usage: rbprobe %s VERB [OPTION...]\n%s\n\n", subcommand->name, subcommand->description);
	for (const struct subcommand *const *verb = subcommand->verbs; *verb; verb++)
		buffer_add_format(&text, "  %-7s %-22s %s\n", (*verb)->name, (*verb)->arguments, (*verb)->summary);
	buffer_add_format(&text, "\nrbprobe %s VERB --help says more.\n", subcommand->name);
	shown = pager_print(text.bytes, text.size);
	buffer_free(&text);
	return shown ? STATUS_DONE : STATUS_FAILED;
}

static void verb_refuse(const struct subcommand *subcommand, const char *word)
{
	struct nearest nearest;

	nearest_begin(&nearest, word, strlen(word));
	for (const struct subcommand *const *verb = subcommand->verbs; *verb; verb++)
		nearest_consider(&nearest, (*verb)->name);
	if (nearest.found)
		message("%s has no verb \"%s\"; did you mean %s?", subcommand->name, word, nearest.found);
	else
		message("%s has no verb \"%s\"; `rbprobe %s --help` lists them", subcommand->name, word, subcommand->name);
}

/* The one that the first argument names, with the rest of them. */
static int verb_run(const struct subcommand *subcommand, int argc, char **argv)
{
	static const char *const help[] = {"--help", "-h", "-?", "--usage"};
	const char *word = argc > 1 ? argv[1] : NULL;
	char name[64];

	if (!word) {
		message("%s needs a verb; `rbprobe %s --help` lists them", subcommand->name, subcommand->name);
		return STATUS_USAGE;
	}
	for (size_t i = 0; i < sizeof(help) / sizeof(*help); i++)
		if (strcmp(word, help[i]) == 0)
			return verbs_show(subcommand);
	for (const struct subcommand *const *verb = subcommand->verbs; *verb; verb++) {
		if (strcmp((*verb)->name, word) != 0)
			continue;
		snprintf(name, sizeof(name), "%s %s", argv[0], word);
		argv[1] = name;
		return subcommand_run(*verb, argc - 1, argv + 1);
	}
	verb_refuse(subcommand, word);
	return STATUS_USAGE;
}

/* Where there is no process that knows what was meant by a class's name. */
static int misnamed_check(const struct options *options)
{
	if (!options->selectors.misnamed.code || options->pids.count > 0)
		return 0;
	message("%s", options->selectors.misnamed.text);
	return STATUS_USAGE;
}

int subcommand_run(const struct subcommand *subcommand, int argc, char **argv)
{
	struct invocation *invocation;
	int status;

	if (subcommand->verbs)
		return verb_run(subcommand, argc, argv);
	invocation = invocation_new(subcommand);
	status = invocation_parse(invocation, argc, argv);
	if (status == 0)
		status = libraries_check(subcommand, argv[0] + strlen("rbprobe "));
	if (status == 0)
		status = choose_processes(&invocation->options, subcommand->pids == PIDS_ONE,
		                          subcommand->children_itself || subcommand->pids == PIDS_EACH);
	if (status == 0)
		status = pids_check(invocation, argv[0] + strlen("rbprobe "));
	if (status == 0)
		status = misnamed_check(&invocation->options);
	if (status == 0 && subcommand->check)
		status = subcommand->check(invocation);
	if (status == 0)
		status = is_for_each(invocation) ? run_each(invocation) : run(invocation);
	if (subcommand->free)
		subcommand->free(invocation);
	options_free(&invocation->options);
	free(invocation);
	return status;
}
