#ifndef RBPROBE_SUBCOMMAND_H
#define RBPROBE_SUBCOMMAND_H

#include "tracer/base/library.h"
#include "tracer/base/output.h"
#include "tracer/cli/options.h"
#include "tracer/cli/request.h"

#include "proto/command.h"

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * A subcommand is a file cmd_NAME.c with a struct subcommand, and a line in commands/subcommands.h. It says what it
 * takes and what it requests; subcommand_run() does the rest: it parses, opens the output, makes the request of each
 * process, shows the answers by the subcommand's callbacks, ends all of it and knows the exit status. cmd_fork.c is the
 * shortest example.
 */

/*
 * How many processes -p names. Where there are any, or the subcommand has a timeout, it also takes --timeout and what
 * else all that attach take (-q, -v, --no-load, --interrupt).
 */
enum subcommand_pids {
	PIDS_NONE, /* there is no -p */
	PIDS_ONE,
	PIDS_SOME, /* one or more */
	PIDS_EACH, /* as well; where there are several, each has a run of its own, in a process of its own */
	PIDS_ANY,  /* none also: check() sees whether that is right */
};

/* What the shell completes where no option is. */
enum subcommand_words {
	WORDS_OTHER, /* nothing: selectors, code */
	WORDS_FILES,
	WORDS_PROGRAM,
};

/* One run of a subcommand. A subcommand that has variables of its own has a struct that begins with this one. */
struct invocation {
	struct options options; /* first: argp's parsers, those of the subcommand, too, get it as their input */
	const struct subcommand *subcommand;
	char **words;      /* takes_words: what follows "--"; NULL: nothing does */
	bool json;         /* --format json */
	uint64_t every_ns; /* --every; 0: once */
	uint64_t count;    /* --count; 0: no limit */
	uint64_t rounds;   /* how many requests of invocation_repeat() are over */
	bool several;      /* PIDS_EACH: this run is one of several */
	bool first;        /* PIDS_EACH: it is the first of them, or the only one */
	struct output output;
	int signals;      /* what signals_install() returned; -1: not installed */
	bool interrupted; /* by a signal, while invocation_request() waited */
};

struct subcommand {
	const char *name;
	const char *alias;     /* another name, or NULL */
	const char *arguments; /* as the overview shows them */
	const char *summary;

	/*
	 * Subcommands of its own, up to a NULL; its first argument says which. Then it has a description, which is said
	 * above their list, and nothing else of what follows.
	 */
	const struct subcommand *const *verbs;

	/* --- What it takes. All functions get the invocation, or the struct that begins with it. */

	const char *usage;       /* for --help: the forms of its arguments, one a line */
	const char *description; /* for --help: above the options and, after \v, below them */
	enum subcommand_pids pids;
	bool children_itself;              /* --children: run() looks for them */
	bool file_each;                    /* -o with %p: run() opens the files, and output is none */
	bool together;                     /* PIDS_EACH: its runs run at a time, as they do with --every; workers join */
	bool heading;                      /* PIDS_EACH: what runs show does not say of which process it is; a line does */
	const char *pids_wanted;           /* said where -p names too few or too many; NULL: the usual sentence */
	const char *pids_too_many;         /* said where it names too many; NULL: as for too few */
	const char *format;                /* what --help says about --format text|json; NULL: there is no such option */
	const char *every;                 /* what --help says about --every SEC; NULL: neither that nor --count */
	const char *timeout;               /* what --help says about --timeout SEC; NULL: that it limits attaching */
	const struct argp *const *options; /* its other options, up to a NULL */
	const struct argp *positional;     /* the one of them that takes what is no option; NULL: options_selectors, if listed */
	bool takes_words;                  /* what follows "--" is a command of its own */
	enum subcommand_words words;
	bool needs[LIBRARY_COUNT]; /* refused where rbprobe was built without one of these libraries */
	bool report;               /* what it prints is read as a whole: on a terminal, through a pager */
	size_t size;               /* of its struct; 0: it has none */
	void (*init)(void *self);  /* before parsing */
	int (*check)(void *self);  /* after it. Returns 0, or a status after a line on stderr */

	/* --- What it does: a request of each process, one of one process as often as --every says, or whatever run() does. */

	enum command_kind kind;
	void (*fill)(const void *self, struct command *command); /* the request's arguments; NULL: it has none */
	struct request_handler handler;                          /* its owner is the invocation */

	int (*run)(void *self); /* Returns a status */
	void (*free)(void *self);
};

#define SUBCOMMAND_WORDS_SIZE 64

/* All that there are, for as long as the program runs: an option that one of them has not may be another's. */
void subcommands_know(const struct subcommand *const *all, size_t count);
/* The words of the first whose own options have this long name, "heap report". False: none has. */
bool subcommand_with_option(const char *name, size_t size, char words[SUBCOMMAND_WORDS_SIZE]);

/* argv[0] is "rbprobe NAME". Returns an enum exit_status. */
int subcommand_run(const struct subcommand *subcommand, int argc, char **argv);

/*
 * A run of it, before its line is read; memory of malloc(). Then what a line says: 0, or STATUS_USAGE after a line on stderr, and
 * --help ends the program. Nothing is opened, and no process is looked at.
 */
struct invocation *invocation_new(const struct subcommand *subcommand);
int invocation_parse(struct invocation *invocation, int argc, char **argv);

#define SUBCOMMAND_PARTS_MAX 20 /* of its options */

/* A subcommand's options together. It points into itself: it stays where it is. The subcommand has no verbs. */
struct subcommand_parser {
	struct argp_option format_list[2], timeout_list[2], every_list[3];
	struct argp format, timeout, every;
	struct argp_child parts[SUBCOMMAND_PARTS_MAX];
	struct argp argp;
};

void subcommand_parser_init(struct subcommand_parser *parser, const struct subcommand *subcommand);

/* --- For run() */

/* Whether its result would go to a terminal, which would take bytes that are no text for its commands; it says so of what. */
bool invocation_refuses_terminal(const struct invocation *invocation, const char *what);

/* The subcommand's request. */
struct command invocation_command(const struct invocation *invocation);
/*
 * Makes the subcommand's request of count processes at a time, and waits for all answers. Returns the first status that
 * is not STATUS_DONE.
 */
int invocation_request(struct invocation *invocation, const pid_t *pids, size_t count);
/*
 * Makes the subcommand's request of the process, and makes it again as --every and --count say, within one session, until
 * a signal or until nobody reads the output. Returns a status. The handler's done() is not called.
 */
int invocation_repeat(struct invocation *invocation);
/*
 * The descriptor for signals (signals.h), whose handlers are installed at the first call. Negative, after a line on
 * stderr: impossible.
 */
int invocation_signals(struct invocation *invocation);
/* Ends the output, for those who have more to do after it. Returns the status, or STATUS_FAILED after a line on stderr. */
int invocation_output_end(struct invocation *invocation, int status);

#endif
