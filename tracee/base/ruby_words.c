/* Words in Ruby code, as far as bytes say it. See ruby_words.h. Any context. */

#include "tracee/base/ruby_words.h"

#include <string.h>

static bool is_word_byte(char c)
{
	return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (unsigned char)c >= 0x80;
}

bool ruby_is_word(const char *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (!is_word_byte(bytes[i]))
			return false;
	return size > 0 && !(bytes[0] >= '0' && bytes[0] <= '9');
}

bool ruby_mentions(struct slice source, const char *word, size_t size)
{
	for (size_t i = 0; i + size <= source.size; i++)
		if (memcmp(source.bytes + i, word, size) == 0 && (i == 0 || !is_word_byte(source.bytes[i - 1])) &&
		    (i + size == source.size || !is_word_byte(source.bytes[i + size])))
			return true;
	return false;
}

bool ruby_is_reserved(const char *bytes, size_t size)
{
	static const char *const words[] = {"alias",  "and",   "begin", "break",    "case",     "class",       "def",    "do",
	                                    "else",   "elsif", "end",   "ensure",   "false",    "for",         "if",     "in",
	                                    "module", "next",  "nil",   "not",      "or",       "redo",        "rescue", "retry",
	                                    "return", "self",  "super", "then",     "true",     "undef",       "unless", "until",
	                                    "when",   "while", "yield", "__FILE__", "__LINE__", "__ENCODING__"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strlen(words[i]) == size && memcmp(words[i], bytes, size) == 0)
			return true;
	return false;
}
