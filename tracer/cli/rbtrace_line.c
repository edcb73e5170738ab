/* Reading rbtrace's command line with getopt. See rbtrace_line.h. */

#define _GNU_SOURCE
#include "tracer/cli/rbtrace_line.h"

#include "tracer/base/buffer.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define LONG_FIRST 0x1000 /* what getopt returns for the first long option; letters are themselves */
#define COUNT ((int)RBTRACE_OPTION_COUNT + (int)RBTRACE_OWN_COUNT)
#define ORDINARY 1 /* what getopt returns for a word that is no option */

const struct rbtrace_option rbtrace_own_options[RBTRACE_OWN_COUNT] = {
	[RBTRACE_YES] = {"yes", 0, TAKES_NOTHING, "", SPELT_THE_SAME, "",
                         "trace also methods that leave the process slower afterwards"},
	[RBTRACE_NO_HOOK] = {"no-hook", 0, TAKES_NOTHING, "", SPELT_THE_SAME, "", "do not ask for that; leave them out"},
	[RBTRACE_NO_LOAD] = {"no-load", 0, TAKES_NOTHING, "", SPELT_THE_SAME, "",
                             "do not load the extension into a process that has not required it"},
	[RBTRACE_INTERRUPT] = {"interrupt", 0, TAKES_NOTHING, "", SPELT_THE_SAME, "",
                               "wake the main thread even if its call then ends early"},
	[RBTRACE_INSPECT] = {"inspect", 0, TAKES_NOTHING, "", SPELT_THE_SAME, "",
                             "show objects by calling their inspect method, as rbtrace does"},
	[RBTRACE_MAX_OVERHEAD] = {"max-overhead", 0, TAKES_ONE, "PERCENT", SPELT_THE_SAME, "",
                                  "only count calls whose observation takes more CPU time (--firehose: 20; 0: any)"},
	[RBTRACE_VERBOSE] = {"verbose", 0, TAKES_NOTHING, "", SPELT_THE_SAME, "", "say more, as rbprobe -v"},
};

void word_list_add(struct word_list *list, const char *word)
{
	list->items = memory_resize(list->items, (list->count + 1) * sizeof(*list->items));
	list->items[list->count++] = word;
}

static const struct rbtrace_option *option_at(int place)
{
	return place < RBTRACE_OPTION_COUNT ? &rbtrace_options[place] : &rbtrace_own_options[place - RBTRACE_OPTION_COUNT];
}

static struct rbtrace_given *given_at(struct rbtrace_line *line, int place)
{
	return place < RBTRACE_OPTION_COUNT ? &line->options[place] : &line->own[place - RBTRACE_OPTION_COUNT];
}

/* For getopt: values are optional, since a word of its own may be one, or several. "-1" is a value, too. */
static void describe(struct option longs[COUNT + 1], char letters[4 * (COUNT + 10) + 2])
{
	char *to = letters;

	memset(longs, 0, (COUNT + 1) * sizeof(*longs));
	*to++ = '-';
	for (int i = 0; i < COUNT; i++) {
		const struct rbtrace_option *option = option_at(i);
		bool takes = option->values != TAKES_NOTHING;

		longs[i] = (struct option){option->name, takes ? optional_argument : no_argument, NULL, LONG_FIRST + i};
		if (option->letter)
			*to++ = option->letter;
		for (int colons = 0; option->letter && takes && colons < 2; colons++)
			*to++ = ':';
	}
	for (char digit = '0'; digit <= '9'; digit++, to += 3)
		memcpy(to, (const char[]){digit, ':', ':'}, 3);
	*to = '\0';
}

static int place_of(int key)
{
	for (int i = 0; key < LONG_FIRST && i < COUNT; i++)
		if (option_at(i)->letter == key)
			return i;
	return key - LONG_FIRST;
}

static bool has_room(const struct rbtrace_option *option, const struct rbtrace_given *given)
{
	return option->values == TAKES_MANY || (option->values != TAKES_NOTHING && given->values.count == 0);
}

static int wrong_word(const char *word)
{
	message("rbtrace: \"%s\" belongs to no option; --help lists them", word);
	return STATUS_USAGE;
}

/* Every option that needs a value has one. */
static int check_values(struct rbtrace_line *line)
{
	for (int i = 0; i < COUNT; i++) {
		const struct rbtrace_option *option = option_at(i);
		const struct rbtrace_given *given = given_at(line, i);
		bool needs = option->values == TAKES_ONE || option->values == TAKES_MANY;

		if (given->given && needs && given->values.count == 0 && !(i == RBTRACE_EXEC && line->command)) {
			message("rbtrace: --%s needs %s; --help says more", option->name, option->placeholder);
			return STATUS_USAGE;
		}
	}
	return 0;
}

/* All that follows --exec or -x is the command's. */
static int own_words(struct rbtrace_line *line, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--exec") != 0 && strcmp(argv[i], "-x") != 0)
			continue;
		line->options[RBTRACE_EXEC].given = true;
		if (i + 1 < argc)
			line->command = argv + i + 1;
		return i;
	}
	return argc;
}

/* rbtrace's parser has a contrary of each option without a value: --no-gc, and --duration of --no-duration. */
static bool is_contrary(struct rbtrace_line *line, const char *word)
{
	for (int i = 0; i < (int)RBTRACE_OPTION_COUNT; i++) {
		const char *name = option_at(i)->name;
		bool negative = strncmp(name, "no-", 3) == 0;

		if (option_at(i)->values != TAKES_NOTHING || strncmp(word, "--", 2) != 0 ||
		    (!negative && strncmp(word + 2, "no-", 3) != 0) ||
		    strcmp(word + (negative ? 2 : 5), name + (negative ? 3 : 0)) != 0)
			continue;
		given_at(line, i)->given = false;
		return true;
	}
	return false;
}

int rbtrace_line_read(struct rbtrace_line *line, int argc, char **argv)
{
	struct option longs[COUNT + 1];
	char letters[4 * (COUNT + 10) + 2];
	int own = own_words(line, argc, argv), key, last = -1;

	describe(longs, letters);
	opterr = 0;
	optind = 0;
	while ((key = getopt_long(own, argv, letters, longs, NULL)) != -1) {
		bool number = key >= '0' && key <= '9';
		struct rbtrace_given *given;

		if (key == '?') {
			last = -1;
			if (is_contrary(line, argv[optind > 1 ? optind - 1 : 1]))
				continue;
			message("rbtrace: there is no option %s; --help lists them", argv[optind > 1 ? optind - 1 : 1]);
			return STATUS_USAGE;
		}
		if (key == ORDINARY || number) {
			const char *word = number ? argv[optind - 1] : optarg;

			if (last < 0 || !has_room(option_at(last), given_at(line, last)))
				return wrong_word(word);
			word_list_add(&given_at(line, last)->values, word);
			continue;
		}
		last = place_of(key);
		given = given_at(line, last);
		given->given = true;
		if (option_at(last)->values != TAKES_MANY)
			given->values.count = 0;
		if (optarg)
			word_list_add(&given->values, optarg);
	}
	if (optind < own)
		return wrong_word(argv[optind]);
	return check_values(line);
}

void rbtrace_line_free(struct rbtrace_line *line)
{
	for (int i = 0; i < COUNT; i++)
		free(given_at(line, i)->values.items);
}

const char *rbtrace_line_value(const struct rbtrace_line *line, enum rbtrace_option_id id, const char *otherwise)
{
	const struct word_list *values = &line->options[id].values;

	return values->count ? values->items[values->count - 1] : otherwise;
}
