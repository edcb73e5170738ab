/* record --last and --until. See record_flight.h. */

#include "tracer/commands/record_flight.h"

#include "proto/clock.h"
#include "tracer/base/message.h"
#include "tracer/base/output_name.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAST_MIN (1u << 20) /* bytes; less holds hardly a record */
#define LAST_NS_MIN (NS_PER_S / 10)

int record_flight_last(struct record_flight *flight, const char *text)
{
	size_t length = strlen(text);
	bool is_size = length && strchr("KkMmGg", text[length - 1]);

	if (is_size ? options_size("--last", text, &flight->last.size) : options_seconds("--last", text, &flight->last.ns))
		return EINVAL;
	if (is_size ? flight->last.size >= LAST_MIN : flight->last.ns >= LAST_NS_MIN)
		return 0;
	message("--last takes seconds, 0.1 at least, or a size of at least 1M, not \"%s\"", text);
	return EINVAL;
}

/* Those that choose methods come first, as in enum flight_selector. */
enum word { WORD_SLOW = FLIGHT_SELECTORS, WORD_SLOW_CPU, WORD_RAISED, WORD_RAISE, WORD_THREAD, WORD_DEPTH, WORDS };

static const char *const words[WORDS] = {
	[FLIGHT_CALL] = "call", [FLIGHT_WITHIN] = "within",   [FLIGHT_OUTSIDE] = "outside",
	[WORD_SLOW] = "slow",   [WORD_SLOW_CPU] = "slow-cpu", [WORD_RAISED] = "raised",
	[WORD_RAISE] = "raise", [WORD_THREAD] = "thread",     [WORD_DEPTH] = "depth",
};

/* call=SELECTOR, within=SELECTOR or outside=SELECTOR: 0, or EINVAL after a line on stderr. */
static int selector_word(struct record_flight *flight, unsigned which, const char *value)
{
	struct error err;

	if (selector_parse(&flight->selectors, value, &err) < 0) {
		message("--until %s: %s", words[which], err.text);
		return EINVAL;
	}
	flight->conditions[flight->triggers.count].chosen[which] = flight->selectors.count;
	return 0;
}

static int take_word(struct record_flight *flight, struct trigger *trigger, unsigned which, char *value)
{
	switch (which) {
	case WORD_SLOW:
		return options_milliseconds("--until slow", value, &trigger->slow_ns);
	case WORD_SLOW_CPU:
		return options_milliseconds("--until slow-cpu", value, &trigger->slow_cpu_ns);
	case WORD_RAISED:
		trigger->raised = (struct slice){"", 0};
		return options_exceptions("--until raised", value, &trigger->raised);
	case WORD_RAISE:
		trigger->raise = (struct slice){"", 0};
		return options_exceptions("--until raise", value, &trigger->raise);
	case WORD_THREAD:
		return options_pattern("--until thread", "thread", value, &trigger->thread);
	case WORD_DEPTH:
		return options_whole_number("--until depth", value, 1, UINT32_MAX, &trigger->depth);
	default:
		return selector_word(flight, which, value);
	}
}

/* One word of a condition: NAME or NAME=VALUE. */
static int word(struct record_flight *flight, struct trigger *trigger, char *name)
{
	struct flight_condition *condition = &flight->conditions[flight->triggers.count];
	char *value = strchr(name, '=');
	unsigned which = 0;

	if (value)
		*value++ = '\0';
	while (which < WORDS && strcmp(name, words[which]) != 0)
		which++;
	if (which < WORDS && condition->given & 1u << which) {
		message("--until %s: %s is there twice; one condition has each word once, and --until can be given several times",
		        trigger->text, name);
		return EINVAL;
	}
	if (which == WORDS || (!value && which != WORD_RAISED && which != WORD_RAISE)) {
		message("--until takes slow=MS, slow-cpu=MS, raised, raised=CLASS, raise, raise=CLASS, call=SELECTOR, "
		        "thread=NAME, within=SELECTOR, outside=SELECTOR, depth=N, or some of them with commas between, and "
		        "if=EXPRESSION at the end, not \"%s\"",
		        name);
		return EINVAL;
	}
	condition->given |= 1u << which;
	return take_word(flight, trigger, which, value);
}

int record_flight_until(struct record_flight *flight, const char *text)
{
	struct triggers *triggers = &flight->triggers;
	struct flight_condition *condition = &flight->conditions[triggers->count];
	struct trigger *trigger = &triggers->items[triggers->count];
	char *rest, *one;

	if (triggers->count == TRIGGERS_MAX) {
		message("--until can be given %u times", TRIGGERS_MAX);
		return EINVAL;
	}
	*trigger = (struct trigger){.text = text};
	condition->words = rest = memory_zeroed(strlen(text) + 1);
	memcpy(rest, text, strlen(text) + 1);
	while ((one = strsep(&rest, ","))) {
		if (strncmp(one, "if=", 3) == 0) {
			/* All that follows: an expression may have commas. */
			if (rest)
				rest[-1] = ',';
			condition->expression = one + 3;
			break;
		}
		if (word(flight, trigger, one))
			return EINVAL;
	}
	triggers->count++;
	return 0;
}

static bool is_no_method(const struct selector *selector)
{
	return selector && (selector->expression_count || selector_line(selector));
}

static const char *check_place(const struct trigger *trigger, const struct options *options)
{
	if (is_no_method(trigger->within) || is_no_method(trigger->outside))
		return "--until within= and outside= take a method, without expressions";
	if ((trigger->within || trigger->outside || trigger->depth) && conditions_at_end(&options->trace.conditions))
		return "--until within=, outside= and depth= are about the calls around, which are not known where --slow, "
		       "--raised or an --if about the end chooses calls: leave that out";
	return NULL;
}

static const char *check_trigger(const struct trigger *trigger, const struct options *options)
{
	const struct selector *method = trigger->method;
	const struct conditions *conditions = &options->trace.conditions;

	if (method && method->expression_count)
		return "--until call= takes a selector without expressions";
	if (trigger->raise.bytes && !marks_wanted(&options->trace.marks, MARK_RAISE))
		return "--until raise waits for an exception that is raised anywhere: record these with --raise. (raised is "
		       "about "
		       "an exception that leaves a recorded call)";
	if (trigger->slow_cpu_ns && !(options->trace.flags & TRACE_CPU))
		return "--until slow-cpu= waits for calls that compute: have that recorded with --measure cpu";
	if (trigger->raise.bytes && (trigger->slow_ns || trigger->slow_cpu_ns || trigger->raised.bytes || method))
		return "--until raise is about an exception and no call: it goes with thread=, within=, outside= and depth= "
		       "alone";
	if (method && selector_line(method) && (trigger->slow_ns || trigger->slow_cpu_ns || trigger->raised.bytes))
		return "--until: a line that is reached is neither slow nor raises; give call=FILE:LINE alone";
	if (trigger->slow_cpu_ns && conditions->slow_cpu_ns > trigger->slow_cpu_ns)
		return "--until slow-cpu= waits for calls that --slow-cpu leaves out: give --slow-cpu as many milliseconds, or "
		       "fewer";
	if (trigger->slow_ns && conditions->slow_ns > trigger->slow_ns)
		return "--until slow= waits for calls that --slow leaves out: give --slow as many milliseconds, or fewer";
	return check_place(trigger, options);
}

static const char *check_expression(const char *expression, const struct trigger *trigger)
{
	if (!*expression)
		return "--until if= takes a Ruby expression";
	if (trigger->raise.bytes)
		return "--until raise is about an exception and no call: it goes without if=";
	if (trigger->method && selector_line(trigger->method) &&
	    conditions_code_at_end((struct slice){expression, strlen(expression)}))
		return "--until: a line that is reached does not end: leave result, error and elapsed out of if=";
	return NULL;
}

static const char *check_file(const struct options *options)
{
	if (options->size_max)
		return "--last SIZE says how much is kept; --max-size is for a recording of everything";
	if (output_name_has_pid(options->output_path))
		return "--last is for one file of all processes, not for one each (%p)";
	return options->append ? "--last begins files, and cannot append to one (-a)" : NULL;
}

/* NULL: it has none of that kind. */
static const struct selector *chosen(const struct record_flight *flight, uint32_t at, enum flight_selector which)
{
	uint32_t number = flight->conditions[at].chosen[which];

	return number ? &flight->selectors.items[number - 1] : NULL;
}

const char *record_flight_check(struct record_flight *flight, const struct options *options)
{
	struct triggers *triggers = &flight->triggers;
	const char *wrong = NULL;

	if (!record_flight_is_wanted(flight))
		return triggers->count
		               ? "--until needs --last, which says how much from before is kept: --last 10 for ten seconds"
		               : NULL;
	if (!flight->last.size)
		flight->last.size = FLIGHT_SIZE_DEFAULT;
	triggers->measured = options->trace.flags & TRACE_MEASURES;
	for (uint32_t i = 0; i < triggers->count && !wrong; i++) {
		triggers->items[i].method = chosen(flight, i, FLIGHT_CALL);
		triggers->items[i].within = chosen(flight, i, FLIGHT_WITHIN);
		triggers->items[i].outside = chosen(flight, i, FLIGHT_OUTSIDE);
		wrong = check_trigger(&triggers->items[i], options);
		if (flight->conditions[i].expression && !wrong)
			wrong = check_expression(flight->conditions[i].expression, &triggers->items[i]);
	}
	return wrong ? wrong : check_file(options);
}

/* Adds the expression to those of the selector. */
static void add_expression(struct selector *selector, const char *code)
{
	uint32_t count = selector->expression_count;
	struct slice *expressions = memory_resize(NULL, (count + 1) * sizeof(*expressions));

	if (count)
		memcpy(expressions, selector->expressions, count * sizeof(*expressions));
	expressions[count] = (struct slice){code, strlen(code)};
	free((struct slice *)selector->expressions);
	selector->expressions = expressions;
	selector->expression_count = count + 1;
}

/* Its value is "true", "false", or what it has raised. */
static void make_code(struct flight_condition *condition, uint32_t number)
{
	size_t size =
		strlen(condition->expression) + FLIGHT_TRUTH_SIZE + sizeof(": " CONDITIONS_TRUTH_BEGIN CONDITIONS_TRUTH_END);

	snprintf(condition->truth, FLIGHT_TRUTH_SIZE, "until%u", number);
	condition->code = memory_zeroed(size);
	snprintf(condition->code, size, "%s: " CONDITIONS_TRUTH_BEGIN "%s" CONDITIONS_TRUTH_END, condition->truth,
	         condition->expression);
}

/* What the trigger is about: its own method, or all that are recorded. */
static const char *ask_for(const struct record_flight *flight, const struct flight_condition *condition,
                           struct selector_list *selectors)
{
	uint32_t asked = 0, own = condition->chosen[FLIGHT_CALL];

	if (own && selectors->count == SELECTORS_MAX)
		return "--until if= and call= need one more selector, and there are as many as there may be";
	if (own) {
		selector_list_add(selectors, &flight->selectors.items[own - 1], flight->selectors.texts[own - 1]);
		add_expression(&selectors->items[selectors->count - 1], condition->code);
		return NULL;
	}
	for (uint32_t i = 0; i < selectors->count; i++) {
		struct selector *selector = &selectors->items[i];

		if (selector->role != ROLE_SHOWN)
			continue;
		if (selector->expression_count == EXPRESSIONS_MAX)
			return "--until if= is one more expression of each selector, and one has as many as there may be";
		add_expression(selector, condition->code);
		asked++;
	}
	return asked ? NULL : "--until if= needs a selector that is recorded, or call=SELECTOR before it";
}

const char *record_flight_select(struct record_flight *flight, struct selector_list *selectors)
{
	const char *wrong = NULL;

	for (uint32_t i = 0; i < flight->triggers.count && !wrong; i++) {
		struct flight_condition *condition = &flight->conditions[i];

		if (!condition->expression)
			continue;
		make_code(condition, i + 1);
		wrong = ask_for(flight, condition, selectors);
		flight->triggers.items[i].truth = condition->truth;
		flight->triggers.with_truths = true;
	}
	return wrong;
}

void record_flight_free(struct record_flight *flight)
{
	for (uint32_t i = 0; i < TRIGGERS_MAX; i++) {
		free(flight->conditions[i].words);
		free(flight->conditions[i].code);
	}
	selector_list_free(&flight->selectors);
}
