/* Self-tests for people and for programs. See selftest_report.h. */

#include "tracer/commands/selftest_report.h"

#include "tracer/base/json.h"
#include "tracer/base/value.h"

#include <string.h>

#define NAME_WIDTH 20

enum state {
	STATE_OK,
	STATE_FAILED,
	STATE_NOT_APPLICABLE,
	STATE_NOT_TRIED,
	STATES,
};

static const struct {
	const char *name;
	const char *word;    /* in a line, all of one width */
	const char *counted; /* in the sum */
} states[STATES] = {
	[STATE_OK] = {"ok", "ok       ", "ok"},
	[STATE_FAILED] = {"failed", "FAILED   ", "failed"},
	[STATE_NOT_APPLICABLE] = {"not_applicable", "n/a      ", "not applicable"},
	[STATE_NOT_TRIED] = {"not_tried", "not tried", "not tried"},
};

/* A state that is none counts as a failure: nobody has said that the fact holds. */
static enum state state_of(const msgpack_object *fact)
{
	struct slice name = value_text(value_get(fact, "state"));

	for (enum state state = 0; state < STATES; state++)
		if (name.size == strlen(states[state].name) && memcmp(name.bytes, states[state].name, name.size) == 0)
			return state;
	return STATE_FAILED;
}

static const msgpack_object *facts_of(const msgpack_object *answer)
{
	return value_get(answer, "facts");
}

static void count(const msgpack_object *answer, uint32_t counts[STATES])
{
	const msgpack_object *facts = facts_of(answer);

	for (uint32_t i = 0; i < value_count(facts); i++)
		counts[state_of(value_at(facts, i))]++;
}

struct selftest_counts selftest_count(const msgpack_object *answer)
{
	uint32_t counts[STATES] = {0};

	count(answer, counts);
	return (struct selftest_counts){.facts = value_count(facts_of(answer)),
	                                .ok = counts[STATE_OK],
	                                .failed = counts[STATE_FAILED],
	                                .not_applicable = counts[STATE_NOT_APPLICABLE],
	                                .not_tried = counts[STATE_NOT_TRIED]};
}

static void add(struct buffer *buffer, struct slice text)
{
	buffer_add_printable(buffer, text.bytes, text.size);
}

static void add_fact(struct buffer *buffer, const msgpack_object *fact, bool verbose)
{
	enum state state = state_of(fact);
	struct slice name = value_text(value_get(fact, "name"));
	struct slice reason = value_text(value_get(fact, "reason"));

	buffer_add_text(buffer, states[state].word);
	buffer_add_text(buffer, "  ");
	add(buffer, name);
	buffer_add_spaces(buffer, name.size < NAME_WIDTH ? NAME_WIDTH - name.size : 1);
	add(buffer, value_text(value_get(fact, "what")));
	if (reason.size) {
		buffer_add_text(buffer, ": ");
		add(buffer, reason);
	}
	if (state == STATE_FAILED || state == STATE_NOT_TRIED) {
		buffer_add_text(buffer, state == STATE_FAILED ? "; so " : "; without it ");
		add(buffer, value_text(value_get(fact, "without")));
	}
	if (verbose) {
		buffer_add_text(buffer, " (seen on ");
		add(buffer, value_text(value_get(fact, "seen")));
		buffer_add_char(buffer, ')');
	}
	buffer_add_char(buffer, '\n');
}

void selftest_report_text(struct buffer *buffer, int pid, const msgpack_object *answer, bool verbose)
{
	const msgpack_object *facts = facts_of(answer);
	struct slice ruby = value_text(value_get(answer, "ruby"));
	uint32_t counts[STATES] = {0};
	const char *between = "";

	buffer_add_format(buffer, "process %d", pid);
	if (ruby.size) {
		buffer_add_text(buffer, ", ruby ");
		add(buffer, ruby);
	}
	buffer_add_char(buffer, '\n');
	for (uint32_t i = 0; i < value_count(facts); i++)
		add_fact(buffer, value_at(facts, i), verbose);
	count(answer, counts);
	for (enum state state = 0; state < STATES; state++) {
		if (counts[state] == 0 && state != STATE_OK && state != STATE_FAILED)
			continue;
		buffer_add_format(buffer, "%s%u %s", between, counts[state], states[state].counted);
		between = ", ";
	}
	buffer_add_char(buffer, '\n');
}

void selftest_report_json(struct buffer *buffer, int pid, const msgpack_object *answer)
{
	uint32_t counts[STATES] = {0};

	count(answer, counts);
	json_open_object(buffer);
	json_member_string(buffer, "type", "selftest");
	json_member_int(buffer, "pid", pid);
	json_member_text(buffer, "ruby", value_text(value_get(answer, "ruby")));
	for (enum state state = 0; state < STATES; state++)
		json_member_uint(buffer, states[state].name, counts[state]);
	value_add_json(json_key(buffer, "facts"), facts_of(answer));
	json_close_line(buffer);
}

void selftest_report_failures(struct buffer *buffer, const msgpack_object *answer)
{
	const msgpack_object *facts = facts_of(answer);
	const char *between = "";

	for (uint32_t i = 0; i < value_count(facts); i++) {
		if (state_of(value_at(facts, i)) != STATE_FAILED)
			continue;
		buffer_add_text(buffer, between);
		add(buffer, value_text(value_get(value_at(facts, i), "name")));
		between = ", ";
	}
}
