/* What a flight recorder waits for. See trigger.h. triggers_call() is done for each call: keep it lean. */

#include "tracer/recording/trigger.h"

#include "tracer/recording/meant.h"

/* Found once: a byte for each trigger, whether the method is one of its. */
static bool is_method_meant(const struct triggers *triggers, uint32_t at, struct method *method)
{
	if (!triggers->items[at].method)
		return true;
	if (!method->prepared.size)
		for (uint32_t i = 0; i < triggers->count; i++)
			buffer_add_char(&method->prepared,
			                triggers->items[i].method && method_is_meant(triggers->items[i].method, method));
	return method->prepared.bytes[at];
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

const struct trigger *triggers_call(const struct triggers *triggers, const struct fiber *fiber, struct method *method,
                                    enum ending ending, struct values outcome, uint64_t duration_ns, struct buffer *why)
{
	for (uint32_t i = 0; i < triggers->count; i++) {
		const struct trigger *trigger = &triggers->items[i];

		if (duration_ns < trigger->slow_ns || trigger->raise.bytes)
			continue;
		if ((trigger->raised.bytes && !exception_is_meant(trigger->raised, ending, outcome)) ||
		    !is_method_meant(triggers, i, method) || !is_thread_meant(trigger, fiber))
			continue;
		buffer_add_slice(why, method->shown);
		if (trigger->raised.bytes) {
			buffer_add_text(why, " raised ");
			add_class(why, outcome);
		} else {
			buffer_add_format(why, " took %.6f s", (double)duration_ns / 1e9);
		}
		return met(trigger, why);
	}
	return NULL;
}

const struct trigger *triggers_line(const struct triggers *triggers, const struct fiber *fiber, struct method *line,
                                    struct buffer *why)
{
	for (uint32_t i = 0; i < triggers->count; i++) {
		const struct trigger *trigger = &triggers->items[i];

		if (!trigger->method || !selector_line(trigger->method) || !is_method_meant(triggers, i, line) ||
		    !is_thread_meant(trigger, fiber))
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
		    !is_thread_meant(trigger, fiber))
			continue;
		add_class(why, values);
		buffer_add_text(why, " was raised");
		return met(trigger, why);
	}
	return NULL;
}
