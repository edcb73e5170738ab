#ifndef RBPROBE_HOOK_CONSENT_H
#define RBPROBE_HOOK_CONSENT_H

#include "proto/command.h"
#include "proto/error.h"
#include "tracee/base/text.h"
#include "tracee/engine/engine.h"
#include "tracee/engine/match.h"

#include <stdbool.h>

/*
 * What the user must have agreed to: where engine hook has to be the whole one, the process stays slower. Job context, GVL
 * held.
 */

/* The methods of a trace command that only engine hook can observe. */
struct hook_question {
	enum engine_id wanted;
	struct text names;  /* of the first */
	struct text reason; /* of the first one */
	uint32_t count;
	char names_bytes[600], reason_bytes[256];
};

/* Whether there is anything to ask: it depends on the methods, and nobody has decided yet. */
bool hook_question_begin(struct hook_question *question, const struct trace_options *options);
/* Raises, so that callers are under rb_protect. */
void hook_question_look(struct hook_question *question, const struct match *match);
/* 0, or -EACCES and err, which names the methods. */
int hook_question_end(const struct hook_question *question, struct error *err);
/* The same for --firehose, which takes engine hook whatever the methods are. */
int hook_question_firehose(const struct trace_options *options, struct error *err);

/* Whether the engine that was chosen for a method may be used with these flags of a trace command. May raise. */
bool hook_consent_given(const struct engine *engine, const struct match *match, uint32_t flags);

#endif
