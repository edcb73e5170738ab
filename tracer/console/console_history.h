#ifndef RBPROBE_CONSOLE_HISTORY_H
#define RBPROBE_CONSOLE_HISTORY_H

#include <stdbool.h>

/*
 * What a user has entered, in a file of theirs: one entry a line, with newline and backslash as \n and \\, mode 0600, at most
 * HISTORY_MAX entries for long. Several consoles may be open: entries are appended one by one under a lock, so that none is
 * lost or torn, and the file is shortened by replacing it. Without a file everything works but that the next console does not
 * know.
 */

#define HISTORY_MAX 2000u

struct history {
	char *path; /* NULL: none is kept */
};

/* The file's place: below $XDG_STATE_HOME or ~/.local/state. The caller's to free; NULL where there is neither. */
char *history_path(void);

/* Reads the file, if there is one, and calls add for each entry, oldest first. Negative errno: entries will not be kept. */
int history_open(struct history *history, void (*add)(const char *entry));
/* Appends one entry. Nothing is kept of what begins with a blank. */
void history_add(struct history *history, const char *entry);
void history_close(struct history *history);

#endif
