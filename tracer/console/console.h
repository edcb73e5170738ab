#ifndef RBPROBE_CONSOLE_H
#define RBPROBE_CONSOLE_H

#include "tracer/base/terminal_text.h"
#include "tracer/cli/subcommand.h"
#include "tracer/console/console_history.h"

#include <msgpack.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/types.h>

/*
 * rbprobe console: one session in which request follows request. cmd_console.c reads lines and says what becomes of
 * them; console_request.c asks the process; console_input.c is the terminal; the others are named for what they do.
 * There is one console in a run.
 */

/* How the last EVAL ended. */
enum outcome {
	OUTCOME_RETURNED,
	OUTCOME_INCOMPLETE,
	OUTCOME_FAILED, /* and it was said how */
};

struct console {
	struct invocation invocation;
	bool interactive; /* a person at a terminal: prompts, editing, history, paging */
	bool no_history;
	bool colors;
	struct request request;
	struct terminal_text out_text, err_text;
	struct history history;
	struct buffer pending; /* the lines so far of an expression that is not complete */
	struct buffer self;    /* where `cd` has led, as the process describes it; printable */
	bool failed;           /* something raised: the exit status of a script */
	bool interrupted;      /* Ctrl-C that nobody has acted upon yet */
	bool leaving;
	int signal; /* TERM or HUP: leave */

	enum outcome outcome;

	/* of the request under way */
	bool answered; /* there was DATA */
	void (*on_data)(struct console *console, const msgpack_object *object);
};

/* --- console_request.c: one question and its answer at a time. */

enum answer {
	ANSWER_DONE,
	ANSWER_FAILED, /* the process would not; it was said why */
	ANSWER_OVER,   /* the session is over: console->request.status, and it was said why */
};

/* Attaches; on_data gets the console's self. */
enum answer console_open(struct console *console, pid_t pid, const struct command *first,
                         void (*on_data)(struct console *console, const msgpack_object *object));
/*
 * Asks, and waits for the end of the answer; what the code prints goes through meanwhile. Ctrl-C cancels the request,
 * not the session. limit_ms 0: as long as it takes; else gives up quietly after that time, as ANSWER_FAILED.
 */
enum answer console_request(struct console *console, const struct command *command, uint32_t limit_ms,
                            void (*on_data)(struct console *console, const msgpack_object *object));
/*
 * While nothing is asked: waits once for one of the descriptors, a signal (console->interrupted, ->signal), or what
 * happens to the session (console->request.over). True: one of the descriptors is ready, as their revents say.
 */
bool console_wait(struct console *console, struct pollfd *descriptors, size_t count);
/* Looks which signals have come: console->interrupted, ->signal. */
void console_take_signals(struct console *console);
void console_close(struct console *console);

/* --- console_show.c */

/* The DATA of an EVAL. */
void console_show_result(struct console *console, const msgpack_object *object);
/* Text for people that may be longer than the screen. */
void console_show(struct console *console, const struct buffer *text);

/* --- console_commands.c */

/* Runs a line that is one of the console's own commands, such as `cd`. False: it is not, so it is Ruby. */
bool console_command(struct console *console, const char *line);
/* The name of the n-th, NULL after the last; for completion. */
const char *console_command_name(unsigned n);
/* The DATA of an ENTER. */
void console_note_self(struct console *console, const msgpack_object *object);

/* --- console_complete.c */

/* TAB asks this console's process from now on. */
void console_complete_install(struct console *console);

/* --- console_input.c */

enum input {
	INPUT_LINE,        /* *line is the caller's to free */
	INPUT_INTERRUPTED, /* Ctrl-C */
	INPUT_END,         /* Ctrl-D, or the end of a script */
	INPUT_OVER,        /* the session is over, or a signal ends the program */
};

void input_open(struct console *console);
enum input input_read(struct console *console, const char *prompt, char **line);
/* An entry for the history. */
void input_remember(struct console *console, const char *entry);
void input_close(struct console *console);
/* The next line of standard input, without more ado. */
enum input input_read_plain(struct console *console, char **line);

/* --- console_terminal.c, or console_terminal_without.c where there is no readline */

/* False: that cannot be. */
bool terminal_open(struct console *console);
enum input terminal_read(struct console *console, const char *prompt, char **line);
void terminal_remember(struct console *console, const char *entry);
/* Also where it was not opened. */
void terminal_close(struct console *console);

#endif
