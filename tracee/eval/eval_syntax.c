/*
 * Syntax errors: which they are, where, and whether more code could mend them. See eval.h.
 *
 * All that Ruby tells is the message. Up to 3.3, and later where another parser is chosen, it is "FILE:LINE: what" for each
 * error, mostly with the line and a caret under it; from 3.4 on an excerpt of the code with "> LINE | code" and carets under it.
 * Context: the thread that ran it, GVL held.
 */

#define _GNU_SOURCE
#include "tracee/eval/eval.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct line {
	const char *bytes;
	size_t size;
};

/* The next line of the rest, without its end; false: there is none. */
static bool next_line(struct line *rest, struct line *line)
{
	const char *end;

	if (rest->size == 0)
		return false;
	end = memchr(rest->bytes, '\n', rest->size);
	line->bytes = rest->bytes;
	line->size = end ? (size_t)(end - rest->bytes) : rest->size;
	rest->bytes += line->size + (end ? 1 : 0);
	rest->size -= line->size + (end ? 1 : 0);
	return true;
}

static bool contains(const struct line *line, const char *text)
{
	return memmem(line->bytes, line->size, text, strlen(text)) != NULL;
}

/* What an error says that is one only because the code ends here. */
static const char *const missing[] = {
	"unexpected end-of-input", "unexpected $end",     "unexpected end of file", "meets end of file",
	"anywhere before EOF",     "to close the ",       "to end with `",          "expected a closing",
	"unterminated ",           "expected a matching", "incomplete expression",  "incomplete character syntax",
};

static bool is_missing(const struct line *line)
{
	for (size_t i = 0; i < sizeof(missing) / sizeof(*missing); i++)
		if (contains(line, missing[i]))
			return true;
	return false;
}

/* The parser of 3.4 and later tells in several ways what it would need, without having met anything that is wrong. */
static bool is_consequence(const struct line *line)
{
	return (contains(line, "expected ") && !contains(line, "unexpected ")) ||
	       contains(line, "could not parse the endless method");
}

/* Where the caret is in "     ^" or "    |   ^~~ what is wrong", counted from 1; 0: it is no such line. */
static uint64_t caret_column(const struct line *line)
{
	size_t at = 0, begin = 0;

	while (at < line->size && (line->bytes[at] == ' ' || line->bytes[at] == '\t'))
		at++;
	if (at < line->size && line->bytes[at] == '|') {
		begin = at + 2;
		for (at = begin; at < line->size && (line->bytes[at] == ' ' || line->bytes[at] == '\t'); at++)
			;
	}
	return at < line->size && line->bytes[at] == '^' ? at - begin + 1 : 0;
}

/* The number in "FILE:12: what" and "> 12 | code"; 0: it is no such line. */
static uint64_t line_number(const struct line *line, VALUE name)
{
	size_t at = (size_t)RSTRING_LEN(name) + 1;
	char digits[24] = "";
	size_t count = 0;

	if (line->size > 2 && line->bytes[0] == '>' && line->bytes[1] == ' ')
		at = 2;
	else if (line->size <= at || memcmp(line->bytes, RSTRING_PTR(name), at - 1) != 0 || line->bytes[at - 1] != ':')
		return 0;
	while (at < line->size && line->bytes[at] == ' ')
		at++;
	while (at < line->size && isdigit((unsigned char)line->bytes[at]) && count < sizeof(digits) - 1)
		digits[count++] = line->bytes[at++];
	return strtoull(digits, NULL, 10);
}

struct finding {
	uint64_t line, column; /* of the first error */
	unsigned missing;      /* errors by the end of the code */
	unsigned others;
};

/*
 * Up to 3.3 an error is a line that begins with the file's name, and what follows is the code; from 3.4 on errors stand behind
 * carets.
 */
static void look_at_message(struct finding *finding, VALUE message, VALUE name)
{
	struct line rest = {RSTRING_PTR(message), (size_t)RSTRING_LEN(message)}, line;
	uint64_t number = 0;
	bool excerpt = false;

	while (next_line(&rest, &line)) {
		uint64_t here = line_number(&line, name), column = caret_column(&line);
		bool heading = here && (contains(&line, ": syntax error found") || contains(&line, ": syntax errors found"));

		excerpt = excerpt || heading;
		if (here)
			number = here;
		if (column && !finding->column) {
			finding->line = number;
			finding->column = column;
		}
		if (here && !finding->line && !heading)
			finding->line = here;
		if (heading || !(excerpt ? column || (here && line.bytes[0] != '>') : here))
			continue;
		if (is_missing(&line))
			finding->missing++;
		else if (!is_consequence(&line))
			finding->others++;
	}
}

/* Whether the exception is about the code itself, and not about a file that the code has loaded. */
static bool is_own(const struct eval *eval)
{
	VALUE backtrace = eval->raised[0].backtrace, name = eval->name;

	if (!RB_TYPE_P(backtrace, T_ARRAY))
		return true;
	for (long i = 0; i < RARRAY_LEN(backtrace); i++) {
		VALUE frame = rb_ary_entry(backtrace, i);

		if (RB_TYPE_P(frame, T_STRING) && RSTRING_LEN(frame) > RSTRING_LEN(name) &&
		    memcmp(RSTRING_PTR(frame), RSTRING_PTR(name), (size_t)RSTRING_LEN(name)) == 0)
			return false;
	}
	return true;
}

static bool ends_in_backslash(VALUE code)
{
	long size = RSTRING_LEN(code);

	while (size > 0 && RSTRING_PTR(code)[size - 1] == '\n')
		size--;
	return size > 0 && RSTRING_PTR(code)[size - 1] == '\\';
}

void eval_syntax_look(struct eval *eval)
{
	struct finding finding = {0};

	if (eval->raised_count == 0 || NIL_P(eval->raised[0].message) || !is_own(eval))
		return;
	look_at_message(&finding, eval->raised[0].message, eval->name);
	eval->outcome = EVAL_SYNTAX_ERROR;
	eval->line = finding.line;
	eval->column = finding.column;
	if ((eval->flags & EVAL_PARTIAL) && ((finding.missing && !finding.others) || ends_in_backslash(eval->code)))
		eval->outcome = EVAL_INCOMPLETE;
}
