#ifndef RBPROBE_MESSAGE_H
#define RBPROBE_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Lines on standard error: "rbprobe: ...", each in one write, and printable whatever text of a target is in it. On a terminal
 * what is longer than that is wide is folded.
 * Only debug.c, cli/ and the rooms above cli/ speak; the rooms below fill a struct error.
 */
void message(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * One of many that may be alike: for each process, method or thread. Of those that differ in names and numbers alone the first
 * twenty are written, and message_often_end() says how many were not. After message_show_all(), which is -v, all of them are.
 */
void message_often(const char *format, ...) __attribute__((format(printf, 1, 2)));
void message_show_all(void);
void message_often_end(void);

/* Without "rbprobe: ": what another program's users know as its words. */
void message_bare(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* How long all of them together have waited for whoever reads them: `2>&1 | less`. */
uint64_t message_waited_ns(void);

/*
 * While the terminal is a screen: each of them goes there instead, without "rbprobe: " and the line's end. NULL: to standard
 * error again.
 */
void message_divert(void (*to)(const char *text, size_t size));

/* While a line of progress stands on the terminal: the bytes that take it away, before each message. NULL: none stands there. */
void message_over_line(const char *clear);

#endif
