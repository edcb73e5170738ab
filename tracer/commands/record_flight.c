/* record --last and --until. See record_flight.h. */

#include "tracer/commands/record_flight.h"

#include "proto/clock.h"
#include "tracer/base/message.h"
#include "tracer/base/output_name.h"

#include <errno.h>
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

/* One word of a condition: NAME or NAME=VALUE. */
static int word(struct record_flight *flight, struct trigger *trigger, char *name)
{
	char *value = strchr(name, '=');
	uint32_t at = flight->triggers.count;
	struct error err;

	if (value)
		*value++ = '\0';
	if (strcmp(name, "slow") == 0 && value)
		return options_milliseconds("--until slow", value, &trigger->slow_ns);
	if (strcmp(name, "raised") == 0) {
		trigger->raised = (struct slice){"", 0};
		return options_exceptions("--until raised", value, &trigger->raised);
	}
	if (strcmp(name, "raise") == 0) {
		trigger->raise = (struct slice){"", 0};
		return options_exceptions("--until raise", value, &trigger->raise);
	}
	if (strcmp(name, "thread") == 0 && value)
		return options_pattern("--until thread", "thread", value, &trigger->thread);
	if (strcmp(name, "call") == 0 && value && !flight->selecting[at]) {
		if (selector_parse(&flight->selectors, value, &err) < 0) {
			message("--until call: %s", err.text);
			return EINVAL;
		}
		flight->selecting[at] = true;
		return 0;
	}
	message("--until takes slow=MS, raised, raised=CLASS, raise, raise=CLASS, call=SELECTOR, thread=NAME, or some of them "
	        "with commas between, not \"%s\"",
	        name);
	return EINVAL;
}

int record_flight_until(struct record_flight *flight, const char *text)
{
	struct triggers *triggers = &flight->triggers;
	struct trigger *trigger = &triggers->items[triggers->count];
	char *rest, *one;

	if (triggers->count == TRIGGERS_MAX) {
		message("--until can be given %u times", TRIGGERS_MAX);
		return EINVAL;
	}
	*trigger = (struct trigger){.text = text};
	flight->words[triggers->count] = rest = memory_zeroed(strlen(text) + 1);
	memcpy(rest, text, strlen(text) + 1);
	while ((one = strsep(&rest, ",")))
		if (word(flight, trigger, one))
			return EINVAL;
	triggers->count++;
	return 0;
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
	if (trigger->raise.bytes && (trigger->slow_ns || trigger->raised.bytes || method))
		return "--until raise is about an exception and no call: it goes with thread= alone";
	if (method && selector_line(method) && (trigger->slow_ns || trigger->raised.bytes))
		return "--until: a line that is reached is neither slow nor raises; give call=FILE:LINE alone";
	if (trigger->slow_ns && conditions->slow_ns > trigger->slow_ns)
		return "--until slow= waits for calls that --slow leaves out: give --slow as many milliseconds, or fewer";
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

const char *record_flight_check(struct record_flight *flight, const struct options *options)
{
	struct triggers *triggers = &flight->triggers;
	const char *wrong = NULL;
	uint32_t selector = 0;

	if (!record_flight_is_wanted(flight))
		return triggers->count
		               ? "--until needs --last, which says how much from before is kept: --last 10 for ten seconds"
		               : NULL;
	if (!flight->last.size)
		flight->last.size = FLIGHT_SIZE_DEFAULT;
	for (uint32_t i = 0; i < triggers->count && !wrong; i++) {
		if (flight->selecting[i])
			triggers->items[i].method = &flight->selectors.items[selector++];
		wrong = check_trigger(&triggers->items[i], options);
	}
	return wrong ? wrong : check_file(options);
}

void record_flight_free(struct record_flight *flight)
{
	for (uint32_t i = 0; i < TRIGGERS_MAX; i++)
		free(flight->words[i]);
	selector_list_free(&flight->selectors);
}
