/* Names of a process, as selectors that a word may become. See complete_request.h. */

#include "tracer/cli/complete_request.h"

#include "proto/character.h"
#include "proto/fnv.h"
#include "tracer/base/utf8.h"
#include "tracer/cli/selector.h"

#include <ctype.h>
#include <string.h>

#define NAME_SHOWN_MAX 200 /* bytes; nobody chooses a longer one from a list */

/* --- Which names are plain */

/* Spaces, and what is seen as one or not at all. character_is_harmful() has the rest. */
static bool is_invisible(uint32_t code)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {
		{0x20, 0x20},       {0xa0, 0xa0},       {0x34f, 0x34f},      {0x600, 0x605},     {0x6dd, 0x6dd},
		{0x70f, 0x70f},     {0x890, 0x891},     {0x8e2, 0x8e2},      {0x115f, 0x1160},   {0x1680, 0x1680},
		{0x17b4, 0x17b5},   {0x180b, 0x180f},   {0x2000, 0x200a},    {0x202f, 0x202f},   {0x205f, 0x205f},
		{0x2800, 0x2800},   {0x3000, 0x3000},   {0x3164, 0x3164},    {0xe000, 0xf8ff},   {0xfdd0, 0xfdef},
		{0xfe00, 0xfe0f},   {0xffa0, 0xffa0},   {0xfff0, 0xfffd},    {0x110bd, 0x110bd}, {0x110cd, 0x110cd},
		{0x13430, 0x1345f}, {0x1bca0, 0x1bca3}, {0xe0000, 0x10ffff},
	};

	for (size_t i = 0; i < sizeof(ranges) / sizeof(*ranges); i++)
		if (code >= ranges[i].first && code <= ranges[i].last)
			return true;
	return false;
}

/* Text that a terminal shows as it is. A backslash means more than itself to the shell, and to a selector. */
static bool is_plain(struct slice name)
{
	uint32_t code;

	if (!name.size || name.size > NAME_SHOWN_MAX || memchr(name.bytes, '\\', name.size))
		return false;
	for (size_t i = 0, size; i < name.size; i += size) {
		size = utf8_sequence(name.bytes + i, name.size - i, &code);
		if (!size || character_is_harmful(code) || is_invisible(code))
			return false;
	}
	return true;
}

/* As a class does: a shell appends no blank. */
static bool ends_open(struct slice name)
{
	return strchr("#.:", name.bytes[name.size - 1]) != NULL;
}

static bool is_same(struct slice one, struct slice other)
{
	return one.size == other.size && memcmp(one.bytes, other.bytes, one.size) == 0;
}

static bool begins_with(struct slice text, struct slice beginning)
{
	return text.size >= beginning.size && memcmp(text.bytes, beginning.bytes, beginning.size) == 0;
}

/* Whether a selector of these is read as what it was made of. */
static bool is_read_back(struct slice class, char separator, struct slice method)
{
	struct selector_list list = {0};
	struct buffer text = {0};
	struct error ignored;
	bool same;

	buffer_add_slice(&text, class);
	buffer_add_char(&text, separator);
	buffer_add_slice(&text, method);
	buffer_add_char(&text, '\0');
	same = selector_parse(&list, text.bytes, &ignored) == 0 && list.count == 1 && list.items[0].separator == separator &&
	       !list.items[0].expression_count && is_same(list.items[0].class_pattern, class) &&
	       is_same(list.items[0].method_pattern, method);
	selector_list_free(&list);
	buffer_free(&text);
	return same;
}

/* A star in it would stand for anything; alone it is an operator. */
static bool is_pattern(struct slice method)
{
	return memchr(method.bytes, '*', method.size) && !is_same(method, (struct slice){"*", 1}) &&
	       !is_same(method, (struct slice){"**", 2});
}

/* --- What is asked */

static bool is_in_name(char c)
{
	return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* "Ord", "Shop::", "Shop::Ord": each part begins as a constant does. */
static bool may_be_class(struct slice text)
{
	for (size_t i = 0; i < text.size; i++) {
		bool begins = i == 0 || text.bytes[i - 1] == ':';

		if (text.bytes[i] == ':' ? i == 0 : !is_in_name(text.bytes[i]))
			return false;
		if (begins && (islower((unsigned char)text.bytes[i]) || isdigit((unsigned char)text.bytes[i])))
			return false;
	}
	return text.size > 0;
}

/* The selector that finds them: of a class's beginning the methods of all such classes, which name these. */
static void make_selector(struct selector_search *search)
{
	struct slice begun = search->separator ? search->method : search->class;

	if (begun.size) {
		buffer_add_slice(&search->pattern, begun);
		buffer_add_char(&search->pattern, '*');
		begun = (struct slice){search->pattern.bytes, search->pattern.size};
	}
	search->selector = (struct selector){.class_pattern = search->separator ? search->class : begun,
	                                     .separator = search->separator,
	                                     .method_pattern = search->separator ? begun : (struct slice){"", 0},
	                                     .flags = SELECTOR_OPTIONAL};
}

bool selector_search_begin(struct selector_search *search, const char *typed, size_t size_each, size_t size_max)
{
	size_t outer = strncmp(typed, "::", 2) == 0 ? 2 : 0, class = strcspn(typed + outer, "#."), size = strlen(typed);

	*search = (struct selector_search){.typed = {typed, size},
	                                   .outer = {typed, outer},
	                                   .class = {typed + outer, class},
	                                   .separator = typed[outer + class],
	                                   .size_each = size_each,
	                                   .size_left = size_max};
	if (search->separator)
		search->method = (struct slice){typed + outer + class + 1, size - outer - class - 1};
	if (!is_plain(search->typed) || !may_be_class(search->class))
		return false;
	/* Neither a pattern nor what stands in parentheses is completed. */
	if (search->separator && (memchr(search->method.bytes, '*', search->method.size) ||
	                          !is_read_back(search->class, search->separator, search->method)))
		return false;
	make_selector(search);
	return true;
}

struct command selector_search_command(const struct selector_search *search)
{
	return (struct command){.kind = COMMAND_METHODS, .selector_count = 1, .selectors = &search->selector};
}

/* --- What has come */

static bool offer(struct selector_search *search, struct slice class, const char *separator, struct slice method)
{
	size_t separator_size = strlen(separator), size = search->outer.size + class.size + separator_size + method.size;
	size_t line = search->answer.size;
	uint64_t hash;

	if (search->size_left < size + search->size_each)
		return false;
	buffer_add_slice(&search->answer, search->outer);
	buffer_add_slice(&search->answer, class);
	buffer_add(&search->answer, separator, separator_size);
	buffer_add_slice(&search->answer, method);
	hash = fnv64_add(FNV64_BEGIN, (struct slice){search->answer.bytes + line, size});
	if (number_index_get(&search->known, hash) != NUMBER_INDEX_NONE) {
		search->answer.size = line;
		return true;
	}
	number_index_put(&search->known, hash, 0);
	buffer_add_char(&search->answer, '\n');
	search->size_left -= size + search->size_each;
	return true;
}

/* A prepended module may have the method, or the class another name: what was typed is what finds it. */
static bool take_method(struct selector_search *search, struct slice method)
{
	const char separator[] = {search->separator, '\0'};

	if (!begins_with(method, search->method) || !is_plain(method) || ends_open(method) || is_pattern(method) ||
	    !is_read_back(search->class, search->separator, method))
		return true;
	return offer(search, search->class, separator, method);
}

/* Of "Shop::Order", where "Sh" was typed, "Shop::". */
static bool take_class(struct selector_search *search, struct slice class, char separator)
{
	const char separator_text[] = {separator, '\0'};
	const struct slice nothing = {"", 0};
	size_t end = search->class.size;
	bool goes_on;

	if (!begins_with(class, search->class) || (separator != '#' && separator != '.'))
		return true;
	/* "Shop:" */
	if (end && search->class.bytes[end - 1] == ':' && end < class.size && class.bytes[end] == ':')
		end++;
	while (end < class.size && class.bytes[end] != ':')
		end++;
	goes_on = end < class.size;
	class.size = end;
	if (!is_plain(class) || !is_read_back(class, '#', nothing))
		return true;
	return offer(search, class, goes_on ? "::" : separator_text, nothing);
}

bool selector_search_take(struct selector_search *search, const struct record_match *match)
{
	if (search->separator)
		return take_method(search, match->method_name);
	return take_class(search, match->class_name, match->separator);
}

void selector_search_free(struct selector_search *search)
{
	buffer_free(&search->answer);
	buffer_free(&search->pattern);
	number_index_free(&search->known);
}
