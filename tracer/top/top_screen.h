#ifndef RBPROBE_TOP_SCREEN_H
#define RBPROBE_TOP_SCREEN_H

#include "proto/error.h"
#include "proto/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The terminal as a screen, and given back as it was on every way out: when the program ends in order, by a second signal, by a
 * lack of memory, by a crash. Between begin and end messages (message.h) are kept, and the newest is shown.
 */

/*
 * 0, or negative with err: it is no terminal, which is said in these words; or nobody knows what it can do, where `instead` says
 * what needs no screen.
 */
int top_screen_begin(const char *no_terminal, const char *instead, struct error *err);
void top_screen_end(void);
/* After top_screen_end(): what was said meanwhile goes to standard error. */
void top_screen_tell(void);

/* The next key (KEY_* of ncurses, or a character), or -1. */
int top_screen_key(void);

/* The newest message, for some seconds; {"", 0}. */
struct slice top_screen_message(uint64_t now_ns);

/* How it is drawn. */
enum top_style { TOP_PLAIN, TOP_BOLD, TOP_REVERSE, TOP_DIM };

void top_screen_size(size_t *rows, size_t *columns);
void top_screen_clear(void);
/* A line from its first column on; printable text, which is cut where the screen ends. Reverse ones fill the line. */
void top_screen_line(size_t row, struct slice text, enum top_style style);
/* Shows what was drawn since the last time. */
void top_screen_show(void);

#endif
