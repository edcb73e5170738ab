/* Reading a tracer's text. See tracer_file.h. */

#include "tracer/cli/tracer_file.h"

#include "tracer/base/buffer.h"
#include "tracer/base/utf8.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SUFFIX ".tracer"
#define BLANKS " \t\r"
#define CONSTANT_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_:"

struct reading {
	struct tracer_file *file;
	unsigned line; /* from 1 */
	bool outermost;
	struct error *err;
};

static int refuse(const struct reading *reading, const char *why, const char *word)
{
	return error_set(reading->err, -EINVAL, "%s:%u: %s%s%.100s%s", reading->file->path, reading->line, why,
	                 *word ? " \"" : "", word, *word ? "\"" : "");
}

/* Without blanks at both ends. */
static char *strip(char *text)
{
	char *end = text + strlen(text);

	while (end > text && strchr(BLANKS, end[-1]))
		end--;
	*end = '\0';
	return text + strspn(text, BLANKS);
}

/* --- Lines that begin with "#:" */

static int set_library(struct reading *reading, char *name)
{
	struct tracer_file *file = reading->file;

	if (!*name)
		return refuse(reading, "#:library names no library", "");
	if (file->library_count == TRACER_LIBRARIES_MAX)
		return refuse(reading, "too many libraries", "");
	file->libraries[file->library_count++] = name;
	return 0;
}

static int set_version(struct reading *reading, char *constant)
{
	struct tracer_file *file = reading->file;

	if (!file->library_count || file->versions[file->library_count - 1])
		return refuse(reading, "#:version belongs to one #:library before it", "");
	if (!*constant || strspn(constant, CONSTANT_LETTERS) != strlen(constant))
		return refuse(reading, "#:version takes a constant, such as Redis::VERSION, not", constant);
	file->versions[file->library_count - 1] = constant;
	return 0;
}

static int add_option(struct reading *reading, char *option)
{
	static const struct {
		const char *word;
		uint32_t marks;
	} options[] = {{"--gc", 1u << MARK_GC | 1u << MARK_GC_PAUSE}, {"--gvl", 1u << MARK_GVL}, {"--raise", 1u << MARK_RAISE}};

	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
		if (strcmp(option, options[i].word) != 0)
			continue;
		reading->file->marks |= options[i].marks;
		return 0;
	}
	if (strncmp(option, "--raise=", 8) != 0 || !option[8])
		return refuse(reading, "a tracer may have #:option --gc, --gvl, --raise or --raise=CLASS, not", option);
	reading->file->marks |= 1u << MARK_RAISE;
	reading->file->raise = option + 8;
	return 0;
}

static int set_outermost(struct reading *reading, char *word)
{
	reading->outermost = strcmp(word, "outermost") == 0;
	reading->file->sets += reading->outermost;
	return reading->outermost || strcmp(word, "all") == 0 ? 0 : refuse(reading, "#:show takes outermost or all, not", word);
}

static int directive(struct reading *reading, char *text)
{
	static const struct {
		const char *word;
		int (*take)(struct reading *reading, char *value);
	} words[] = {{"library", set_library}, {"version", set_version}, {"option", add_option}, {"show", set_outermost}};
	size_t size = strcspn(text, BLANKS);

	if (!size) {
		/* "#: " and a sentence. Of several the first is the description. */
		if (!*reading->file->description)
			reading->file->description = strip(text);
		return 0;
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strlen(words[i].word) == size && memcmp(words[i].word, text, size) == 0)
			return words[i].take(reading, strip(text + size));
	text[size] = '\0';
	return refuse(reading,
	              "a line that begins with #: may say library, version, option or show, or after a blank what the tracer is "
	              "for; not",
	              text);
}

/* --- Selectors */

static int add_selector(struct reading *reading, const char *text)
{
	struct tracer_file *file = reading->file;
	struct selector *selector;
	struct error why;

	if (selector_parse(&file->selectors, text, &why) < 0)
		return refuse(reading, why.text, "");
	selector = &file->selectors.items[file->selectors.count - 1];
	selector->tracer = file->library_count;
	selector->set = reading->outermost ? file->sets : 0;
	selector->flags = SELECTOR_OPTIONAL | (reading->outermost ? SELECTOR_OUTERMOST : 0);
	return 0;
}

static bool is_utf8(const char *text)
{
	for (size_t size = strlen(text), length; size; text += length, size -= length) {
		uint32_t code;

		length = utf8_sequence(text, size, &code);
		if (!length)
			return false;
	}
	return true;
}

static int take_line(struct reading *reading, char *line)
{
	line = strip(line);
	if (!is_utf8(line))
		return refuse(reading, "this line is no UTF-8", "");
	if (line[0] == '#' && line[1] == ':')
		return directive(reading, line + 2);
	return *line == '\0' || *line == '#' ? 0 : add_selector(reading, line);
}

static char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t size = strlen(name), suffix = strlen(SUFFIX);
	struct buffer copy = {0};

	if (size > suffix && strcmp(name + size - suffix, SUFFIX) == 0)
		size -= suffix;
	buffer_add_printable(&copy, name, size);
	buffer_add_char(&copy, '\0');
	return copy.bytes;
}

/* A line that ends with a backslash goes on in the next one. Returns where the next begins. */
static char *cut_line(char *line, unsigned *lines)
{
	char *end = strchr(line, '\n');

	for (*lines = 1; end && end > line && end[-1] == '\\'; (*lines)++) {
		end[-1] = end[0] = ' ';
		end = strchr(end, '\n');
	}
	if (!end)
		return line + strlen(line);
	*end = '\0';
	return end + 1;
}

int tracer_file_parse(struct tracer_file *file, const char *path, char *text, struct error *err)
{
	struct reading reading = {.file = file, .line = 1, .err = err};
	int status = 0;

	*file = (struct tracer_file){.name = name_of(path), .path = strdup(path), .text = text, .description = "", .raise = ""};
	if (!file->path)
		return error_set(err, -ENOMEM, "out of memory");
	/* Editors of some systems begin a file with a mark of its encoding. */
	if (strncmp(text, "\xef\xbb\xbf", 3) == 0)
		text += 3;
	while (*text && status == 0) {
		unsigned lines;
		char *next = cut_line(text, &lines);

		status = take_line(&reading, text);
		text = next;
		reading.line += lines;
	}
	if (status == 0 && file->selectors.count == 0 && !file->marks)
		status = error_set(err, -EINVAL, "%s: there is no selector in it", path);
	return status;
}

void tracer_file_free(struct tracer_file *file)
{
	selector_list_free(&file->selectors);
	free(file->name);
	free(file->path);
	free(file->text);
	memset(file, 0, sizeof(*file));
}

bool tracer_expression_is_key(struct slice *expression)
{
	size_t word = 2;

	if (expression->size < 3 || memcmp(expression->bytes, "by", 2) != 0 || !isspace((unsigned char)expression->bytes[2]))
		return false;
	while (word < expression->size && isspace((unsigned char)expression->bytes[word]))
		word++;
	*expression = (struct slice){expression->bytes + word, expression->size - word};
	return true;
}
