/*
 * The console's own commands: help, ls, cd, source, exit. A line is such a command only where it could not well be
 * meant as Ruby: `ls` and `ls Order` are, `ls = 1`, `ls.size` and `ls()` are not. An argument is evaluated like any
 * line, and the process keeps the result as the subject of the next request.
 */

#define _GNU_SOURCE
#include "tracer/console/console.h"

#include "tracer/base/message.h"
#include "tracer/base/value.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define COLUMNS_DEFAULT 80

static const char bold[] = "\033[1m", plain[] = "\033[0m";

static const char help_text[] =
	"Ruby is evaluated in the process, each line in a thread of its own; local variables and `_`, the last result, stay.\n"
	"An expression goes on over several lines until it is complete; Ctrl-C drops it.\n"
	"\n"
	"  ls [-a] [OBJECT]      methods, variables, constants: own ones before inherited ones; -a: also what all objects have\n"
	"  cd OBJECT             make it self; cd .. goes back, cd or cd / back to the top\n"
	"  source METHOD         its lines, where it is written in Ruby: source Foo#bar, source foo.bar, source bar\n"
	"  help                  this\n"
	"  exit, quit            leave, as Ctrl-D does\n"
	"\n"
	"TAB completes. Ctrl-C while a line runs cancels the line. A blank in front of a line keeps it out of the history.\n"
	"A method of the application that is named like one of these words: self.ls, or ls().\n";

/* The result of the code becomes the subject. */
static bool make_subject(struct console *console, const char *code, size_t size)
{
	struct command command = {
		.kind = COMMAND_EVAL,
		.arguments = {.flags = EVAL_CONSOLE | EVAL_SUBJECT, .name = {"(rbprobe)", 9}, .text = {code, size}}};

	console->outcome = OUTCOME_FAILED;
	return console_request(console, &command, 0, console_show_result) == ANSWER_DONE && console->outcome == OUTCOME_RETURNED;
}

static void request_about_subject(struct console *console, struct command command,
                                  void (*on_data)(struct console *console, const msgpack_object *object))
{
	if (console_request(console, &command, 0, on_data) == ANSWER_FAILED)
		console->failed = true;
}

static size_t screen_columns(const struct console *console)
{
	struct winsize size;

	return console->interactive && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
	                                                                                               : COLUMNS_DEFAULT;
}

static int compare_names(const void *a, const void *b)
{
	const struct slice *one = a, *other = b;
	int order = memcmp(one->bytes, other->bytes, one->size < other->size ? one->size : other->size);

	return order ? order : (one->size > other->size) - (one->size < other->size);
}

/* Names in their order, in rows that are broken at the screen's edge. */
static void add_names(struct buffer *text, const msgpack_object *names, size_t columns)
{
	uint32_t count = value_count(names);
	struct slice *sorted = memory_resize(NULL, (count + 1) * sizeof(*sorted));
	size_t column = 0;

	for (uint32_t i = 0; i < count; i++)
		sorted[i] = value_text(value_at(names, i));
	qsort(sorted, count, sizeof(*sorted), compare_names);
	for (uint32_t i = 0; i < count; i++) {
		size_t before;

		if (column > 0 && column + 2 + sorted[i].size > columns) {
			buffer_add_char(text, '\n');
			column = 0;
		}
		before = text->size;
		buffer_add_spaces(text, 2);
		buffer_add_printable(text, sorted[i].bytes, sorted[i].size);
		column += text->size - before;
	}
	buffer_add_char(text, '\n');
	free(sorted);
}

static void show_list(struct console *console, const msgpack_object *object)
{
	const msgpack_object *groups = value_get(object, "groups");
	struct buffer text = {0};

	for (uint32_t i = 0; i < value_count(groups); i++) {
		const msgpack_object *group = value_at(groups, i);
		struct slice title = value_text(value_get(group, "title"));

		if (console->colors)
			buffer_add_text(&text, bold);
		buffer_add_printable(&text, title.bytes, title.size);
		if (console->colors)
			buffer_add_text(&text, plain);
		buffer_add_char(&text, '\n');
		add_names(&text, value_get(group, "names"), screen_columns(console));
	}
	console_show(console, &text);
	buffer_free(&text);
}

static void list(struct console *console, const char *argument)
{
	struct command command = {.kind = COMMAND_LIST};

	if (strncmp(argument, "-a", 2) == 0 && (argument[2] == '\0' || isspace((unsigned char)argument[2]))) {
		command.arguments.flags |= LIST_ALL;
		argument += 2;
		argument += strspn(argument, " \t");
	}
	if (*argument) {
		command.arguments.flags |= LIST_SUBJECT;
		if (!make_subject(console, argument, strlen(argument)))
			return;
	}
	request_about_subject(console, command, show_list);
}

void console_note_self(struct console *console, const msgpack_object *object)
{
	struct slice self = value_text(value_get(object, "self"));

	console->self.size = 0;
	buffer_add_printable(&console->self, self.bytes, self.size);
}

static void enter(struct console *console, const char *argument)
{
	struct command command = {.kind = COMMAND_ENTER, .arguments = {.flags = ENTER_SUBJECT}};

	if (*argument == '\0' || strcmp(argument, "/") == 0)
		command.arguments.flags = ENTER_TOP;
	else if (strcmp(argument, "..") == 0)
		command.arguments.flags = ENTER_UP;
	else if (!make_subject(console, argument, strlen(argument)))
		return;
	request_about_subject(console, command, console_note_self);
}

/* Printable, with tabs where they were. */
static void add_source_line(struct buffer *text, uint64_t number, struct slice line)
{
	buffer_add_format(text, "%6llu  ", (unsigned long long)number);
	while (line.size) {
		const char *tab = memchr(line.bytes, '\t', line.size);
		size_t size = tab ? (size_t)(tab - line.bytes) : line.size;

		buffer_add_printable(text, line.bytes, size);
		if (tab)
			buffer_add_char(text, '\t');
		size += tab ? 1 : 0;
		line = (struct slice){line.bytes + size, line.size - size};
	}
	buffer_add_char(text, '\n');
}

static void add_remark(struct buffer *text, struct slice remark)
{
	if (remark.size == 0)
		return;
	buffer_add_text(text, "  (");
	buffer_add_printable(text, remark.bytes, remark.size);
	buffer_add_char(text, ')');
}

static void show_source(struct console *console, const msgpack_object *object)
{
	static const char newer[] = "the file is younger than the process: these may not be the lines that run";
	struct slice name = value_text(value_get(object, "name")), file = value_text(value_get(object, "file"));
	const msgpack_object *lines = value_get(object, "lines");
	uint64_t number = value_uint(value_get(object, "line"));
	struct buffer text = {0};

	if (console->colors)
		buffer_add_text(&text, bold);
	buffer_add_printable(&text, name.bytes, name.size);
	if (console->colors)
		buffer_add_text(&text, plain);
	if (file.size) {
		buffer_add_text(&text, "  ");
		buffer_add_printable(&text, file.bytes, file.size);
		buffer_add_format(&text, ":%llu", (unsigned long long)number);
	}
	add_remark(&text, value_text(value_get(object, "reason")));
	if (value_uint(value_get(object, "mtime")) > (uint64_t)target_start_time(&console->request.attachment.target))
		add_remark(&text, (struct slice){newer, sizeof(newer) - 1});
	buffer_add_char(&text, '\n');
	for (uint32_t i = 0; i < value_count(lines); i++)
		add_source_line(&text, number + i, value_text(value_at(lines, i)));
	console_show(console, &text);
	buffer_free(&text);
}

/* Where in "Foo#bar", "foo.bar" or "Foo::bar" the separator is; its length is 0 where there is none. */
static size_t find_separator(const char *text, size_t *length)
{
	const char *hash = strrchr(text, '#'), *dot = strrchr(text, '.'), *colons = NULL;

	for (const char *next = strstr(text, "::"); next; next = strstr(next + 2, "::"))
		colons = next;
	*length = 1;
	if (hash)
		return (size_t)(hash - text);
	if (dot)
		return (size_t)(dot - text);
	*length = colons ? 2 : 0;
	return colons ? (size_t)(colons - text) : 0;
}

static void source(struct console *console, const char *argument)
{
	struct command command = {.kind = COMMAND_SOURCE};
	size_t length, at = find_separator(argument, &length);

	if (*argument == '\0') {
		message("source needs a method, such as Order#save, order.save or save");
		return;
	}
	if (length > 0 && at > 0) {
		command.arguments.flags = SOURCE_SUBJECT | (argument[at] == '#' ? SOURCE_INSTANCE : 0);
		if (!make_subject(console, argument, at > 1 && argument[at] == '.' && argument[at - 1] == '&' ? at - 1 : at))
			return;
	}
	command.arguments.name = (struct slice){argument + at + length, strlen(argument + at + length)};
	request_about_subject(console, command, show_source);
}

static void help(struct console *console, const char *argument)
{
	struct buffer text = {0};

	(void)argument;
	buffer_add_text(&text, help_text);
	console_show(console, &text);
	buffer_free(&text);
}

static void leave(struct console *console, const char *argument)
{
	(void)argument;
	console->leaving = true;
}

static const struct console_command {
	const char *name;
	bool takes_argument;
	void (*run)(struct console *console, const char *argument);
} commands[] = {
	{"cd", true, enter}, {"exit", false, leave}, {"help", false, help},
	{"ls", true, list},  {"quit", false, leave}, {"source", true, source},
};

const char *console_command_name(unsigned n)
{
	return n < sizeof(commands) / sizeof(*commands) ? commands[n].name : NULL;
}

/* What follows the name cannot be an operator with the name as its left side, as in `ls = 1`, `ls + 1`. */
static bool is_argument(const char *text)
{
	size_t operator= strspn(text, "=+*%<>&|^?,.");

	if (strcmp(text, "..") == 0 || text[0] == '\0' || text[0] == '/' || text[0] == '-')
		return true;
	return operator== 0;
}

bool console_command(struct console *console, const char *line)
{
	char *argument;
	size_t size;

	line += strspn(line, " \t");
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		size = strlen(commands[i].name);
		if (strncmp(line, commands[i].name, size) != 0 || (line[size] != '\0' && line[size] != ' ' && line[size] != '\t'))
			continue;
		line += size;
		line += strspn(line, " \t");
		if (!is_argument(line) || (*line && !commands[i].takes_argument))
			return false;
		argument = strdup(line);
		size = argument ? strlen(argument) : 0;
		while (size > 0 && isspace((unsigned char)argument[size - 1]))
			argument[--size] = '\0';
		if (argument)
			commands[i].run(console, argument);
		free(argument);
		return true;
	}
	return false;
}
