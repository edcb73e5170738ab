/* The self-test request: every fact of vm_assumptions.h, tried. Context: job. */

#include "tracee/session/debug.h"
#include "tracee/session/request.h"

#include "tracee/base/msgpack_builder.h"
#include "tracee/engine/arming.h"
#include "tracee/engine/engine.h"
#include "tracee/select/selection.h"
#include "tracee/selftest/vm_assumptions.h"
#include "tracee/vm/event_flags.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/layout.h"

#include <errno.h>
#include <ruby/version.h>

#define REASON_MAX 512

static VALUE add_facts(VALUE argument)
{
	struct msgpack_builder *answer = (struct msgpack_builder *)argument;

	for (size_t i = 0; i < assumptions_count; i++) {
		char bytes[REASON_MAX];
		struct text reason = {.bytes = bytes, .size = sizeof(bytes)};
		enum assumption_state state = assumption_try(&facts[i], &reason);

		builder_map(answer, NULL);
		builder_cstr(answer, "name", facts[i].name);
		builder_cstr(answer, "what", facts[i].what);
		builder_cstr(answer, "state", assumption_state_name(state));
		if (reason.used)
			builder_text(answer, "reason", bytes, reason.used);
		builder_cstr(answer, "without", facts[i].without);
		builder_cstr(answer, "seen", facts[i].seen);
		builder_end(answer);
	}
	/* Trials have had TracePoints of methods. */
	event_flags_restore_global();
	return Qnil;
}

/* Where the VM keeps what was tried. */
static void debug_layout(struct session *session)
{
	for (enum layout_row row = 0; row < LAYOUT_ROWS; row++) {
		char bytes[REASON_MAX];
		struct text line = {.bytes = bytes, .size = sizeof(bytes)};

		layout_describe(row, &line);
		debug(session, DEBUG_REQUEST, "layout: %.*s", (int)line.used, bytes);
	}
}

static void selftest_begin(struct request *request, const struct command *command)
{
	struct msgpack_builder answer;
	int failed = 0;

	(void)command;
	builder_init(&answer);
	builder_map(&answer, NULL);
	builder_cstr(&answer, "ruby", ruby_version);
	builder_array(&answer, "facts");
	arming_protect(add_facts, (VALUE)&answer, &failed);
	if (failed) {
		builder_free(&answer);
		exception_drop(Qnil);
		request_finish(request, EIO, "the self-test was interrupted");
		return;
	}
	debug_layout(request->session);
	builder_end(&answer);
	builder_end(&answer);
	failed = !request_answer(request, &answer);
	builder_free(&answer);
	request_finish(request, failed ? ENOMEM : 0, "%s", failed ? "no memory for the answer" : "");
}

const struct request_kind request_selftest = {.name = "self-test", .begin = selftest_begin};
