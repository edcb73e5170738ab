/* The options that there are, by their names. See option_names.h. */

#define _GNU_SOURCE
#include "tracer/cli/option_names.h"

#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"

#include <string.h>

#define NAME_MAX_SIZE 40u /* longer ones are like no option */

static const struct argp_option standard_list[] = {
	{"help", 'h', NULL, 0, "Give this help list", -1},
	{NULL, '?', NULL, OPTION_HIDDEN, NULL, -1},
	{"usage", OPTION_USAGE, NULL, 0, "Give a short usage message", -1},
	{0},
};

static error_t parse_standard(int key, char *argument, struct argp_state *state)
{
	(void)argument;
	if (key != 'h' && key != '?' && key != OPTION_USAGE)
		return ARGP_ERR_UNKNOWN;
	argp_state_help(state, state->out_stream, key == OPTION_USAGE ? ARGP_HELP_USAGE | ARGP_HELP_EXIT_OK : ARGP_HELP_STD_HELP);
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

/* Of rbtrace, whose users will try them: in what is like its own command line, which has all of --firehose. */
static const struct {
	const char *name;
	char letter; /* 0: it has none */
	const char *instead;
} of_rbtrace[] = {
	{"slow-methods", 0, "name the methods, and give --slow MS"},
	{"slow", 's', "it is --slow MS"},
	{"gc", 'g', "it is --gc"},
	{"eval", 'e', "that is `rbprobe eval -p PID CODE`"},
	{"interactive", 'i', "that is `rbprobe console -p PID`"},
	{"backtraces", 0, "that is `rbprobe backtrace -p PID`"},
	{"backtrace", 'b', "that is `rbprobe backtrace -p PID`"},
	{"memory", 0, "that is `rbprobe memory -p PID`"},
	{"heapdump", 0, "that is `rbprobe heap dump -p PID`"},
	{"fork", 0, "that is `rbprobe fork -p PID`"},
	{"exec", 0, "that is `rbprobe exec SELECTOR... -- COMMAND...`"},
	{"ps", 0, "`rbprobe ps` lists the Ruby processes"},
	{"config", 'c', "selectors are not kept in files; name them after -p PID"},
	{"devmode", 'd', "methods that are defined later are traced anyway"},
	{"wait", 0, "rbprobe attaches at once"},
};

/* name: NULL, and the letter counts. */
static const char *rbtrace_hint(const struct argp *argp, const char *name, size_t size, char letter)
{
	struct argp_option option;

	if (options_find(argp, "firehose", strlen("firehose"), &option) != 1)
		return NULL;
	for (size_t i = 0; i < sizeof(of_rbtrace) / sizeof(*of_rbtrace); i++)
		if (name ? strlen(of_rbtrace[i].name) == size && memcmp(of_rbtrace[i].name, name, size) == 0
		         : of_rbtrace[i].letter == letter)
			return of_rbtrace[i].instead;
	return NULL;
}

/* How many letters are to be changed, added, left out or swapped with their neighbour. */
static unsigned distance(const char *one, size_t one_size, const char *other, size_t other_size)
{
	unsigned rows[3][NAME_MAX_SIZE + 1] = {{0}};

	for (size_t j = 0; j <= other_size; j++)
		rows[0][j] = (unsigned)j;
	for (size_t i = 1; i <= one_size; i++) {
		unsigned *row = rows[i % 3];
		const unsigned *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= other_size; j++) {
			unsigned least = above[j - 1] + (one[i - 1] != other[j - 1]);

			if (above[j] + 1 < least)
				least = above[j] + 1;
			if (row[j - 1] + 1 < least)
				least = row[j - 1] + 1;
			if (i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] &&
			    two_above[j - 2] + 1 < least)
				least = two_above[j - 2] + 1;
			row[j] = least;
		}
	}
	return rows[one_size % 3][other_size];
}

struct nearest {
	const char *name;
	size_t size;
	unsigned distance;
	const char *found;
};

static void measure(void *owner, const struct argp_option *option)
{
	struct nearest *nearest = owner;
	unsigned far;

	if (!option->name || option->flags & OPTION_HIDDEN || strlen(option->name) > NAME_MAX_SIZE)
		return;
	far = distance(nearest->name, nearest->size, option->name, strlen(option->name));
	if (far >= nearest->distance)
		return;
	nearest->distance = far;
	nearest->found = option->name;
}

/* The option that was probably meant, or NULL: a third of the letters may be wrong. */
static const char *nearest_of(const struct argp *argp, const char *name, size_t size)
{
	struct nearest nearest = {.name = name, .size = size, .distance = (unsigned)(size + 5) / 3};

	if (size > NAME_MAX_SIZE)
		return NULL;
	options_each(argp, measure, &nearest);
	return nearest.found;
}

static int refuse_long(const struct argp *argp, const char *command, const char *word)
{
	const char *name = word + 2;
	int size = (int)strcspn(name, "=");
	const char *hint = rbtrace_hint(argp, name, (size_t)size, 0);
	const char *nearest = hint ? NULL : nearest_of(argp, name, (size_t)size);

	if (nearest)
		message("%s has no option --%.*s; did you mean --%s?", command, size, name, nearest);
	else if (hint)
		message("%s has no option --%.*s; %s", command, size, name, hint);
	else
		message("%s has no option --%.*s; `rbprobe %s --help` lists them", command, size, name, command);
	return STATUS_USAGE;
}

static int refuse_letter(const struct argp *argp, const char *command, const char *word, char letter)
{
	struct argp_option option;
	size_t size = strcspn(word + 1, "=");
	const char *hint = rbtrace_hint(argp, NULL, 0, letter);

	/* "-duration" */
	if (word[2] && options_find(argp, word + 1, size, &option) == 1)
		message("%s has no option -%c; did you mean --%s?", command, letter, option.name);
	else if (hint)
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

	if (word[1] == '-')
		return options_find(argp, word + 2, strcspn(word + 2, "="), &option) ? 0 : refuse_long(argp, command, word);
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
