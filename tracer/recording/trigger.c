/* What a flight recorder waits for. See trigger.h. triggers_call() is done for each call: keep it lean. */

#include "tracer/recording/trigger.h"

#include "tracer/base/value.h"
#include "tracer/recording/meant.h"
#include "tracer/stream/measures.h"

enum role { ROLE_METHOD = 1, ROLE_AROUND = 2, ROLE_NOT_AROUND = 4 };

static int role(const struct selector *selector, enum role bit, const struct method *method)
{
	return selector && method_is_meant(selector, method) ? bit : 0;
}

/* What the method is to a trigger, bits by enum role. Found once: a byte for each trigger. */
static unsigned roles_of(const struct triggers *triggers, uint32_t at, struct method *method)
{
	if (!method->prepared.size)
		for (uint32_t i = 0; i < triggers->count; i++) {
			const struct trigger *trigger = &triggers->items[i];

			buffer_add_char(&method->prepared, (char)(role(trigger->method, ROLE_METHOD, method) |
			                                          role(trigger->within, ROLE_AROUND, method) |
			                                          role(trigger->outside, ROLE_NOT_AROUND, method)));
		}
	return (unsigned char)method->prepared.bytes[at];
}

static bool is_method_meant(const struct triggers *triggers, uint32_t at, struct method *method)
{
	return !triggers->items[at].method || roles_of(triggers, at, method) & ROLE_METHOD;
}

/* The fiber's open calls are those around it. method: its own; NULL: it has none. */
static bool is_place_meant(const struct triggers *triggers, uint32_t at, const struct fiber *fiber, struct method *method)
{
	const struct trigger *trigger = &triggers->items[at];
	unsigned roles = 0;

	if (trigger->depth && fiber->depth >= trigger->depth)
		return false;
	if (!trigger->within && !trigger->outside)
		return true;
	for (uint32_t i = 0; i < fiber->depth; i++)
		roles |= roles_of(triggers, at, fiber->calls[i].method);
	if (trigger->within && !(roles & ROLE_AROUND))
		return false;
	if (method)
		roles |= roles_of(triggers, at, method);
	return !(roles & ROLE_NOT_AROUND);
}

static bool is_thread_meant(const struct trigger *trigger, const struct fiber *fiber)
{
	return !trigger->thread.size || thread_is_meant(trigger->thread, fiber);
}

static const struct trigger *met(const struct trigger *trigger, struct buffer *why)
{
	buffer_add_format(why, " (--until %s)", trigger->text);
	return trigger;
}

static void add_class(struct buffer *why, struct values values)
{
	struct slice name = values_get(values, 0);

	buffer_add_printable(why, name.bytes, name.size);
}

static bool is_true(const char *truth, const struct labels *labels, struct values values)
{
	for (uint32_t i = 0; i < labels->count && i < values.count; i++)
		if (slice_is(labels->names[i], truth))
			return slice_is(values_get(values, i), "true");
	return false;
}

static uint16_t truths_in(const struct triggers *triggers, const struct labels *labels, struct values values)
{
	uint16_t truths = 0;

	for (uint32_t i = 0; i < triggers->count; i++)
		if (triggers->items[i].truth && is_true(triggers->items[i].truth, labels, values))
			truths |= (uint16_t)(1u << i);
	return truths;
}

uint16_t triggers_truths(const struct triggers *triggers, const struct method *method, struct values values)
{
	return triggers->with_truths ? truths_in(triggers, &method->labels, values) : 0;
}

/* Of those that are about how it ended. */
static uint16_t truths_at_end(const struct triggers *triggers, const struct trigger_call *call)
{
	struct values outcome = call->outcome, ends;

	if (!triggers->with_truths || !values_take_array(&outcome, &ends))
		return 0;
	return truths_in(triggers, &call->method->locals, ends);
}

static bool is_truth_met(const struct triggers *triggers, uint32_t at, uint16_t truths)
{
	return !triggers->items[at].truth || truths >> at & 1;
}

/* What could not be measured is not met. */
static bool is_cpu_meant(const struct triggers *triggers, const struct trigger *trigger, struct values outcome)
{
	struct measures measures;

	if (!trigger->slow_cpu_ns)
		return true;
	measures = measures_take(&outcome, triggers->measured);
	return measures.flags & TRACE_CPU && measures.numbers[MEASURES_CPU] != EVENT_NOT_KNOWN &&
	       measures.numbers[MEASURES_CPU] >= trigger->slow_cpu_ns;
}

const struct trigger *triggers_call(const struct triggers *triggers, const struct fiber *fiber, const struct trigger_call *call,
                                    struct buffer *why)
{
	struct method *method = call->method;
	uint16_t ends = truths_at_end(triggers, call);

	for (uint32_t i = 0; i < triggers->count; i++) {
		const struct trigger *trigger = &triggers->items[i];

		if (call->duration_ns < trigger->slow_ns || trigger->raise.bytes ||
		    !is_truth_met(triggers, i, call->truths | ends))
			continue;
		if ((trigger->raised.bytes && !exception_is_meant(trigger->raised, call->ending, call->outcome)) ||
		    !is_method_meant(triggers, i, method) || !is_thread_meant(trigger, fiber) ||
		    !is_place_meant(triggers, i, fiber, method) || !is_cpu_meant(triggers, trigger, call->outcome))
			continue;
		buffer_add_slice(why, method->shown);
		if (trigger->raised.bytes) {
			buffer_add_text(why, " raised ");
			add_class(why, call->outcome);
		} else if (trigger->truth && !trigger->slow_ns && !trigger->slow_cpu_ns) {
			buffer_add_text(why, ends >> i & 1 ? " ended" : " was called");
		} else {
			buffer_add_format(why, " took %.6f s", (double)call->duration_ns / 1e9);
		}
		return met(trigger, why);
	}
	return NULL;
}

static bool is_about_lines(const struct trigger *trigger)
{
	if (trigger->method)
		return selector_line(trigger->method) != 0;
	return trigger->truth && !trigger->slow_ns && !trigger->slow_cpu_ns && !trigger->raised.bytes && !trigger->raise.bytes;
}

const struct trigger *triggers_line(const struct triggers *triggers, const struct fiber *fiber, struct method *line,
                                    struct values values, struct buffer *why)
{
	uint16_t truths = triggers_truths(triggers, line, values);

	for (uint32_t i = 0; i < triggers->count; i++) {
		const struct trigger *trigger = &triggers->items[i];

		if (!is_about_lines(trigger) || !is_method_meant(triggers, i, line) || !is_truth_met(triggers, i, truths) ||
		    !is_thread_meant(trigger, fiber) || !is_place_meant(triggers, i, fiber, line))
			continue;
		buffer_add_slice(why, line->shown);
		buffer_add_text(why, " was reached");
		return met(trigger, why);
	}
	return NULL;
}

const struct trigger *triggers_mark(const struct triggers *triggers, const struct fiber *fiber, const struct method *mark,
                                    struct values values, struct buffer *why)
{
	if (mark->mark_kind != MARK_RAISE)
		return NULL;
	for (uint32_t i = 0; i < triggers->count; i++) {
		const struct trigger *trigger = &triggers->items[i];

		if (!trigger->raise.bytes || !class_is_meant(trigger->raise, values_get(values, 0)) ||
		    !is_thread_meant(trigger, fiber) || !is_place_meant(triggers, i, fiber, NULL))
			continue;
		add_class(why, values);
		buffer_add_text(why, " was raised");
		return met(trigger, why);
	}
	return NULL;
}
