/* The options that there are, by their names. See option_names.h. */

#define _GNU_SOURCE
#include "tracer/cli/option_names.h"

#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/cli/help.h"
#include "tracer/cli/nearest.h"
#include "tracer/cli/pager.h"
#include "tracer/cli/rbtrace_options.h"
#include "tracer/cli/subcommand.h"

#include <string.h>

static const struct argp_option standard_list[] = {
	{"help", 'h', NULL, 0, "Give this help list", -1},
	{NULL, '?', NULL, OPTION_HIDDEN, NULL, -1},
	{"usage", OPTION_USAGE, NULL, 0, "Give a short usage message", -1},
	{"no-pager", OPTION_NO_PAGER, NULL, 0, "Show long text on a terminal without a pager", -1},
	{0},
};

static error_t parse_standard(int key, char *argument, struct argp_state *state)
{
	(void)argument;
	if (key == OPTION_NO_PAGER)
		pager_forbid();
	else if (key == 'h' || key == '?' || key == OPTION_USAGE)
		help_show(state, key == OPTION_USAGE);
	else
		return ARGP_ERR_UNKNOWN;
	return 0;
}

const struct argp options_standard = {.options = standard_list, .parser = parse_standard};

void options_each(const struct argp *argp, options_visit visit, void *owner)
{
	for (const struct argp_option *option = argp->options; option && (option->name || option->key || option->doc); option++)
		if ((option->name || option->key) && !(option->flags & OPTION_DOC))
			visit(owner, option);
	for (const struct argp_child *child = argp->children; child && child->argp; child++)
		options_each(child->argp, visit, owner);
}

/* --- Finding one */

struct search {
	const char *name; /* NULL: the letter is looked for */
	size_t size;
	int letter;
	struct argp_option option;
	unsigned count;
	bool exact;
};

static void compare(void *owner, const struct argp_option *option)
{
	struct search *search = owner;

	if (search->name ? !option->name || strncmp(option->name, search->name, search->size) != 0
	                 : option->key != search->letter)
		return;
	if (search->exact)
		return;
	search->exact = search->name && strlen(option->name) == search->size;
	search->count = search->exact ? 1 : search->count + 1;
	search->option = *option;
}

unsigned options_find(const struct argp *argp, const char *name, size_t size, struct argp_option *option)
{
	struct search search = {.name = name, .size = size};

	options_each(argp, compare, &search);
	*option = search.option;
	return search.count;
}

bool options_find_letter(const struct argp *argp, char letter, struct argp_option *option)
{
	struct search search = {.letter = letter};

	options_each(argp, compare, &search);
	*option = search.option;
	return search.count > 0;
}

bool options_takes_next(const struct argp *argp, const char *word, struct argp_option *option)
{
	if (word[0] != '-' || !word[1])
		return false;
	if (word[1] == '-')
		return !strchr(word, '=') && options_find(argp, word + 2, strlen(word + 2), option) == 1 && option->arg &&
		       !(option->flags & OPTION_ARG_OPTIONAL);
	for (const char *letter = word + 1; *letter; letter++)
		if (options_find_letter(argp, *letter, option) && option->arg)
			return !letter[1] && !(option->flags & OPTION_ARG_OPTIONAL);
	return false;
}

/* --- What there is not */

static bool has_all_methods(const struct argp *argp)
{
	struct argp_option option;

	return options_find(argp, "firehose", strlen("firehose"), &option) == 1;
}

static void consider(void *owner, const struct argp_option *option)
{
	if (option->name && !(option->flags & OPTION_HIDDEN))
		nearest_consider(owner, option->name);
}

/* The option that a hint names, "--slow-cpu MS"; NULL: it names something else. */
static const char *option_of_hint(const char *hint)
{
	static const char use[] = "use ";

	return strncmp(hint, use, sizeof(use) - 1) == 0 && strncmp(hint + sizeof(use) - 1, "--", 2) == 0 ? hint + sizeof(use) - 1
	                                                                                                 : NULL;
}

/* Whether there is a hint for somebody who knows rbtrace, and the command has the option that it names. */
static bool rbtrace_says(const struct argp *argp, const char *name, size_t size, char letter, char hint[RBTRACE_HINT_SIZE])
{
	struct argp_option option;
	const char *named;

	if (!has_all_methods(argp) || !rbtrace_hint(name, size, letter, hint))
		return false;
	named = option_of_hint(hint);
	return !named || options_find(argp, named + 2, strcspn(named + 2, " "), &option) == 1;
}

/* For somebody who knows rbtrace, of a command that has not what the hint names. False: that is no option of rbtrace's. */
static bool refuse_rbtrace(const char *command, const char *name, int size)
{
	char hint[RBTRACE_HINT_SIZE];

	if (!rbtrace_hint(name, (size_t)size, 0, hint))
		return false;
	if (option_of_hint(hint))
		message("%s has no option --%.*s; `rbprobe trace` has %s", command, size, name, option_of_hint(hint));
	else
		message("%s has no option --%.*s; %s", command, size, name, hint);
	return true;
}

/* What an option that one command has is called in another one, or does there. NULL: no more is known than who has it. */
static const char *name_here(const char *command, const char *name, size_t size)
{
	static const struct {
		const char *command, *name, *here;
	} names[] = {
		{"replay", "until", "a part of the time ends with --to"},
		{"report", "until", "a part of the time ends with --to"},
		{"profile", "objects", "--alloc samples objects as they are made"},
		{"profile", "to", "write it with -o FILE; `rbprobe export FILE --to FORMAT` makes other formats of it"},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strcmp(names[i].command, command) == 0 && strlen(names[i].name) == size &&
		    memcmp(names[i].name, name, size) == 0)
			return names[i].here;
	return NULL;
}

static int refuse_long(const struct argp *argp, const char *command, const char *word)
{
	const char *name = word + 2, *here;
	int size = (int)strcspn(name, "=");
	char hint[RBTRACE_HINT_SIZE], other[SUBCOMMAND_WORDS_SIZE];
	struct nearest nearest;

	nearest_begin(&nearest, name, (size_t)size);
	options_each(argp, consider, &nearest);
	here = name_here(command, name, (size_t)size);
	if (here)
		message("%s has no option --%.*s; %s", command, size, name, here);
	else if (rbtrace_says(argp, name, (size_t)size, 0, hint))
		message("%s has no option --%.*s; %s", command, size, name, hint);
	else if (subcommand_with_option(name, (size_t)size, other))
		message("%s has no option --%.*s; `rbprobe %s` has it", command, size, name, other);
	else if (refuse_rbtrace(command, name, size))
		return STATUS_USAGE;
	else if (nearest.found)
		message("%s has no option --%.*s; did you mean --%s?", command, size, name, nearest.found);
	else
		message("%s has no option --%.*s; `rbprobe %s --help` lists them", command, size, name, command);
	return STATUS_USAGE;
}

static int refuse_letter(const struct argp *argp, const char *command, const char *word, char letter)
{
	struct argp_option option;
	size_t size = strcspn(word + 1, "=");
	char hint[RBTRACE_HINT_SIZE];

	/* "-duration" */
	if (word[2] && options_find(argp, word + 1, size, &option) == 1)
		message("%s has no option -%c; did you mean --%s?", command, letter, option.name);
	else if (rbtrace_says(argp, NULL, 0, letter, hint))
		message("%s has no option -%c; %s", command, letter, hint);
	else
		message("%s has no option -%c%s%s; `rbprobe %s --help` lists them", command, letter, word[2] ? " as in " : "",
		        word[2] ? word : "", command);
	return STATUS_USAGE;
}

/* Returns 0, or a status after a line on stderr. */
static int check_word(const struct argp *argp, const char *command, const char *word)
{
	struct argp_option option;

	if (word[1] == '-') {
		size_t size = strcspn(word + 2, "=");
		/* One of another command may be the beginning of one of this. */
		bool there = !name_here(command, word + 2, size) && options_find(argp, word + 2, size, &option);

		return there ? 0 : refuse_long(argp, command, word);
	}
	for (const char *letter = word + 1; *letter; letter++) {
		if (!options_find_letter(argp, *letter, &option))
			return refuse_letter(argp, command, word, *letter);
		if (option.arg)
			return 0; /* the rest is its value */
	}
	return 0;
}

int options_check_names(const struct argp *argp, const char *command, int argc, char *const *argv)
{
	struct argp_option option;
	int status = 0;

	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0 && status == 0; i++) {
		if (argv[i][0] != '-' || !argv[i][1])
			continue;
		status = check_word(argp, command, argv[i]);
		i += options_takes_next(argp, argv[i], &option);
	}
	return status;
}
