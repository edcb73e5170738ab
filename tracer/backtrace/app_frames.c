/* Whose file it is. See app_frames.h. */

#define _GNU_SOURCE
#include "tracer/backtrace/app_frames.h"

#include <string.h>

static bool begins_with(struct slice text, const char *word)
{
	return text.size >= strlen(word) && memcmp(text.bytes, word, strlen(word)) == 0;
}

static struct slice after(struct slice text, size_t size)
{
	return (struct slice){text.bytes + size, text.size - size};
}

/* What stands behind the last place of the word; empty: nowhere. */
static struct slice behind_last(struct slice text, const char *word)
{
	struct slice found = {0};
	const char *at;

	while ((at = memmem(text.bytes, text.size, word, strlen(word)))) {
		found = after(text, (size_t)(at - text.bytes) + strlen(word));
		text = found;
	}
	return found;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* "3.1.0" */
static bool is_version(struct slice text)
{
	if (!text.size || !is_digit(text.bytes[0]))
		return false;
	for (size_t i = 0; i < text.size; i++)
		if (!is_digit(text.bytes[i]) && text.bytes[i] != '.')
			return false;
	return memchr(text.bytes, '.', text.size) != NULL;
}

/* "rack-2.2.6", "rugged-1.0.0-x86_64-linux", "bundler-2.3.7" */
static bool is_gem(struct slice name)
{
	for (size_t i = 1; i + 1 < name.size; i++)
		if (name.bytes[i] == '-' && is_digit(name.bytes[i + 1]))
			return true;
	return false;
}

/* Takes the first part of a path off. */
static struct slice first_part(struct slice *path)
{
	const char *slash = path->size ? memchr(path->bytes, '/', path->size) : NULL;
	struct slice part = {path->bytes, slash ? (size_t)(slash - path->bytes) : 0};

	if (slash)
		*path = after(*path, part.size + 1);
	return part;
}

struct frame_origin frame_origin_of(struct slice path)
{
	struct frame_origin origin = {.file = path, .prefix = ""};
	struct slice rest, part;

	if (begins_with(path, "<internal:")) {
		origin.library = (struct slice){"ruby", strlen("ruby")};
		return origin;
	}
	rest = behind_last(path, "/gems/");
	part = first_part(&rest);
	if (is_gem(part)) {
		if (begins_with(rest, "lib/"))
			rest = after(rest, strlen("lib/"));
		return (struct frame_origin){.library = part, .file = rest, .prefix = ""};
	}
	rest = behind_last(path, "/vendor_ruby/");
	if (rest.size)
		return (struct frame_origin){.library = {"vendor_ruby", strlen("vendor_ruby")}, .file = rest, .prefix = ""};
	rest = behind_last(path, "/lib/ruby/");
	part = first_part(&rest);
	if (is_version(part))
		return (struct frame_origin){.library = part, .file = rest, .prefix = "ruby-"};
	return origin;
}
