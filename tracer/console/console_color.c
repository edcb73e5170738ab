/* Colours for the text of Ruby values. See console_color.h. */

#define _GNU_SOURCE
#include "tracer/console/console_color.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

enum kind { KIND_PLAIN, KIND_STRING, KIND_SYMBOL, KIND_NUMBER, KIND_CONSTANT, KIND_KEYWORD };

static const char *const colors[] = {
	[KIND_STRING] = "\033[32m",  [KIND_SYMBOL] = "\033[33m",  [KIND_NUMBER] = "\033[34m",
	[KIND_CONSTANT] = "\033[4m", [KIND_KEYWORD] = "\033[36m",
};

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

static size_t word_length(const char *text, size_t size)
{
	size_t length = 0;

	while (length < size && is_word(text[length]))
		length++;
	return length;
}

/* From the quote to past its end. */
static size_t quoted_length(const char *text, size_t size)
{
	size_t length = 1;

	while (length < size && text[length] != '"')
		length += text[length] == '\\' ? 2 : 1;
	return length + 1 < size ? length + 1 : size;
}

static size_t number_length(const char *text, size_t size)
{
	size_t length = 0;

	while (length < size &&
	       (is_word(text[length]) || (text[length] == '.' && length + 1 < size && isdigit((unsigned char)text[length + 1]))))
		length++;
	return length;
}

static size_t symbol_length(const char *text, size_t size)
{
	size_t length;

	if (size < 2)
		return 0;
	if (text[1] == '"')
		return 1 + quoted_length(text + 1, size - 1);
	length = 1;
	while (length < size && length <= 3 && (text[length] == '@' || text[length] == '$'))
		length++;
	if (length > 3)
		return 0;
	length += word_length(text + length, size - length);
	if (length < size && length > 1 && (text[length] == '?' || text[length] == '!'))
		length++;
	if (length > 1)
		return length;
	while (length < size && text[length] && strchr("+-*/%<=>!~^&|[]", text[length]) &&
	       !(text[length] == '=' && length + 1 < size && text[length + 1] == '>' && length > 1))
		length++;
	return length > 1 ? length : 0;
}

static bool is_keyword(const char *text, size_t size)
{
	static const char *const keywords[] = {"nil", "true", "false"};

	for (size_t i = 0; i < sizeof(keywords) / sizeof(*keywords); i++)
		if (strlen(keywords[i]) == size && memcmp(keywords[i], text, size) == 0)
			return true;
	return false;
}

/* What begins at text, and how long it is. */
static enum kind token(const char *text, size_t size, bool behind_word, size_t *length)
{
	*length = 1;
	if (text[0] == '"') {
		*length = quoted_length(text, size);
		return KIND_STRING;
	}
	if (text[0] == ':' && !behind_word && (*length = symbol_length(text, size)) > 0)
		return KIND_SYMBOL;
	if (isdigit((unsigned char)text[0])) {
		*length = number_length(text, size);
		return KIND_NUMBER;
	}
	*length = word_length(text, size);
	if (*length == 0) {
		*length = size > 1 && text[0] == ':' && text[1] == ':' ? 2 : 1;
		return KIND_PLAIN;
	}
	/* A hash's key, as of Ruby 3.4. */
	if (*length + 1 < size && text[*length] == ':' && text[*length + 1] == ' ') {
		++*length;
		return KIND_SYMBOL;
	}
	if (is_keyword(text, *length))
		return KIND_KEYWORD;
	return isupper((unsigned char)text[0]) ? KIND_CONSTANT : KIND_PLAIN;
}

void console_color(struct buffer *buffer, const char *text, size_t size)
{
	bool behind_word = false;

	while (size) {
		size_t length;
		enum kind kind = token(text, size, behind_word, &length);

		if (length > size)
			length = size;
		if (kind != KIND_PLAIN)
			buffer_add_text(buffer, colors[kind]);
		buffer_add(buffer, text, length);
		if (kind != KIND_PLAIN)
			buffer_add_text(buffer, "\033[0m");
		behind_word = is_word(text[length - 1]);
		text += length;
		size -= length;
	}
}
