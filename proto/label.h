#ifndef RBPROBE_LABEL_H
#define RBPROBE_LABEL_H

#include "proto/slice.h"

#include <ctype.h>
#include <stdbool.h>

/*
 * Expressions with a name, `total: items.sum(&:cents)`. No Ruby expression begins with a word, a colon and a blank, so none means
 * something else by it.
 */

static inline bool label_is_word_byte(char c)
{
	return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* The name; the expression loses it. Without a name: the expression itself. */
static inline struct slice label_split(struct slice *expression)
{
	struct slice whole = *expression;
	size_t size = 0;

	while (size < whole.size && label_is_word_byte(whole.bytes[size]))
		size++;
	if (size == 0 || isdigit((unsigned char)whole.bytes[0]) || size + 2 >= whole.size || whole.bytes[size] != ':' ||
	    (whole.bytes[size + 1] != ' ' && whole.bytes[size + 1] != '\t'))
		return whole;
	*expression = (struct slice){whole.bytes + size + 1, whole.size - size - 1};
	while (expression->size && (expression->bytes[0] == ' ' || expression->bytes[0] == '\t')) {
		expression->bytes++;
		expression->size--;
	}
	return expression->size ? (struct slice){whole.bytes, size} : (*expression = whole);
}

#endif
