#ifndef RBPROBE_TERM_H
#define RBPROBE_TERM_H

#include <stdbool.h>

enum color_choice { COLORS_AUTO, COLORS_ALWAYS, COLORS_NEVER };

/* Whether to colour what is written to fd. AUTO: on a terminal, unless NO_COLOR is set or TERM is "dumb". */
bool term_colors(int fd, enum color_choice choice);

/* How many columns the terminal has that fd is; 0: it is none, or does not tell. */
unsigned term_width(int fd);
/* The same for its rows. */
unsigned term_height(int fd);

#endif
