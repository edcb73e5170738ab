/*
 * Asking before engine hook is used. See consent.h. Context: job.
 *
 * What stays of it: a global hook for CALL, RETURN, C_CALL and C_RETURN makes the VM write the trace_ variant of instructions into every instruction
 * sequence (rb_iseq_trace_set_all() in iseq.c), and marks the events in ruby_vm_event_enabled_global_flags, which is only ever added to, so that what is
 * compiled later is born so (vm_trace.c and iseq.c of 2.7, 3.1, 3.3, 3.4, 4.0 and 4.1-dev). Removing the hook writes nothing back, and YJIT compiles no
 * trace_ instruction.
 */

#include "consent.h"

#include "compat.h"
#include "naming.h"
#include "selector.h"
#include "turn.h"

#include <errno.h>

#define NAMED_MAX 3 /* methods that are named to the user */

/* Those that only the hook can observe. */
struct needing {
	enum engine_id wanted;
	struct text names;  /* of the first */
	struct text reason; /* of the first one */
	uint32_t count;
	struct turn *turn;
};

static void look(const struct match *match, void *argument)
{
	struct needing *needing = argument;
	char reason_bytes[256];
	struct text reason = {.bytes = reason_bytes, .size = sizeof(reason_bytes)};
	const struct engine *engine = engine_choose(needing->wanted, match, &reason);

	turn_pass(needing->turn);
	if (!engine || consent_given(engine, match, 0) || ++needing->count > NAMED_MAX)
		return;
	if (needing->count == 1)
		text_append(&needing->reason, reason.bytes, reason.used);
	else
		text_append_cstr(&needing->names, ", ");
	naming_method(&needing->names, match->owner, match->name);
}

static int refuse(struct error *err, const char *who, int size, const struct needing *needing)
{
	char more[64] = "", reason[300] = "";

	if (needing && needing->count > NAMED_MAX)
		snprintf(more, sizeof(more), " and %u more", needing->count - NAMED_MAX);
	if (needing && needing->reason.used > 0)
		snprintf(reason, sizeof(reason), " (%s%.*s)", needing->count > 1 ? "the first: " : "", (int)needing->reason.used,
		         needing->reason.bytes);
	return error_set(
		err, -EACCES,
		"%.*s%s%s needs engine hook, which makes the whole process 3 to 7 times slower while it is traced and leaves it "
		"up to %s times slower until it restarts",
		size, who, more, reason, compat_compiler() == COMPAT_COMPILER_NONE ? "3" : "15");
}

int consent_check(const struct command *command, struct turn *turn, struct error *err)
{
	char names_bytes[600], reason_bytes[256];
	struct needing needing = {.wanted = command->options.engine,
	                          .turn = turn,
	                          .names = {.bytes = names_bytes, .size = sizeof(names_bytes)},
	                          .reason = {.bytes = reason_bytes, .size = sizeof(reason_bytes)}};

	if (command->options.flags & (TRACE_HOOK | TRACE_WITHOUT_HOOK))
		return 0;
	if (command->options.flags & TRACE_FIREHOSE)
		return refuse(err, "--firehose", sizeof("--firehose") - 1, NULL);
	if (command->options.engine != ENGINE_AUTO && command->options.engine != ENGINE_HOOK)
		return 0;
	for (uint32_t i = 0; i < command->selector_count; i++)
		selector_each_match(&command->selectors[i], look, &needing);
	return needing.count ? refuse(err, names_bytes, (int)needing.names.used, &needing) : 0;
}

bool consent_given(const struct engine *engine, const struct match *match, uint32_t flags)
{
	return engine->id != ENGINE_HOOK || flags & TRACE_HOOK || !engine_hook_stays(match->method, match->owner, match->name);
}
