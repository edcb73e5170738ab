/* Patterns of names. See name_pattern.h. */

#include "proto/name_pattern.h"

#include <stdint.h>
#include <string.h>

/* '*' stands for any bytes, also none. */
bool name_glob(struct slice pattern, const char *bytes, size_t size)
{
	size_t p = 0, b = 0, star = SIZE_MAX, resume = 0;

	while (b < size) {
		if (p < pattern.size && pattern.bytes[p] == '*') {
			star = p++;
			resume = b;
		} else if (p < pattern.size && pattern.bytes[p] == bytes[b]) {
			p++;
			b++;
		} else if (star != SIZE_MAX) {
			p = star + 1;
			b = ++resume;
		} else {
			return false;
		}
	}
	while (p < pattern.size && pattern.bytes[p] == '*')
		p++;
	return p == pattern.size;
}

/* `\*` and `\*\*`: the operators, whatever else a star may mean. */
struct slice name_pattern_plain(struct slice pattern)
{
	static const struct slice operators[] = {{"*", 1}, {"**", 2}};

	if (pattern.size == 2 && memcmp(pattern.bytes, "\\*", 2) == 0)
		return operators[0];
	return pattern.size == 4 && memcmp(pattern.bytes, "\\*\\*", 4) == 0 ? operators[1] : pattern;
}

/* `*` and `**` alone are operators, not globs: Integer#*, unless whoever asks knows that all are meant. */
bool name_pattern_is_glob(struct slice pattern)
{
	struct slice plain = name_pattern_plain(pattern);
	bool only_stars = plain.size <= 2;

	for (size_t i = 0; only_stars && i < plain.size; i++)
		only_stars = plain.bytes[i] == '*';
	return plain.size == 0 || (!only_stars && memchr(plain.bytes, '*', plain.size));
}

bool name_pattern_is_met(struct slice pattern, const char *bytes, size_t size)
{
	struct slice plain = name_pattern_plain(pattern);

	if (pattern.size == 0)
		return true;
	if (name_pattern_is_glob(pattern))
		return name_glob(pattern, bytes, size);
	return plain.size == size && memcmp(plain.bytes, bytes, size) == 0;
}
