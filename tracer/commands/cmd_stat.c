/* rbprobe stat: count calls and their times inside the process, and show the figures. */

#include "proto/clock.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/base/output_name.h"
#include "tracer/cli/hook_question.h"
#include "tracer/cli/subcommand.h"
#include "tracer/cli/tracer_set.h"
#include "tracer/commands/otlp_run.h"
#include "tracer/commands/stat_otlp.h"
#include "tracer/commands/stat_sink.h"
#include "tracer/commands/trace_help.h"
#include "tracer/commands/trace_loop.h"

#include <errno.h>

struct stat {
	struct invocation invocation;
	struct stat_view view;
	enum stat_format format;
	bool sum;
	bool sort_given;
	bool format_given;
	struct otlp_run run;
	struct stat_otlp otlp;
};

#define OTLP_INTERVAL_NS (10 * NS_PER_S)

enum long_option {
	OPTION_CALLS = 0x200,
	OPTION_SORT,
	OPTION_TOP,
	OPTION_INTERVAL,
	OPTION_HISTOGRAM,
	OPTION_FORMAT,
	OPTION_SUM,
	OPTION_BY,
};

static int parse_format(const char *word, enum stat_format *format)
{
	static const char *const words[] = {[STAT_TEXT] = "text", [STAT_JSON] = "json", [STAT_PROMETHEUS] = "prometheus", NULL};
	unsigned chosen;

	if (options_choice("--format", word, words, &chosen))
		return EINVAL;
	*format = (enum stat_format)chosen;
	return 0;
}

static int parse_by(const char *word, struct stat *stat)
{
	static const struct {
		const char *word;
		uint32_t flag;
	} keys[] = {{"thread", TRACE_BY_THREAD}, {"class", TRACE_BY_CLASS}, {"caller", TRACE_BY_CALLER}};
	struct trace_options *options = &stat->invocation.options.trace;

	if (!word[strspn(word, " \t\n")] || strlen(word) > EXPRESSION_SIZE_MAX) {
		message("--by takes thread, class, caller, or a Ruby expression of at most %u bytes", EXPRESSION_SIZE_MAX);
		return EINVAL;
	}
	stat->view.by_title = stat->view.by = word;
	options->flags &= ~(uint32_t)TRACE_BY_KEYS;
	options->key = (struct slice){NULL, 0};
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (strcmp(word, keys[i].word) == 0) {
			options->flags |= keys[i].flag;
			return 0;
		}
	options->key = (struct slice){word, strlen(word)};
	stat->view.by = "key";
	return 0;
}

static error_t parse_stat(int key, char *argument, struct argp_state *state)
{
	struct stat *stat = state->input;

	switch (key) {
	case OPTION_CALLS:
		stat->view.calls_only = true;
		return 0;
	case OPTION_SORT:
		stat->view.sort = argument;
		stat->sort_given = true;
		if (stat_column_is(argument))
			return 0;
		options_refuse_word("--sort", argument, stat_columns());
		return EINVAL;
	case OPTION_TOP:
		return options_whole_number("--top", argument, 1, UINT32_MAX, &stat->view.top);
	case OPTION_INTERVAL:
		return options_seconds("--interval", argument, &stat->invocation.options.interval_ns);
	case OPTION_HISTOGRAM:
		stat->view.histogram = true;
		return 0;
	case OPTION_FORMAT:
		stat->format_given = true;
		return parse_format(argument, &stat->format);
	case OPTION_BY:
		return parse_by(argument, stat);
	case OPTION_SUM:
		stat->sum = true;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_option stat_list[] = {
	{"calls", OPTION_CALLS, NULL, 0, "Only count calls, which costs less: no times, no errors", 3},
	{"by", OPTION_BY, "thread|class|caller|EXPR", 0,
         "A row for each thread, each class of the receivers, each method that called, or each value of a Ruby expression of "
         "self, @ivars and arguments, of each method",
         3},
	{"sort", OPTION_SORT, "calls|rate|errors|total|self|cpu|gc|allocs|mean|min|p50|p90|p99|p99.9|max|method", 0,
         "Which rows come first: those with the most in this column (default total)", 4},
	{"top", OPTION_TOP, "N", 0, "Show so many rows", 4},
	{"histogram", OPTION_HISTOGRAM, NULL, 0, "Draw how the times of each method are spread", 4},
	{"sum", OPTION_SUM, NULL, 0, "One table for all processes together", 4},
	{"format", OPTION_FORMAT, "text|json|prometheus", 0, "A table, one JSON object a line, or metrics for Prometheus", 4},
	{"interval", OPTION_INTERVAL, "SEC", 0, "Show every SEC seconds what has come since the last time", 6},
	{0},
};

static const struct argp options_stat = {.options = stat_list, .parser = parse_stat};

static void stat_init(void *self)
{
	((struct stat *)self)->view.sort = "total";
}

/* --by may also be the name of expressions that selectors have. */
static void choose_key(struct stat *stat)
{
	struct options *options = &stat->invocation.options;

	if (!tracers_choose_key(options, options->trace.key.size ? stat->view.by_title : NULL))
		return;
	options->trace.key = (struct slice){NULL, 0};
	options->trace.flags |= TRACE_BY_VALUE;
}

/* What is wrong with a selector, and which it is; NULL: nothing. */
static const char *wrong_selector(const struct stat *stat, const char **text)
{
	const struct options *options = &stat->invocation.options;
	bool by_value = options->trace.flags & TRACE_BY_VALUE;

	for (uint32_t i = 0; i < options->selectors.count; i++) {
		*text = options->selectors.texts[i];
		if (options->selectors.items[i].expression_count &&
		    !(by_value && selector_has_key(&options->selectors.items[i], stat->view.by_title)))
			return "stat shows no values: leave out the parentheses of %s, or use --by";
		if (selector_line(&options->selectors.items[i]))
			return "stat counts calls of methods, not lines such as %s";
	}
	return NULL;
}

/* Options that have no effect beside others. */
static const char *pointless(const struct stat *stat)
{
	const struct stat_view *view = &stat->view;
	const struct trace_options *trace = &stat->invocation.options.trace;
	const char *path = stat->invocation.options.output_path;
	bool sorts_by_time = stat->sort_given && strcmp(view->sort, "calls") != 0 && strcmp(view->sort, "rate") != 0 &&
	                     strcmp(view->sort, "method") != 0;

	/* What is known only when a call ends cannot say where it is counted. */
	if (conditions_code_at_end(trace->key))
		return "--by chooses the row when a call begins, where result, error and elapsed are not known; --raised=CLASS, "
		       "--slow MS and --if EXPR count only calls that end so";
	if (stat->sum && path && output_name_has_pid(path))
		return "--sum makes one table of all processes, which has no PID for the %p in -o";
	if (trace->flags & TRACE_SPAN)
		return "--measure=span shows in which span each call was; stat sums calls up: use trace";
	if (view->calls_only && view->histogram)
		return "--calls counts no times, which --histogram shows";
	if (view->calls_only && view->measures)
		return "--calls only counts calls, which --measure measures";
	if (view->calls_only && sorts_by_time)
		return "--calls counts no times and no errors: there are --sort calls, rate and method";
	if (strcmp(view->sort, "rate") == 0 && !view->rates)
		return "--sort rate needs --interval, which brings that column";
	if (stat_column_measure(view->sort) & ~view->measures)
		return "--sort cpu, gc and allocs need --measure, which brings that column";
	if (view->histogram && stat->format == STAT_PROMETHEUS)
		return "--format prometheus has no place for --histogram";
	if (stat->invocation.options.otlp && stat->format_given)
		return "--otlp sends metrics in the format of OpenTelemetry: leave out --format";
	if (stat->invocation.options.otlp && (view->histogram || view->top))
		return "--otlp sends the figures of all methods: leave out --top and --histogram";
	if (!view->tree)
		return NULL;
	if (stat->invocation.options.otlp)
		return "--otlp has no place for a --tree";
	if (conditions_at_end(&trace->conditions))
		return "stat --tree counts calls by the calls around them, and cannot go with conditions that are known at their "
		       "end "
		       "(--slow, --slow-cpu, --raised, --if of a result); trace --tree can";
	if (view->by)
		return "--tree counts calls by the calls around them, --by by something else: give one of them";
	if (view->calls_only)
		return "--calls does not follow calls, as --tree has to";
	if (view->histogram)
		return "--tree has no place for --histogram";
	if (stat->format == STAT_PROMETHEUS)
		return "--format prometheus has no place for a --tree";
	return NULL;
}

static int stat_check(void *self)
{
	struct stat *stat = self;
	struct options *options = &stat->invocation.options;
	uint32_t tree = options->trace.flags & TRACE_TREE;
	const char *wrong, *text = "";
	int status = tracers_refuse_events(options, "stat");

	if (!status)
		status = otlp_run_check(options);
	if (!status && options->trace.key.size)
		status = tracers_check_key(options, stat->view.by_title);
	if (status)
		return status;
	if (options->otlp && !options->interval_ns)
		options->interval_ns = OTLP_INTERVAL_NS;
	choose_key(stat);
	stat->view.tree = tree;
	stat->view.whole = options->verbose;
	stat->view.rates = options->interval_ns;
	stat->view.measures = options->trace.flags & TRACE_MEASURES;
	/* Of other subcommands it wants such conditions. */
	options->trace.flags &= ~tree;
	status = options_check_trace(options);
	wrong = status ? NULL : wrong_selector(stat, &text);
	if (wrong)
		message(wrong, text);
	else if (!status && (wrong = pointless(stat)))
		message("%s", wrong);
	options->trace.flags |= TRACE_COUNT | tree | (stat->view.calls_only ? TRACE_NO_TIMES : 0);
	return wrong ? STATUS_USAGE : status;
}

static struct sink *make_sink(void *owner, struct output *output)
{
	struct stat *stat = owner;
	struct sink *sink = sink_new(&sink_stat, output, &stat->invocation.options.style);
	struct stat_sink *figures = (struct stat_sink *)sink;

	figures->view = stat->view;
	figures->format = stat->format;
	figures->sum = stat->sum;
	if (!stat->invocation.options.otlp)
		return sink;
	figures->format = STAT_OTLP;
	figures->otlp = &stat->otlp;
	return sink;
}

static void end_sink(void *owner, struct sink *sink)
{
	(void)owner;
	stat_sink_end((struct stat_sink *)sink);
}

static int count(struct stat *stat, int signals, struct error *question)
{
	const struct sink_maker maker = {.make = make_sink, .end = end_sink, .owner = stat};

	return trace_loop(&stat->invocation.options, &stat->invocation.output, &maker, signals, 0, question);
}

static int stat_run(void *self)
{
	struct stat *stat = self;
	struct options *options = &stat->invocation.options;
	struct error question = {0};
	int signals = invocation_signals(&stat->invocation), status;

	if (signals < 0)
		return STATUS_FAILED;
	status = options->otlp ? otlp_run_open(&stat->run, options, OTLP_METRICS) : 0;
	if (status)
		return status;
	stat->otlp = (struct stat_otlp){.run = &stat->run,
	                                .delta = stat->run.settings.delta,
	                                .exponential = stat->run.settings.as & OTLP_AS_EXPONENTIAL,
	                                .measures = stat->view.measures};
	options_settle(options, stat->invocation.output.fd);
	status = count(stat, signals, hook_question_possible(options) ? &question : NULL);
	if (question.code && hook_question_ask(options, question.text, signals))
		status = count(stat, signals, NULL);
	stat_otlp_free(&stat->otlp);
	return otlp_run_close(&stat->run, signals, status);
}

const struct subcommand cmd_stat = {
	.name = "stat",
	.arguments = "-p PID[,PID...] SELECTOR...",
	.summary = "count calls and the time they take",
	.usage = "-p PID SELECTOR...",
	.description =
		"Count method calls, and the time they take, inside running Ruby processes. Nothing is streamed: a call costs "
		"far less than with `rbprobe trace`. The figures are shown at the end (--duration, Ctrl-C, or the end of the "
		"process), or every --interval.\v" TRACE_HELP_SELECTORS
		"total: the time of all calls together; self: without the time of counted calls inside of them. A method that "
		"calls itself has all of its calls in both.\n\n" TRACE_HELP_STATUS,
	.pids = PIDS_SOME,
	.children_itself = true,
	.file_each = true,
	.timeout = TRACE_HELP_TIMEOUT,
	.options = (const struct argp *const[]){&options_selectors, &options_tracers, &options_run, &options_file, &options_otlp,
                                                &options_stat, &options_measure, &options_conditions, &options_engine, NULL},
	.size = sizeof(struct stat),
	.init = stat_init,
	.check = stat_check,
	.run = stat_run,
};
