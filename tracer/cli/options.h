#ifndef RBPROBE_OPTIONS_H
#define RBPROBE_OPTIONS_H

#include "tracer/attach/attach.h"
#include "tracer/base/term.h"
#include "tracer/cli/selector.h"
#include "tracer/cli/tracer_file.h"
#include "tracer/stream/sink.h"

#include "proto/command.h"

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The options that subcommands share, as argp children: each subcommand lists those it takes and gives the same struct
 * options to all. A parser prints one line about the first thing that is wrong and makes options_parse() fail.
 */

struct pid_list {
	pid_t *items;
	size_t count;
};

/* --order: whether the lines of a thread's outermost call are kept together. */
enum order_choice { ORDER_AUTO, ORDER_THREAD, ORDER_TIME };

struct options {
	/* target */
	struct pid_list pids;
	const char *ps_pattern, *wait_pattern; /* parts of command lines, or NULL; choose_processes.h makes PIDs of them */
	bool all_processes, children;
	uint64_t timeout_ns;
	bool may_be_unlimited; /* set before parsing: --timeout 0 is allowed */
	bool unlimited;        /* --timeout 0: the request may take any time; timeout_ns is still that of attaching */
	bool no_load;          /* a process without the extension is an error */
	bool interrupt;        /* what the main thread waits in may be cut short */
	bool quiet;
	bool verbose;
	/* what */
	bool selectors_optional;        /* set before the check: there may be none */
	struct selector_list selectors; /* those of the tracers included; tracer_set.h */
	struct tracer_file *tracers;
	uint32_t tracer_count;
	struct trace_options trace;
	bool overhead_given; /* --max-overhead, 0 included */
	/* how it is shown */
	const struct sink_ops *format;
	struct sink_style style;
	enum color_choice colors;
	enum order_choice order;
	const char *output_path;
	bool append;
	bool otlp;            /* it is sent, not shown: */
	const char *otlp_url; /* there; NULL: where the environment says */
	unsigned otlp_as;     /* how it is written: flags of enum otlp_as */
	/* until when */
	uint64_t duration_ns; /* 0: no limit */
	uint64_t count;       /* 0: no limit */
	uint64_t size_max;    /* bytes of the output; 0: no limit */
	uint64_t interval_ns; /* how often processes are asked what they have counted; 0: at the end only */
	/* the child of a subcommand's argp that takes what is no option; options_selectors unless set before parsing */
	const struct argp *positional;
	/* private, while parsing: argp's own root is a wrapper around ours */
	const struct argp *argp;
};

extern const struct argp options_target;     /* -p, as often as wanted, --ps, --all, --wait, --children */
extern const struct argp options_target_one; /* -p, --ps, --wait of one process; that it is one is for the caller to check */
extern const struct argp options_session;    /* --no-load --interrupt -q -v */
extern const struct argp options_talk;       /* -q -v, where there is no session */
extern const struct argp options_color;      /* --color */
extern const struct argp options_engine;     /* --engine */
extern const struct argp options_selectors;  /* -m and everything that is not an option */
extern const struct argp options_tracers;    /* -c; tracer_options.c */
extern const struct argp options_conditions; /* which calls are shown; condition_options.c */
extern const struct argp options_filter;     /* those that can be applied afterwards, to what was recorded */
extern const struct argp options_always;     /* and which of them in any case; always_options.c */
extern const struct argp options_measure;    /* what is measured of them, and ... */
extern const struct argp options_stack;      /* ... who called; action_options.c */
extern const struct argp options_events;     /* events beside calls; event_options.c */
extern const struct argp options_run;        /* which methods altogether, and until when */
extern const struct argp options_file;       /* where to */
extern const struct argp options_one_file;   /* the same, where it is one file of all processes */
extern const struct argp options_otlp;       /* or else; otlp_options.c */
extern const struct argp options_trace;      /* what of the calls, ... */
extern const struct argp options_shown;      /* ... how it is shown, and until how many; shown_options.c */

struct attach_manner options_manner(const struct options *options);

void options_init(struct options *options);
void options_free(struct options *options);

/* Returns 0, or STATUS_USAGE after a line on stderr. --help prints and ends the program. */
int options_parse(const struct argp *argp, int argc, char **argv, struct options *options);

/* For parsers of a subcommand's own: 0, or EINVAL after a line on stderr that names the option. */
int options_whole_number(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *number);
int options_seconds(const char *option, const char *text, uint64_t *ns);
int options_milliseconds(const char *option, const char *text, uint64_t *ns);
/* Bytes; K, M or G may follow, of 1024 each. */
int options_size(const char *option, const char *text, uint64_t *size);
int options_pattern(const char *option, const char *of_what, const char *text, struct slice *pattern);
/* Of classes; without a text it stays as it is. */
int options_exceptions(const char *option, const char *text, struct slice *pattern);
/* One of the words, up to a NULL, that stand for 0, 1, ... */
int options_choice(const char *option, const char *text, const char *const *words, unsigned *chosen);
/* Says on stderr that the text is none of the words, which there are, and which of them was probably meant. */
void options_refuse_word(const char *option, const char *text, const char *const *words);
/* Of -o FILE, where %p stands for the PID. */
int options_output_name(const char *text);
/* Adds those that are not yet in the list. */
int options_pids(char *text, struct pid_list *pids);
void pid_list_add(struct pid_list *pids, pid_t pid);
/* Whether the text can only name processes: "12", "12,13". */
bool options_are_pids(const char *text);
int options_timeout(const char *text, struct options *options);

/* What is wrong with the conditions together, or NULL. Puts the selectors of methods that are shown before those of others. */
const char *options_check_conditions(struct options *options);
/* The same of options_filter, whose selectors have no expressions. */
const char *options_check_filter(const struct options *options);
/* As part of that. */
const char *options_check_always(struct options *options);
/* Adds a selector: 0, or EINVAL after a line on stderr. */
int options_selector(struct options *options, const char *text);
/* Adds the selector of an option that takes one of a method; NULL after a line on stderr. */
struct selector *options_method_selector(struct options *options, const char *option, const char *text);

/* The same of how it is shown, where it is shown at once. */
int options_check_shown(const struct options *options);

/* What no single option can see. Returns 0, or STATUS_USAGE after a line on stderr. */
int options_check_trace(struct options *options);

/* The trace command these options describe. */
struct command options_command(const struct options *options, enum command_kind kind);

/* How long a request may be under way, as the timeout of its command. */
uint32_t options_limit_ms(const struct options *options);

/* Decides what depends on several options: colours, and the PID on each line. */
void options_settle(struct options *options, int output_fd);

#endif
