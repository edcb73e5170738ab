/* Shell completion, of the options that argp has. See complete.h. */

#include "tracer/cli/complete.h"

#include "proto/clock.h"
#include "tracer/cli/complete_selectors.h"
#include "tracer/cli/option_names.h"
#include "tracer/cli/tracer_find.h"
#include "tracer/process/ruby_processes.h"

#include <stdlib.h>
#include <string.h>

#define TRACERS "NAME|FILE"         /* what -c takes: one, or several with commas between them */
#define PROCESSES_NS (2 * NS_PER_S) /* for finding them */

struct completion {
	struct buffer *answer;
	const struct subcommand *subcommand;
	const struct argp *argp; /* its options */
	struct slice prefix;     /* what stands before the word in the same word, and stays */
	const char *word;        /* its part so far */

	/* Those after the subcommand's name, whole; word is in the last of them. */
	const char *const *words;
	size_t count;
};

static bool begins_with(const char *text, const char *beginning)
{
	return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* Whether it is one of the items, each with a comma after it, that the prefix has. */
static bool is_given(struct slice prefix, struct slice word)
{
	for (size_t i = 0; i + word.size < prefix.size; i++)
		if ((i == 0 || prefix.bytes[i - 1] == ',' || prefix.bytes[i - 1] == '=') && prefix.bytes[i + word.size] == ',' &&
		    memcmp(prefix.bytes + i, word.bytes, word.size) == 0)
			return true;
	return false;
}

/* A word, if it goes on as it was begun. */
static void offer(struct completion *completion, struct slice word, struct slice meaning)
{
	size_t begun = strlen(completion->word);

	if (word.size < begun || memcmp(word.bytes, completion->word, begun) != 0 || is_given(completion->prefix, word))
		return;
	buffer_add_slice(completion->answer, completion->prefix);
	buffer_add_slice(completion->answer, word);
	buffer_add_char(completion->answer, '\t');
	buffer_add_printable(completion->answer, meaning.bytes, meaning.size);
	buffer_add_char(completion->answer, '\n');
}

/* Only the first sentence of what it means. */
static void offer_text(struct completion *completion, const char *word, const char *meaning)
{
	const char *end = strstr(meaning, ". ");

	offer(completion, (struct slice){word, strlen(word)},
	      (struct slice){meaning, end ? (size_t)(end - meaning) : strlen(meaning)});
}

static void ask_shell(struct completion *completion, const char *what)
{
	buffer_add_text(completion->answer, what);
}

/* --- What an option takes */

/* Whether it names what there is: words between these separators. Those in capitals stand for others. */
static bool is_list(const char *argument, char separator)
{
	if (!strchr(argument, separator))
		return false;
	for (; *argument; argument++)
		if (*argument != separator && !strchr("abcdefghijklmnopqrstuvwxyz0123456789.-/EXPR", *argument))
			return false;
	return true;
}

static void offer_words(struct completion *completion, const char *words, const char *separator)
{
	for (size_t size; *words; words += size + (words[size] != '\0')) {
		size = strcspn(words, separator);
		if (size && words[0] >= 'A' && words[0] <= 'Z')
			continue;
		offer(completion, (struct slice){words, size}, (struct slice){"", 0});
	}
}

/* Of a list with commas only the last item is completed. */
static void skip_items(struct completion *completion, struct buffer *whole)
{
	const char *comma = strrchr(completion->word, ',');

	if (!comma)
		return;
	buffer_add_slice(whole, completion->prefix);
	buffer_add(whole, completion->word, (size_t)(comma + 1 - completion->word));
	completion->prefix = (struct slice){whole->bytes, whole->size};
	completion->word = comma + 1;
}

static void on_process(void *owner, const struct target *target)
{
	char pid[16], command[4096];
	int size = snprintf(pid, sizeof(pid), "%d", (int)target->pid);

	if (target->other_ruby)
		return;
	target_command_line(target, command, sizeof(command));
	offer(owner, (struct slice){pid, (size_t)size}, (struct slice){command, strlen(command)});
}

static int on_tracer(void *owner, const char *name, const char *path)
{
	struct tracer_file file;
	struct error err;

	if (tracer_find(&file, path, &err) < 0)
		return 0;
	offer_text(owner, name, file.description);
	tracer_file_free(&file);
	return 0;
}

static void offer_tracers(struct completion *completion)
{
	tracer_each(on_tracer, completion);
	ask_shell(completion, ":files\n");
}

static void on_selector(void *owner, struct slice selector)
{
	offer(owner, selector, (struct slice){"", 0});
}

/* What the process has, which the words before name. */
static void offer_selectors(struct completion *completion)
{
	const char *last = completion->words[completion->count - 1];
	struct selector_question question = {.subcommand = completion->subcommand,
	                                     .words = completion->words,
	                                     .count = completion->count,
	                                     .before = (size_t)(completion->word - last)};

	if (completion->subcommand->pids != PIDS_NONE)
		complete_selectors(&question, on_selector, completion);
}

static void offer_values(struct completion *completion, const char *argument)
{
	struct buffer whole = {0};
	struct error err;
	struct unseen_processes unseen;

	if (strchr(argument, ',') || (strcmp(argument, TRACERS) == 0 && !strchr(completion->word, '/')))
		skip_items(completion, &whole);
	if (is_list(argument, '|'))
		offer_words(completion, argument, "|");
	else if (is_list(argument, ','))
		offer_words(completion, argument, ",");
	else if (begins_with(argument, "PID"))
		ruby_processes_each(TARGET_BASIC, clock_now_ns() + PROCESSES_NS, &unseen, on_process, completion, &err);
	else if (strcmp(argument, "SELECTOR") == 0)
		offer_selectors(completion);
	else if (strcmp(argument, TRACERS) == 0)
		offer_tracers(completion);
	else if (strcmp(argument, "FILE") == 0)
		ask_shell(completion, ":files\n");
	buffer_free(&whole);
}

/* --- The options */

static void offer_option(void *owner, const struct argp_option *option)
{
	struct completion *completion = owner;
	char word[64] = {'-', (char)option->key, '\0'};

	if (option->flags & OPTION_HIDDEN)
		return;
	/* All letters where only the dash is there: with a second dash nobody wants them. */
	if (option->key > ' ' && option->key < 0x7f && (!completion->word[1] || completion->word[1] == option->key))
		offer_text(completion, word, option->doc);
	snprintf(word, sizeof(word), "--%s", option->name);
	offer_text(completion, word, option->doc);
}

/* What stands before the value of an option stays: "--format=", "-p". */
static void complete_value(struct completion *completion, const struct argp_option *option, size_t before)
{
	const char *word = completion->word;

	if (!option->arg)
		return;
	completion->word += before;
	completion->prefix = (struct slice){word, before};
	offer_values(completion, option->arg);
}

static void complete_option(struct completion *completion)
{
	const char *word = completion->word, *equals = strchr(word, '=');
	struct argp_option option;

	if (begins_with(word, "--") && equals) {
		if (options_find(completion->argp, word + 2, (size_t)(equals - word - 2), &option) == 1)
			complete_value(completion, &option, (size_t)(equals + 1 - word));
		return;
	}
	if (word[1] && word[1] != '-' && word[2] && options_find_letter(completion->argp, word[1], &option) && option.arg) {
		complete_value(completion, &option, 2);
		return;
	}
	options_each(completion->argp, offer_option, completion);
}

/* What the words before the last one mean for it. */
struct place {
	bool is_value; /* it is the value of this option */
	struct argp_option option;
	bool has_pid;
	size_t after_dashes; /* how many words are between "--" and it, and one; 0: there is no "--" */
};

static struct place place_of(const struct argp *argp, const char *const *words, size_t count)
{
	struct place place = {0};

	for (size_t i = 0; i + 1 < count; i++) {
		if (strcmp(words[i], "--") == 0) {
			place.after_dashes = count - 1 - i;
			return place;
		}
		place.has_pid = place.has_pid || begins_with(words[i], "-p") || begins_with(words[i], "--p");
		i += place.is_value = options_takes_next(argp, words[i], &place.option);
		place.is_value = place.is_value && i + 1 == count;
	}
	return place;
}

/* Whether what is no option is a selector. */
static bool takes_selectors(const struct subcommand *subcommand)
{
	for (size_t i = 0; subcommand->options && subcommand->options[i] && !subcommand->positional; i++)
		if (subcommand->options[i] == &options_selectors)
			return true;
	return subcommand->positional == &options_selectors;
}

static void complete_word(struct completion *completion, const char *const *words, size_t count)
{
	const struct subcommand *subcommand = completion->subcommand;
	struct place place = place_of(completion->argp, words, count);

	completion->words = words;
	completion->count = count;
	completion->word = words[count - 1];
	if (place.is_value) {
		offer_values(completion, place.option.arg);
	} else if (place.after_dashes && subcommand->takes_words) {
		ask_shell(completion, place.after_dashes == 1 ? ":programs\n" : ":files\n");
	} else if (completion->word[0] == '-' && !place.after_dashes) {
		complete_option(completion);
	} else if (subcommand->words != WORDS_OTHER) {
		ask_shell(completion, subcommand->words == WORDS_FILES ? ":files\n" : ":programs\n");
	} else {
		if (subcommand->pids != PIDS_NONE && !place.has_pid && !place.after_dashes)
			offer_text(completion, "-p", "Attach to this process");
		if (takes_selectors(subcommand))
			offer_selectors(completion);
	}
}

/* Words are those that follow its name. */
static void complete_words(struct completion *completion, const char *const *words, size_t count)
{
	struct subcommand_parser parser;

	subcommand_parser_init(&parser, completion->subcommand);
	completion->argp = &parser.argp;
	complete_word(completion, words, count);
	completion->argp = NULL;
}

/* --- The subcommands */

static void offer_names(struct completion *completion, const struct subcommand *const *subcommands, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		offer_text(completion, subcommands[i]->name, subcommands[i]->summary);
		if (subcommands[i]->alias)
			offer_text(completion, subcommands[i]->alias, subcommands[i]->summary);
	}
}

static const struct subcommand *named(const struct subcommand *const *subcommands, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(subcommands[i]->name, name) == 0 ||
		    (subcommands[i]->alias && strcmp(subcommands[i]->alias, name) == 0))
			return subcommands[i];
	return NULL;
}

void complete(struct buffer *answer, const struct subcommand *const *subcommands, size_t subcommand_count,
              const char *const *words, size_t count)
{
	struct completion completion = {.answer = answer, .word = count ? words[0] : ""};
	const struct subcommand *const *verbs;
	size_t verb_count = 0;

	if (count == 2 && strcmp(words[0], "help") == 0) {
		completion.word = words[1];
		offer_names(&completion, subcommands, subcommand_count);
		return;
	}
	if (count < 2) {
		offer_names(&completion, subcommands, subcommand_count);
		offer_text(&completion, "help", "What a subcommand takes");
		offer_text(&completion, "--help", "List the subcommands");
		offer_text(&completion, "--version", "The versions of rbprobe and of its protocol");
		return;
	}
	completion.subcommand = named(subcommands, subcommand_count, words[0]);
	verbs = completion.subcommand ? completion.subcommand->verbs : NULL;
	while (verbs && verbs[verb_count])
		verb_count++;
	if (verbs && count == 2) {
		completion.word = words[1];
		offer_names(&completion, verbs, verb_count);
		offer_text(&completion, "--help", "List the verbs");
		return;
	}
	if (verbs) {
		completion.subcommand = named(verbs, verb_count, words[1]);
		words++;
		count--;
	}
	if (completion.subcommand)
		complete_words(&completion, words + 1, count - 1);
}
