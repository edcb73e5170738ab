/* The tracers among the options. See tracer_set.h. */

#include "tracer/cli/tracer_set.h"

#include "proto/label.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int tracers_add(struct options *options, struct tracer_file *file, struct error *err)
{
	struct selector_list *list = &options->selectors;

	uint32_t sets = 0;

	for (uint32_t i = 0; i < options->tracer_count; i++)
		sets += options->tracers[i].sets;
	if (sets + file->sets > SELECTOR_SETS_MAX)
		return error_set(err, -EINVAL, "more than %u times #:show outermost in tracers", SELECTOR_SETS_MAX);
	if (list->count + file->selectors.count > SELECTORS_MAX)
		return error_set(err, -EINVAL, "more than %u selectors", SELECTORS_MAX);
	for (uint32_t i = 0; i < file->selectors.count; i++) {
		struct selector copy = file->selectors.items[i];
		struct slice *expressions = memory_zeroed((copy.expression_count + 1) * sizeof(*expressions));

		if (copy.expression_count)
			memcpy(expressions, copy.expressions, copy.expression_count * sizeof(*expressions));
		copy.expressions = expressions;
		copy.tracer = options->tracer_count + 1;
		copy.set += copy.set ? sets : 0;
		selector_list_add(list, &copy, file->selectors.texts[i]);
	}
	options->tracers = memory_resize(options->tracers, (options->tracer_count + 1) * sizeof(*options->tracers));
	options->tracers[options->tracer_count++] = *file;
	return 0;
}

void tracers_free(struct options *options)
{
	for (uint32_t i = 0; i < options->tracer_count; i++)
		tracer_file_free(&options->tracers[i]);
	free(options->tracers);
	options->tracers = NULL;
	options->tracer_count = 0;
}

/* --- Events */

void tracers_want_events(struct options *options)
{
	struct mark_options *marks = &options->trace.marks;

	for (uint32_t i = 0; i < options->tracer_count; i++) {
		const struct tracer_file *tracer = &options->tracers[i];

		/* Who has said which exceptions, has said it. */
		if (tracer->marks & 1u << MARK_RAISE && !(marks->kinds & 1u << MARK_RAISE))
			marks->raise = (struct slice){tracer->raise, strlen(tracer->raise)};
		marks->kinds |= tracer->marks;
	}
}

int tracers_refuse_events(const struct options *options, const char *subcommand)
{
	for (uint32_t i = 0; i < options->tracer_count; i++) {
		const struct tracer_file *tracer = &options->tracers[i];

		if (!tracer->marks)
			continue;
		if (!tracer->selectors.count) {
			message("tracer %s shows events, not calls: `rbprobe trace` and `exec` take it, %s has nothing to count",
			        tracer->name, subcommand);
			return STATUS_USAGE;
		}
		if (!options->quiet)
			message("tracer %s also shows events, which %s does not: only its calls are counted", tracer->name,
			        subcommand);
	}
	return 0;
}

/* --- Expressions */

void tracers_drop_keys(struct options *options)
{
	for (uint32_t i = 0; i < options->selectors.count; i++) {
		struct selector *selector = &options->selectors.items[i];
		struct slice *expressions = (struct slice *)selector->expressions;
		uint32_t kept = 0;

		for (uint32_t e = 0; selector->tracer && e < selector->expression_count; e++) {
			struct slice expression = expressions[e];

			if (!tracer_expression_is_key(&expression))
				expressions[kept++] = expression;
		}
		if (selector->tracer)
			selector->expression_count = kept;
	}
}

static bool is_labelled(struct slice expression, const char *name)
{
	struct slice code = expression, label = label_split(&code);

	return code.bytes != expression.bytes && label.size == strlen(name) && memcmp(label.bytes, name, label.size) == 0;
}

/* As it is shown: one without a label by its own text. */
static bool is_named(struct slice expression, const char *name)
{
	return (expression.size == strlen(name) && memcmp(expression.bytes, name, expression.size) == 0) ||
	       is_labelled(expression, name);
}

bool selector_has_key(const struct selector *selector, const char *name)
{
	return selector->expression_count == 1 && is_named(selector->expressions[0], name);
}

/* The selector's expression of that name; one that is there for it goes first. */
static bool find_named(const struct selector *selector, const char *name, bool for_keys, struct slice *found)
{
	for (uint32_t e = 0; e < selector->expression_count; e++) {
		bool is_key;

		*found = selector->expressions[e];
		is_key = selector->tracer && tracer_expression_is_key(found);
		if (is_key == for_keys && is_named(*found, name))
			return true;
	}
	return false;
}

/* Where it is no label of any selector, it is an expression. */
static bool any_labelled(const struct options *options, const char *name)
{
	for (uint32_t i = 0; i < options->selectors.count; i++) {
		const struct selector *selector = &options->selectors.items[i];

		for (uint32_t e = 0; e < selector->expression_count; e++) {
			struct slice expression = selector->expressions[e];

			if (selector->tracer)
				tracer_expression_is_key(&expression);
			if (is_labelled(expression, name))
				return true;
		}
	}
	return false;
}

/* A word that is nothing else in Ruby but a name. */
static bool is_word(const char *text)
{
	size_t size = strspn(text, "abcdefghijklmnopqrstuvwxyz_0123456789");

	return size && !text[size] && !isdigit((unsigned char)*text) && strcmp(text, "self") != 0;
}

static bool all_of_tracers(const struct options *options)
{
	for (uint32_t i = 0; i < options->selectors.count; i++)
		if (options->selectors.items[i].role == ROLE_SHOWN && !options->selectors.items[i].tracer)
			return false;
	return options->tracer_count > 0;
}

/* What may follow --by, each once: the names of expressions. */
struct key_names {
	const char *words[64];
	size_t count;
};

static void key_name_add(struct key_names *names, struct slice name)
{
	if (!name.size || names->count + 1 == sizeof(names->words) / sizeof(*names->words))
		return;
	for (size_t i = 0; i < names->count; i++)
		if (strncmp(names->words[i], name.bytes, name.size) == 0 && !names->words[i][name.size])
			return;
	names->words[names->count++] = strndup(name.bytes, name.size);
}

static void key_names_of(const struct selector *selector, struct key_names *names)
{
	for (uint32_t e = 0; e < selector->expression_count; e++) {
		struct slice expression = selector->expressions[e], code, label;

		tracer_expression_is_key(&expression);
		code = expression;
		label = label_split(&code);
		if (code.bytes != expression.bytes)
			key_name_add(names, label);
	}
}

int tracers_check_key(const struct options *options, const char *name)
{
	struct key_names names = {.words = {"thread", "class", "caller"}, .count = 3};
	size_t own = names.count;

	if (!name || !is_word(name) || !all_of_tracers(options) || any_labelled(options, name))
		return 0;
	for (uint32_t i = 0; i < options->selectors.count; i++)
		if (options->selectors.items[i].tracer)
			key_names_of(&options->selectors.items[i], &names);
	options_refuse_word("--by", name, names.words);
	while (names.count > own)
		free((char *)names.words[--names.count]);
	return STATUS_USAGE;
}

bool tracers_choose_key(struct options *options, const char *name)
{
	bool any = name && any_labelled(options, name);

	for (uint32_t i = 0; i < options->selectors.count; i++) {
		struct selector *selector = &options->selectors.items[i];
		struct slice found;

		if (any && (find_named(selector, name, true, &found) || find_named(selector, name, false, &found))) {
			*(struct slice *)selector->expressions = found;
			selector->expression_count = 1;
		} else if (selector->tracer) {
			selector->expression_count = 0;
		}
	}
	return any;
}

/* --- What does not fit */

bool tracer_is_unfit(const struct options *options, const bool *found, uint32_t number)
{
	for (uint32_t i = 0; found && i < options->selectors.count; i++)
		if (options->selectors.items[i].tracer == number && found[i])
			return false;
	return options->tracers[number - 1].selectors.count > 0;
}

/* "redis, before 5" and "redis, from 5 on" are one library. */
static struct slice library_name(const struct tracer_file *tracer, uint32_t number)
{
	return (struct slice){tracer->libraries[number], strcspn(tracer->libraries[number], ",")};
}

static bool is_first_of_name(const struct tracer_file *tracer, uint32_t number)
{
	struct slice name = library_name(tracer, number);

	for (uint32_t i = 0; i < number; i++) {
		struct slice other = library_name(tracer, i);

		if (other.size == name.size && memcmp(other.bytes, name.bytes, name.size) == 0)
			return false;
	}
	return true;
}

void tracer_describe_unfit(const struct options *options, uint32_t number, struct buffer *to)
{
	const struct tracer_file *tracer = &options->tracers[number - 1];
	uint32_t names[TRACER_LIBRARIES_MAX], count = 0;

	for (uint32_t i = 0; i < tracer->library_count; i++)
		if (is_first_of_name(tracer, i))
			names[count++] = i;
	if (count == 0) {
		buffer_add_text(to, "none of its selectors matches a method");
		return;
	}
	if (count > 1)
		buffer_add_text(to, "neither ");
	for (uint32_t i = 0; i < count; i++) {
		buffer_add_text(to, i == 0 ? "" : i + 1 == count ? " nor " : ", ");
		buffer_add_slice(to, library_name(tracer, names[i]));
	}
	buffer_add_text(to, count == 1 ? " is not loaded" : " is loaded");
}
