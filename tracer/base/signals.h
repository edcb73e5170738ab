#ifndef RBPROBE_SIGNALS_H
#define RBPROBE_SIGNALS_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * INT, TERM and HUP as something to poll. The handlers interrupt a blocking write to a stalled pipe, which a signalfd
 * would not; the second of them leaves the program at once, removing what an attach has left in /tmp.
 */

/* Installs the handlers and ignores SIGPIPE; once is enough. Returns the descriptor that becomes readable, or -errno. */
int signals_install(void);

/* USR1, too, from now on: it is a question of the user's, and ends nothing. After signals_install(). */
void signals_take_questions(void);

/* The signal that came last (0: none since the last call), and whether a process sent it rather than the terminal. */
int signals_take(bool *sent_by_process);

/* What one that ends the program did to it: "interrupted". */
const char *signals_word(int number);

/* A program that lives on after a signal: the next one is a first one again. */
void signals_forgive(void);

/* A program in which Ctrl-C ends other things than the program: no number of INTs ends it from now on. */
void signals_outlive_interrupts(void);

/* A file that reaches the limit of its size (setrlimit) is an error of write() from now on, and no end of the program. */
void signals_ignore_file_limit(void);

/* In a child between fork and exec: back to what the program was started with. */
void signals_restore(void);

#endif
