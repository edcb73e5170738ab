/*
 * Asking before engine hook is used. See hook_consent.h. Context: job.
 *
 * What stays of it: a global hook for CALL, RETURN, C_CALL and C_RETURN makes the VM write the trace_ variant of instructions
 * into every instruction sequence (rb_iseq_trace_set_all() in iseq.c), and marks the events in
 * ruby_vm_event_enabled_global_flags, which is only ever added to, so that what is compiled later is born so (vm_trace.c and
 * iseq.c of 2.7, 3.1, 3.3, 3.4, 4.0 and 4.1-dev). Removing the hook writes nothing back, and YJIT compiles no trace_ instruction.
 */

#include "tracee/select/hook_consent.h"

#include "tracee/vm/class_name.h"
#include "tracee/vm/compat.h"

#include <errno.h>

#define NAMED_MAX 3 /* methods that are named to the user */

bool hook_question_begin(struct hook_question *question, const struct trace_options *options)
{
	*question = (struct hook_question){.wanted = options->engine};
	question->names = (struct text){.bytes = question->names_bytes, .size = sizeof(question->names_bytes)};
	question->reason = (struct text){.bytes = question->reason_bytes, .size = sizeof(question->reason_bytes)};
	return !(options->flags & (TRACE_HOOK | TRACE_WITHOUT_HOOK | TRACE_FIREHOSE)) &&
	       (options->engine == ENGINE_AUTO || options->engine == ENGINE_HOOK);
}

void hook_question_look(struct hook_question *question, const struct match *match)
{
	char reason_bytes[256];
	struct text reason = {.bytes = reason_bytes, .size = sizeof(reason_bytes)};
	const struct engine *engine = engine_choose(question->wanted, match, &reason);

	if (!engine || hook_consent_given(engine, match, 0) || ++question->count > NAMED_MAX)
		return;
	if (question->count == 1)
		text_append(&question->reason, reason.bytes, reason.used);
	else
		text_append_cstr(&question->names, ", ");
	class_name_add_method(&question->names, match->owner, match->name);
}

static int refuse(struct error *err, const char *who, int size, const struct hook_question *question)
{
	char more[64] = "", reason[300] = "";
	bool compiled = compat_compiler() != COMPAT_COMPILER_NONE;

	if (question && question->count > NAMED_MAX)
		snprintf(more, sizeof(more), " and %u more", question->count - NAMED_MAX);
	if (question && question->reason.used > 0)
		snprintf(reason, sizeof(reason), " (%s%.*s)", question->count > 1 ? "the first: " : "",
		         (int)question->reason.used, question->reason.bytes);
	return error_set(err, -EACCES,
	                 "%.*s%s%s needs engine hook, which makes every call in the process several times slower while it is "
	                 "traced (tight loops "
	                 "up to %s times), and leaves it up to %s times slower until it restarts",
	                 size, who, more, reason, compiled ? "200" : "25", compiled ? "40" : "5");
}

int hook_question_end(const struct hook_question *question, struct error *err)
{
	return question->count ? refuse(err, question->names.bytes, (int)question->names.used, question) : 0;
}

int hook_question_firehose(const struct trace_options *options, struct error *err)
{
	bool decided = options->flags & (TRACE_HOOK | TRACE_WITHOUT_HOOK);

	return options->flags & TRACE_FIREHOSE && !decided ? refuse(err, "--firehose", sizeof("--firehose") - 1, NULL) : 0;
}

bool hook_consent_given(const struct engine *engine, const struct match *match, uint32_t flags)
{
	return engine->id != ENGINE_HOOK || flags & TRACE_HOOK || !engine_hook_stays(match->method, match->owner, match->name);
}
