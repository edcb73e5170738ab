#ifndef RBPROBE_TERMINAL_TEXT_H
#define RBPROBE_TERMINAL_TEXT_H

#include "tracer/base/buffer.h"

#include <stdbool.h>

/*
 * What code in a process prints, on its way to the user. On a terminal it could give orders: move the cursor, change what was
 * printed before, answer for the user. So a terminal gets it as text: newlines and tabs pass, every other control character
 * is shown as an escape (buffer_add_printable). Files and pipes get every byte.
 */
struct terminal_text {
	bool filters;
	char held[4]; /* the beginning of a character of which the rest has not come yet */
	size_t held_size;
};

/* For what is written to that descriptor. */
void terminal_text_init(struct terminal_text *text, int fd);
void terminal_text_add(struct terminal_text *text, struct buffer *to, struct slice bytes);
/* What is held and will not be completed. */
void terminal_text_end(struct terminal_text *text, struct buffer *to);

#endif
