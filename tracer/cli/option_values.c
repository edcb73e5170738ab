/* What options take: numbers, times, names. See options.h. */

#define _GNU_SOURCE
#include "tracer/cli/options.h"

#include "proto/limits.h"
#include "tracer/base/message.h"
#include "tracer/base/output_name.h"
#include "tracer/cli/nearest.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Says what is wrong; the parser returns it. */
#define WRONG(...) (message(__VA_ARGS__), EINVAL)

int options_whole_number(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *number)
{
	char *end;

	errno = 0;
	*number = strtoull(text, &end, 10);
	if (errno || end == text || *end || strchr(text, '-') || *number < min || *number > max)
		return WRONG("%s takes a whole number from %llu to %llu, not \"%s\"", option, (unsigned long long)min,
		             (unsigned long long)max, text);
	return 0;
}

int options_seconds(const char *option, const char *text, uint64_t *ns)
{
	char *end;
	double number;

	number = strtod(text, &end);
	if (end == text || *end || !isfinite(number) || number <= 0 || number > 1e9)
		return WRONG("%s takes seconds, such as 10 or 0.5, not \"%s\"", option, text);
	*ns = (uint64_t)(number * 1e9);
	return 0;
}

int options_size(const char *option, const char *text, uint64_t *size)
{
	static const char units[] = "KMG";
	const char *unit;
	unsigned shift;
	char *end;

	errno = 0;
	*size = strtoull(text, &end, 10);
	unit = *end > ' ' ? strchr(units, *end & ~0x20) : NULL;
	shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
	if (errno || end == text || strchr(text, '-') || (*end && (!unit || end[1])) || !*size || *size > UINT64_MAX >> shift)
		return WRONG("%s takes a number of bytes, such as 500M or 2G, not \"%s\"", option, text);
	*size <<= shift;
	return 0;
}

int options_pattern(const char *option, const char *of_what, const char *text, struct slice *pattern)
{
	if (!*text)
		return WRONG("%s= names no %s", option, of_what);
	if (strlen(text) > NAME_SIZE_MAX)
		return WRONG("%s takes the name of a %s, or a pattern, of at most %u bytes", option, of_what, NAME_SIZE_MAX);
	*pattern = (struct slice){text, strlen(text)};
	return 0;
}

/* Where in the name of a class, or a pattern of one, a small letter begins a constant, which no class can have; NULL: nowhere. */
static const char *small_beginning(const char *name)
{
	for (const char *at = name; at; at = strstr(at, "::")) {
		at += at == name ? 0 : 2;
		if ((*at >= 'a' && *at <= 'z') || *at == '_')
			return at;
	}
	return NULL;
}

int options_exceptions(const char *option, const char *text, struct slice *pattern)
{
	if (!text)
		return 0;
	if (strncmp(text, "::", 2) == 0)
		text += 2;
	if (!*text)
		return WRONG("%s= names no class; %s alone means every exception", option, option);
	if (small_beginning(text))
		return WRONG("%s: \"%s\" is no class: its name begins with a capital letter", option, small_beginning(text));
	return options_pattern(option, "class", text, pattern);
}

int options_timeout(const char *text, struct options *options)
{
	if (!options->may_be_unlimited || strcmp(text, "0") != 0)
		return options_seconds("--timeout", text, &options->timeout_ns);
	options->unlimited = true;
	return 0;
}

void pid_list_add(struct pid_list *pids, pid_t pid)
{
	for (size_t i = 0; i < pids->count; i++)
		if (pids->items[i] == pid)
			return;
	pids->items = memory_resize(pids->items, (pids->count + 1) * sizeof(*pids->items));
	pids->items[pids->count++] = pid;
}

int options_output_name(const char *text)
{
	return output_name_is_valid(text)
	               ? 0
	               : WRONG("-o knows %%p, the PID, and %%%%, a %%, but no other letter after a %%: \"%s\"", text);
}

int options_pids(char *text, struct pid_list *pids)
{
	char *save = NULL;
	bool any = false;

	for (char *word = strtok_r(text, ", ", &save); word; word = strtok_r(NULL, ", ", &save)) {
		uint64_t pid;

		if (options_whole_number("-p", word, 1, 4194304, &pid))
			return EINVAL;
		any = true;
		pid_list_add(pids, (pid_t)pid);
	}
	return any ? 0 : WRONG("-p takes a process id, or several as in 12,13");
}

bool options_are_pids(const char *text)
{
	return text[0] != ',' && *text && text[strspn(text, "0123456789,")] == '\0';
}

void options_refuse_word(const char *option, const char *text, const char *const *words)
{
	struct buffer all = {0};
	struct nearest nearest;

	nearest_begin(&nearest, text, strlen(text));
	for (unsigned i = 0; words[i]; i++) {
		buffer_add_format(&all, "%s%s", i == 0 ? "" : words[i + 1] ? ", " : " or ", words[i]);
		nearest_consider(&nearest, words[i]);
	}
	message("%s takes %.*s, not \"%s\"%s%s%s", option, (int)all.size, all.bytes, text, nearest.found ? "; did you mean " : "",
	        nearest.found ? nearest.found : "", nearest.found ? "?" : "");
	buffer_free(&all);
}

int options_choice(const char *option, const char *text, const char *const *words, unsigned *chosen)
{
	for (unsigned i = 0; words[i]; i++)
		if (strcmp(words[i], text) == 0) {
			*chosen = i;
			return 0;
		}
	options_refuse_word(option, text, words);
	return EINVAL;
}
