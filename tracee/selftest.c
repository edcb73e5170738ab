/* The self-test request: every fact of facts.h, tried. Context: job. */

#include "request.h"

#include "answer.h"
#include "engine.h"
#include "facts.h"
#include "selection.h"

#include <errno.h>
#include <ruby/version.h>

#define REASON_MAX 512

static VALUE add_facts(VALUE argument)
{
	struct answer *answer = (struct answer *)argument;

	for (size_t i = 0; i < facts_count; i++) {
		char bytes[REASON_MAX];
		struct text reason = {.bytes = bytes, .size = sizeof(bytes)};
		enum fact_state state = fact_try(&facts[i], &reason);

		answer_map(answer, NULL);
		answer_cstr(answer, "name", facts[i].name);
		answer_cstr(answer, "what", facts[i].what);
		answer_cstr(answer, "state", fact_state_name(state));
		if (reason.used)
			answer_text(answer, "reason", bytes, reason.used);
		answer_cstr(answer, "without", facts[i].without);
		answer_cstr(answer, "seen", facts[i].seen);
		answer_end(answer);
	}
	/* Trials have had TracePoints of methods. */
	engine_hook_restore_global_events();
	return Qnil;
}

static void begin(struct request *request, const struct command *command)
{
	struct answer answer;
	int failed = 0;

	(void)command;
	answer_init(&answer);
	answer_map(&answer, NULL);
	answer_cstr(&answer, "ruby", ruby_version);
	answer_array(&answer, "facts");
	selection_protect_arming(add_facts, (VALUE)&answer, &failed);
	if (failed) {
		answer_free(&answer);
		rb_set_errinfo(Qnil);
		request_finish(request, EIO, "the self-test was interrupted");
		return;
	}
	answer_end(&answer);
	answer_end(&answer);
	failed = !request_answer(request, &answer);
	answer_free(&answer);
	request_finish(request, failed ? ENOMEM : 0, "%s", failed ? "no memory for the answer" : "");
}

const struct request_kind request_selftest = {.name = "self-test", .begin = begin};
