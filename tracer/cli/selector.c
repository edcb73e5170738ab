/*
 * Parsing selectors. See selector.h.
 *
 * The expressions are Ruby, which only Ruby can parse: here it is only found where one ends and the next begins, that
 * is the commas outside of brackets and strings. Whether they compile is said by the target.
 */

#include "tracer/cli/selector.h"

#include "tracer/base/buffer.h"
#include "tracer/cli/selector_quotes.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NESTING_MAX 256

static int refuse(const char *text, size_t position, struct error *err, const char *why)
{
	return error_set(err, -EINVAL, "selector \"%.200s\", character %zu: %s", text, position + 1, why);
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* "order_item#save": a class is written OrderItem. to: where the separator is. */
static int refuse_lower_case(const char *text, size_t at, size_t to, struct error *err)
{
	size_t end = at, method = to + 1 + strcspn(text + to + 1, "( \t");
	const char *name = text + to + 1;
	struct buffer class = {0};
	int status;

	while (end < to && is_word(text[end]))
		end++;
	if (method == to + 1) { /* "save#" */
		name = text + at;
		return error_set(err, -ENOENT,
		                 "selector \"%.200s\": \"%.*s\" is no class; write %.*s alone for the methods of that name in "
		                 "all classes; `rbprobe methods -p PID %.*s` lists them",
		                 text, (int)(end - at), name, (int)(end - at), name, (int)(end - at), name);
	}
	buffer_add(&class, text, at);
	for (size_t i = at; i < to; i++)
		if (text[i] != '_')
			buffer_add_char(&class, i == at || text[i - 1] == '_' ? (char)toupper((unsigned char)text[i]) : text[i]);
	status = error_set(err, -ENOENT,
	                   "selector \"%.200s\": \"%.*s\" is no class: its name begins with a capital letter; write %.*s#%.*s or "
	                   "%.*s.%.*s, or %.*s alone "
	                   "for the methods of that name in all classes",
	                   text, (int)(end - at), text + at, (int)class.size, class.bytes, (int)(method - to - 1), name,
	                   (int)class.size, class.bytes, (int)(method - to - 1), name, (int)(method - to - 1), name);
	buffer_free(&class);
	return status;
}

/* "Order", "::Order", "Billing::*", "A::B" */
static int class_check(const char *text, size_t from, size_t to, struct error *err)
{
	for (size_t i = from; i < to; i++) {
		if (text[i] == ':') {
			if (i + 1 >= to || text[i + 1] != ':')
				return refuse(text, i, err, "a single ':' in a class name; namespaces are separated by '::'");
			i++;
			if (i + 1 >= to || text[i + 1] == ':')
				return refuse(text, i, err, "a class name is missing behind '::'");
		} else if (!is_word(text[i]) && text[i] != '*') {
			return refuse(text, i, err, "this cannot be in a class name (a class, then # or ., then a method)");
		}
	}
	return 0;
}

/* How long "#<Class:0x00007f50>" is at the text's beginning, as a class without a name is shown; 0: there is none. */
static size_t nameless_size(const char *text, size_t size)
{
	size_t depth = 0;

	if (size < 3 || text[0] != '#' || text[1] != '<' || !is_word(text[2]))
		return 0;
	for (size_t i = 1; i < size; i++) {
		depth += text[i] == '<';
		if (text[i] == '>' && --depth == 0)
			return i + 1;
	}
	return 0;
}

/* In a method's name outside of quotes. */
static bool is_out_of_place(const char *name, size_t i)
{
	unsigned char c = (unsigned char)name[i];

	return c == '@' ? i == 0 : c && strchr("#),;\"'{}", c);
}

static bool method_needs_quotes(struct slice method)
{
	size_t digits = 0;

	for (size_t i = 0; i < method.size; i++)
		if (isspace((unsigned char)method.bytes[i]) || method.bytes[i] == '(' || is_out_of_place(method.bytes, i))
			return true;
	while (digits < method.size && isdigit((unsigned char)method.bytes[method.size - 1 - digits]))
		digits++;
	return method.size == 0 || name_is_escaped(method) ||
	       (digits && digits < method.size && method.bytes[method.size - 1 - digits] == ':');
}

static bool class_needs_quotes(struct slice class)
{
	struct selector named = {.class_pattern = class};
	struct error ignored;

	return selector_misnamed(&named).size ||
	       class_check(class.bytes, nameless_size(class.bytes, class.size), class.size, &ignored) < 0;
}

static void name_add(struct buffer *to, struct slice name, bool quoted)
{
	if (quoted)
		quoted_add(to, name);
	else
		buffer_add_printable(to, name.bytes, name.size);
}

void selector_add_name(struct buffer *to, struct slice class, char separator, struct slice method)
{
	name_add(to, class, class_needs_quotes(class));
	buffer_add_char(to, separator);
	name_add(to, method, method_needs_quotes(method));
}

/* A name with its ? ! or =, or an operator; with * for "anything". What else define_method takes is let through. */
static int method_check(const char *text, size_t from, size_t to, struct error *err)
{
	for (size_t i = from; i < to; i++) {
		if (isspace((unsigned char)text[i]) || iscntrl((unsigned char)text[i]))
			return refuse(text, i, err, "white space in a method name");
		if (is_out_of_place(text + from, i - from))
			return refuse(text, i, err, "this cannot be in a method name");
	}
	return 0;
}

/* What is in quotes, until the list is freed. */
static struct slice unquoted(struct selector_list *list, const char *text, size_t size)
{
	char *copy;
	struct slice name = quoted_name(text, size, &copy);

	if (copy) {
		list->copies = memory_resize(list->copies, (list->copy_count + 1) * sizeof(*list->copies));
		list->copies[list->copy_count++] = copy;
	}
	return name;
}

/* What define_method takes besides, "two words" for instance, stands in quotes. */
static int method_parse(struct selector_list *list, struct selector *selector, const char *text, size_t from, size_t to,
                        struct error *err)
{
	size_t quoted = quoted_size(text + from, to - from);

	if (quoted == 0 || from + quoted != to) {
		selector->method_pattern = (struct slice){text + from, to - from};
		return method_check(text, from, to, err);
	}
	selector->method_pattern = unquoted(list, text + from, quoted);
	return selector->method_pattern.size ? 0 : refuse(text, from, err, "a method whose name is empty cannot be selected");
}

/* Where the expressions begin, or the end. */
static size_t name_size(const char *text)
{
	size_t size = 0, total = strlen(text);

	while (text[size] && text[size] != '(') {
		size_t quoted = size == 0 || strchr("#.", text[size - 1]) ? quoted_size(text + size, total - size) : 0;

		size += quoted ? quoted : 1;
	}
	return size;
}

/* "Billing::Order::save": in Ruby a call, too; here it says not of what. */
static int refuse_class_alone(const char *text, size_t size, struct error *err)
{
	size_t last = size;

	while (text[last - 1] != ':')
		last--;
	if (last < 3 || last == size || !islower((unsigned char)text[last]))
		return refuse(text, size, err, "a class alone; add # for its instance methods or . for its singleton methods");
	return error_set(err, -EINVAL, "\"%.*s\" is no class; write %.*s#%.*s or %.*s.%.*s", (int)(size - last), text + last,
	                 (int)(last - 2), text, (int)(size - last), text + last, (int)(last - 2), text, (int)(size - last),
	                 text + last);
}

static int misnamed_check(const struct selector *selector, const char *text, size_t separator, struct error *err)
{
	struct slice part = selector_misnamed(selector);

	return part.size ? refuse_lower_case(text, (size_t)(part.bytes - text), separator, err) : 0;
}

/* "Order" or "::Order", "#<Class:0x00007f50>", and in quotes what is no path of constants. to: where the separator is. */
static int class_parse(struct selector_list *list, struct selector *selector, const char *text, size_t to, struct error *err)
{
	size_t from = to > 2 && text[0] == ':' && text[1] == ':' ? 2 : 0;

	if (to && quoted_size(text, to) == to) {
		selector->class_pattern = unquoted(list, text, to);
		return selector->class_pattern.size ? 0 : refuse(text, 0, err, "a class name is missing");
	}
	selector->class_pattern = (struct slice){text + from, to - from};
	return class_check(text, nameless_size(text, to), to, err);
}

static int name_parse(struct selector_list *list, struct selector *selector, const char *text, size_t size, struct error *err)
{
	size_t quoted = quoted_size(text, size), separator = quoted ? quoted : nameless_size(text, size);
	int status;

	while (separator < size && text[separator] != '#' && text[separator] != '.')
		separator++;
	if (separator == size) {
		for (size_t i = 0; i + 1 < size; i++)
			if (text[i] == ':' && text[i + 1] == ':')
				return refuse_class_alone(text, size, err);
		if (size && strspn(text, "0123456789") == size)
			return refuse(text, 0, err,
			              "a number is no method's name (one that define_method has made is written as Order#12)");
		return size ? method_parse(list, selector, text, 0, size, err) : refuse(text, 0, err, "a method is missing");
	}
	selector->separator = text[separator];
	if (size == 1)
		return refuse(text, 0, err, "this selects every method; that is --firehose");
	if (separator > NAME_SIZE_MAX || size - separator > NAME_SIZE_MAX)
		return refuse(text, 0, err, "the name is too long");
	status = class_parse(list, selector, text, separator, err);
	if (status == 0)
		status = method_parse(list, selector, text, separator + 1, size, err);
	return status || quoted ? status : misnamed_check(selector, text, separator, err);
}

/* How long "FILE:LINE" is at the text's beginning; 0: the text names no line. No method's or class's name ends like that. */
static size_t line_size(const char *text)
{
	for (size_t i = 1; text[i - 1] && (i == 1 || text[i - 1] != '('); i++) {
		size_t digits = text[i] == ':' && text[i - 1] != ':' ? strspn(text + i + 1, "0123456789") : 0;

		if (digits && (!text[i + 1 + digits] || text[i + 1 + digits] == '('))
			return i + 1 + digits;
	}
	return 0;
}

static int line_parse(struct selector *selector, const char *text, size_t size, struct error *err)
{
	size_t from = strncmp(text, "./", 2) == 0 ? 2 : 0, colon = size;

	while (text[colon - 1] != ':')
		colon--;
	selector->separator = SELECTOR_LINE;
	selector->class_pattern = (struct slice){text + from, colon - 1 - from};
	selector->method_pattern = (struct slice){text + colon, size - colon};
	if (selector->class_pattern.size == 0)
		return refuse(text, from, err, "a file is missing");
	if (size > NAME_SIZE_MAX)
		return refuse(text, 0, err, "the name is too long");
	return selector_line(selector) ? 0 : refuse(text, colon, err, "no file has such a line");
}

/* Where the reading of nested Ruby stands: the closing characters that are awaited, innermost last. */
struct nesting {
	char closer[NESTING_MAX];
	size_t opened_at[NESTING_MAX];
	size_t depth;
};

static bool is_string_closer(char c)
{
	return c == '"' || c == '\'' || c == '`';
}

static int nesting_open(struct nesting *nesting, const char *text, size_t at, char closer, struct error *err)
{
	if (nesting->depth == NESTING_MAX)
		return refuse(text, at, err, "nested too deeply");
	nesting->closer[nesting->depth] = closer;
	nesting->opened_at[nesting->depth++] = at;
	return 0;
}

/* A character literal, as ?, or ?( : a question mark that no name, value or blank precedes or follows. */
static bool is_character_literal(const char *text, size_t at)
{
	char before = at ? text[at - 1] : ' ';

	if (is_word(before) || before == ')' || before == ']' || before == '}' || !text[at + 1] ||
	    isspace((unsigned char)text[at + 1]))
		return false;
	return !is_word(text[at + 1]) || !is_word(text[at + 2]);
}

/* Goes over one character of Ruby, moving *at past it. */
static int ruby_step(struct nesting *nesting, const char *text, size_t *at, struct error *err)
{
	char c = text[*at], closer = nesting->depth ? nesting->closer[nesting->depth - 1] : 0;
	size_t here = (*at)++;

	if (is_string_closer(closer)) {
		if (c == '\\' && text[*at])
			(*at)++;
		else if (c == closer)
			nesting->depth--;
		else if (c == '#' && text[*at] == '{' && closer != '\'')
			return nesting_open(nesting, text, (*at)++, '}', err);
		return 0;
	}
	switch (c) {
	case '(':
		return nesting_open(nesting, text, here, ')', err);
	case '[':
		return nesting_open(nesting, text, here, ']', err);
	case '{':
		return nesting_open(nesting, text, here, '}', err);
	case '"':
	case '\'':
	case '`':
		return nesting_open(nesting, text, here, c, err);
	case '?':
		if (is_character_literal(text, here))
			*at += text[*at] == '\\' && text[*at + 1] ? 2 : 1;
		return 0;
	case ')':
	case ']':
	case '}':
		if (c != closer)
			return refuse(text, here, err, "this bracket closes nothing, or the wrong bracket");
		nesting->depth--;
		return 0;
	default:
		return 0;
	}
}

static int expression_add(struct selector *selector, const char *text, size_t from, size_t to, struct error *err)
{
	struct slice *expressions = (struct slice *)selector->expressions;

	while (from < to && isspace((unsigned char)text[from]))
		from++;
	while (to > from && isspace((unsigned char)text[to - 1]))
		to--;
	if (from == to)
		return refuse(text, from, err, "an expression is missing");
	if (selector->expression_count == EXPRESSIONS_MAX)
		return refuse(text, from, err, "more than 64 expressions");
	if (to - from > EXPRESSION_SIZE_MAX)
		return refuse(text, from, err, "the expression is longer than 65536 bytes");
	expressions = memory_resize(expressions, (selector->expression_count + 1) * sizeof(*expressions));
	expressions[selector->expression_count++] = (struct slice){text + from, to - from};
	selector->expressions = expressions;
	return 0;
}

/* From the opening parenthesis at `open` to the end of the text. */
static int expressions_parse(struct selector *selector, const char *text, size_t open, struct error *err)
{
	struct nesting nesting = {.closer = {')'}, .opened_at = {open}, .depth = 1};
	size_t at = open + 1, from = at;

	while (text[at]) {
		size_t here = at;
		int status;

		if (nesting.depth == 1 && text[at] == ',') {
			status = expression_add(selector, text, from, at++, err);
			from = at;
		} else {
			status = ruby_step(&nesting, text, &at, err);
		}
		if (status < 0)
			return status;
		if (nesting.depth == 0) {
			if (text[at])
				return refuse(text, at, err, "something follows the closing parenthesis");
			if (selector->expression_count == 0 && strspn(text + from, " \t\r\n") == here - from)
				return 0; /* "()" */
			return expression_add(selector, text, from, here, err);
		}
	}
	return refuse(text, nesting.opened_at[nesting.depth - 1], err,
	              is_string_closer(nesting.closer[nesting.depth - 1]) ? "this string is never closed"
	                                                                  : "this bracket is never closed");
}

int selector_parse(struct selector_list *list, const char *text, struct error *err)
{
	struct selector selector = {0};
	size_t line = line_size(text), name = line ? line : name_size(text);
	int status = line ? line_parse(&selector, text, line, err) : name_parse(list, &selector, text, name, err);

	if (status == -ENOENT && list->asks_process) {
		if (!list->misnamed.code)
			list->misnamed = *err;
		status = 0;
	}
	if (status == 0 && list->count == SELECTORS_MAX)
		status = error_set(err, -EINVAL, "more than %u selectors", SELECTORS_MAX);
	if (status == 0 && text[name])
		status = expressions_parse(&selector, text, name, err);
	if (status < 0) {
		free((struct slice *)selector.expressions);
		return status;
	}
	selector_list_add(list, &selector, text);
	return 0;
}

void selector_list_add(struct selector_list *list, const struct selector *selector, const char *text)
{
	list->items = memory_resize(list->items, (list->count + 1) * sizeof(*list->items));
	list->texts = memory_resize(list->texts, (list->count + 1) * sizeof(*list->texts));
	list->texts[list->count] = text;
	list->items[list->count++] = *selector;
}

void selector_list_free(struct selector_list *list)
{
	for (uint32_t i = 0; i < list->count; i++)
		free((struct slice *)list->items[i].expressions);
	for (size_t i = 0; i < list->copy_count; i++)
		free(list->copies[i]);
	free(list->items);
	free(list->texts);
	free(list->copies);
	list->items = NULL;
	list->texts = NULL;
	list->copies = NULL;
	list->copy_count = 0;
	list->count = 0;
}
