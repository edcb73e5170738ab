/* From names of methods to selectors. See top_select.h. */

#define _GNU_SOURCE
#include "tracer/top/top_select.h"

#include "tracer/cli/selector.h"

#include <stdlib.h>
#include <string.h>

static bool has_star(struct slice text)
{
	return text.size && memchr(text.bytes, '*', text.size) != NULL;
}

static bool is_operator(struct slice name)
{
	return (name.size == 1 && name.bytes[0] == '*') || (name.size == 2 && memcmp(name.bytes, "**", 2) == 0);
}

bool top_select_one(struct slice name)
{
	struct selector_list list = {0};
	struct error err;
	char text[600];
	bool is_one;

	/* A backslash is none of the name's: it was escaped. */
	if (name.size >= sizeof(text) || memchr(name.bytes, '\\', name.size) || memchr(name.bytes, '\0', name.size))
		return false;
	memcpy(text, name.bytes, name.size);
	text[name.size] = '\0';
	is_one = selector_parse(&list, text, &err) == 0 && !list.items[0].expression_count && !selector_line(&list.items[0]) &&
	         list.items[0].separator && list.items[0].class_pattern.size && list.items[0].method_pattern.size &&
	         !has_star(list.items[0].class_pattern) &&
	         (!has_star(list.items[0].method_pattern) || is_operator(list.items[0].method_pattern)) && !strchr(text, '(');
	selector_list_free(&list);
	return is_one;
}

struct slice top_select_in_label(struct slice label)
{
	static const char in[] = " in ";
	const char *found;

	while (label.size && (found = memmem(label.bytes, label.size, in, sizeof(in) - 1))) {
		label.size -= (size_t)(found - label.bytes) + sizeof(in) - 1;
		label.bytes = found + sizeof(in) - 1;
	}
	return label.size && top_select_one(label) ? label : (struct slice){NULL, 0};
}
