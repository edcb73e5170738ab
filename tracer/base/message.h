#ifndef RBPROBE_MESSAGE_H
#define RBPROBE_MESSAGE_H

/*
 * Lines on standard error: "rbprobe: ...", each in one write, and printable whatever text of a target is in it.
 * Only debug.c, cli/ and the rooms above cli/ speak; the rooms below fill a struct error.
 */
void message(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
