#ifndef RBPROBE_MESSAGE_H
#define RBPROBE_MESSAGE_H

/*
 * Lines on standard error: "rbprobe: ...", each in one write, and printable whatever text of a target is in it.
 * Only main() and the subcommands speak; everybody else fills a struct error.
 */
void message(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
