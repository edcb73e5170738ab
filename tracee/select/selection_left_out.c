/*
 * Methods that a trace leaves out: those that no engine can observe, and those that would cost the process too much. See
 * selection_parts.h. Context: job, GVL held.
 */

#include "tracee/select/selection_parts.h"

#include "tracee/select/hook_consent.h"
#include "tracee/select/selector.h"
#include "tracee/session/debug.h"
#include "tracee/session/session.h"

#include <ruby/st.h>

#include <string.h>

#define KNOWN_MAX 100000u  /* methods that are not counted twice; of more, none is counted */
#define NAMED_MAX 3u       /* methods that a line names */
#define LATE_NAMED_MAX 20u /* methods that are defined later and have a line each */

static const struct {
	const char *line, *lines; /* of one, and of several; the names follow */
	const char *remedy;
	const char *of_one;
} words[LEFT_OUT_REASONS] = {
	[LEFT_OUT_WHOLE] = {"method left out: to trace them would leave the process slower",
                            "methods left out: to trace them would leave the process slower", "",
                            "that would leave the process slower"},
	[LEFT_OUT_HOOK] = {"method left out that only engine hook can observe (--no-hook)",
                           "methods left out that only engine hook can observe (--no-hook)", "",
                           "only engine hook can observe it (--no-hook)"},
	[LEFT_OUT_ATTRIBUTE] =
		{"attribute left out", "attributes left out",
                 "; name them or give --attributes to trace them, which makes every call of a C method slower meanwhile",
                 "it is an attribute that no selector names exactly; --attributes traces those"},
	[LEFT_OUT_LIGHT_HOOK] = {"method left out that only engine hook can observe",
                                 "methods left out that only engine hook can observe",
                                 "; name them to trace them, which makes every call of a C method slower meanwhile",
                                 "only engine hook can observe it, and no selector names it exactly"},
	[LEFT_OUT_IMPOSSIBLE] = {"method cannot be traced", "methods cannot be traced", "; -v says why",
                                 "no engine can observe it"},
};

/* Also where only the light hook can observe it. */
static bool is_asked_for(const struct selection *selection, uint32_t selector, const struct match *match)
{
	const struct trace_options *options = &selection->session->options;

	return options->engine != ENGINE_AUTO || options->flags & TRACE_ATTRIBUTES ||
	       selector_is_exactly(&selection->selectors[selector], match->name);
}

bool left_out_as_attribute(const struct selection *selection, uint32_t selector, const struct match *match)
{
	return engine_hook_is_attribute(match->method) && !is_asked_for(selection, selector, match);
}

enum left_out_reason left_out_reason(const struct selection *selection, uint32_t selector, const struct engine *engine,
                                     const struct match *match)
{
	uint32_t flags = selection->session->options.flags;

	if (!engine)
		return LEFT_OUT_IMPOSSIBLE;
	if (engine->id != ENGINE_HOOK)
		return LEFT_OUT_NOT;
	if (flags & TRACE_NO_HOOK)
		return LEFT_OUT_HOOK;
	if (left_out_as_attribute(selection, selector, match))
		return LEFT_OUT_ATTRIBUTE;
	if (!hook_consent_given(engine, match, flags))
		return LEFT_OUT_WHOLE;
	if (is_asked_for(selection, selector, match) || engine_hook_stays(match->method, match->owner, match->name))
		return LEFT_OUT_NOT;
	return LEFT_OUT_LIGHT_HOOK;
}

/* Whether it was left out before: a method is found again whenever its class is looked at. */
static bool is_known(struct selection *selection, enum left_out_reason why, const char *description)
{
	st_data_t key = st_hash(description, strlen(description), why);

	if (!selection->left_out_known)
		selection->left_out_known = st_init_numtable();
	if (st_lookup(selection->left_out_known, key, NULL) || selection->left_out_known->num_entries >= KNOWN_MAX)
		return true;
	st_insert(selection->left_out_known, key, 1);
	return false;
}

void left_out_add(struct selection *selection, enum left_out_reason why, const char *description, bool late,
                  const struct text *reason)
{
	struct left_out *left_out = &selection->left_out[why];
	struct text names = {.bytes = left_out->names, .size = sizeof(left_out->names), .used = left_out->names_size};

	/* Of those that no selector names the trace says once how many there are; the others were asked for. */
	bool told = late && (why == LEFT_OUT_WHOLE || why == LEFT_OUT_HOOK) && left_out->late_count < LATE_NAMED_MAX;

	if (is_known(selection, why, description))
		return;
	debug(selection->session, DEBUG_ENGINE, "%s: left out: %s", description, words[why].of_one);
	if (left_out->count++ < NAMED_MAX)
		text_printf(&names, "%s%s", left_out->count > 1 ? ", " : "", description);
	left_out->names_size = names.used;
	session_note(selection->session, told ? NOTE_WARNING : NOTE_INFO, "%s%s left out: %s%s%.*s", description,
	             late ? " defined now," : "", words[why].of_one, reason->used ? "; " : "", (int)reason->used, reason->bytes);
	if (told && ++left_out->late_count == LATE_NAMED_MAX)
		session_note(selection->session, NOTE_WARNING,
		             "further methods that are left out like these are named with -v only");
}

/* "7,706" */
static const char *grouped(uint32_t number, char text[16])
{
	if (number >= 1000000)
		snprintf(text, 16, "%u,%03u,%03u", number / 1000000, number / 1000 % 1000, number % 1000);
	else if (number >= 1000)
		snprintf(text, 16, "%u,%03u", number / 1000, number % 1000);
	else
		snprintf(text, 16, "%u", number);
	return text;
}

void left_out_report(const struct selection *selection)
{
	for (size_t why = 0; why < LEFT_OUT_REASONS; why++) {
		const struct left_out *left_out = &selection->left_out[why];
		char more[64] = "", digits[16];

		if (left_out->count == 0)
			continue;
		if (left_out->count > NAMED_MAX)
			snprintf(more, sizeof(more), " and %s more (-v names them)",
			         grouped(left_out->count - NAMED_MAX, digits));
		session_note(selection->session, NOTE_WARNING, "%s %s: %.*s%s%s", grouped(left_out->count, digits),
		             left_out->count == 1 ? words[why].line : words[why].lines, (int)left_out->names_size,
		             left_out->names, more, words[why].remedy);
	}
}

void hook_price_report(struct selection *selection)
{
	const struct hook_price *price = &selection->price;
	char digits[16];
	bool one = price->count == 1;

	if (!price->count || selection->hook_announced)
		return;
	selection->hook_announced = 1;
	session_note(selection->session, NOTE_WARNING,
	             "%s %s%s (%s%s)%s slow%s every C call in the process by about 60 ns until this trace ends%s",
	             grouped(price->count, digits), price->others ? "method" : "attribute method", one ? "" : "s", price->first,
	             one ? "" : ", ...", price->others ? " that only engine hook can observe" : "", one ? "s" : "",
	             selection->session->options.engine == ENGINE_HOOK ? ""
	             : one                                             ? "; --no-hook leaves it out"
	                                                               : "; --no-hook leaves them out");
}

void hook_price_add(struct selection *selection, const char *description, bool attribute, bool late)
{
	struct hook_price *price = &selection->price;

	if (price->count++ == 0)
		snprintf(price->first, sizeof(price->first), "%s", description);
	price->others = price->others || !attribute;
	if (late)
		hook_price_report(selection);
}
