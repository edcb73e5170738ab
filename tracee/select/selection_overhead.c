/*
 * What observing takes of the process, and what is done about it: methods that are called too often are let go, or the client is
 * told of them. See observe/overhead.h for how it is measured. Context: job.
 */

#include "tracee/select/selection_parts.h"

#include "proto/clock.h"
#include "tracee/engine/engine_line.h"
#include "tracee/observe/decide.h"
#include "tracee/observe/overhead.h"
#include "tracee/session/session.h"
#include "tracee/vm/class_name.h"

#define TOLD_PERCENT 50u /* of which a client is told that has no limit */
#define NEVER 101u
#define SHED_MAX 32u /* methods in one look */

static uint64_t counted_since_ns; /* calls, of all selections */

static unsigned limit_of(const struct session *session)
{
	const struct selection *selection = session->selection;

	if (!selection || selection->disabled || !session->decider)
		return NEVER;
	if (session->decider->conditions.max_overhead)
		return session->decider->conditions.max_overhead;
	return selection->overhead_told ? NEVER : TOLD_PERCENT;
}

/* Calls since the last look: of all sessions, as the share is. */
static uint64_t count_calls(const struct selection *selection)
{
	uint64_t calls = 0;

	for (const struct probe *probe = selection->probes.first_made; probe; probe = probe->next_made)
		calls += probe->calls - probe->calls_before;
	return calls;
}

static void forget_calls(const struct selection *selection)
{
	for (struct probe *probe = selection->probes.first_made; probe; probe = probe->next_made)
		probe->calls_before = probe->calls;
}

/* The one that was called most often since the last look; NULL: none was. */
static struct probe *busiest(const struct selection *selection)
{
	struct probe *found = NULL;
	uint32_t most = 0;

	for (struct probe *probe = selection->probes.first_made; probe; probe = probe->next_made)
		/* Of a line that was let go, an event may have been under way. */
		if (probe->calls - probe->calls_before > most && (!probe->line || probe->armed)) {
			most = probe->calls - probe->calls_before;
			found = probe;
		}
	return found;
}

void selection_overhead_begin(void)
{
	unsigned minimum = NEVER;

	for (const struct session *session = session_first(); session; session = session->next) {
		unsigned limit = limit_of(session);

		minimum = limit < minimum ? limit : minimum;
		if (session->selection)
			forget_calls(session->selection);
	}
	counted_since_ns = clock_now_ns();
	overhead_watch(minimum);
}

struct shedding {
	struct session *session;
	struct probe *probe;
	double share; /* of the process's CPU time, of this probe; where there is no limit, of all */
};

static VALUE tell(VALUE argument)
{
	const struct shedding *shedding = (const struct shedding *)argument;
	struct probe *probe = shedding->probe;
	unsigned limit = shedding->session->decider->conditions.max_overhead;
	double seconds = (double)(clock_now_ns() - counted_since_ns + 1) / 1e9;
	double rate = (probe->calls - probe->calls_before) / seconds;
	char bytes[512], written[512];
	struct text name = {.bytes = bytes, .size = sizeof(bytes)};

	if (probe->line) {
		selector_write(&shedding->session->selection->selectors[probe->selector], written, sizeof(written));
		text_append_cstr(&name, written);
	} else {
		class_name_add_method(&name, probe->owner, probe->callee);
	}
	if (limit)
		session_note(shedding->session, NOTE_WARNING,
		             "%.*s is not traced any more: called %.0f times a second, it took %.0f %% of the process's CPU "
		             "time (--max-overhead %u)",
		             (int)name.used, name.bytes, rate, shedding->share * 100, limit);
	else
		session_note(shedding->session, NOTE_WARNING,
		             "tracing takes %.0f %% of the process's CPU time, most of it for %.*s (called %.0f times a second); "
		             "--max-overhead PERCENT limits that",
		             shedding->share * 100, (int)name.used, name.bytes, rate);
	return Qnil;
}

static VALUE let_go(VALUE argument)
{
	const struct shedding *shedding = (const struct shedding *)argument;
	struct probe *probe = shedding->probe;

	tell(argument);
	if (probe->line)
		engine_line_disarm(probe);
	else if (probe->engine && probe->engine->disarm)
		probe->engine->disarm(probe);
	else
		engine_hook_stop(shedding->session->hook);
	return Qnil;
}

static void protect(VALUE (*function)(VALUE), const struct shedding *shedding)
{
	int failed = 0;

	rb_protect(function, (VALUE)shedding, &failed);
	if (failed)
		rb_set_errinfo(Qnil);
}

/* What remains is within the limit, as far as the last moment tells. */
static void shed(struct session *session, const struct overhead_look *look, uint64_t all_calls)
{
	struct selection *selection = session->selection;
	double limit = session->decider->conditions.max_overhead / 100.0, share = look->share;

	for (unsigned i = 0; i < SHED_MAX && share > limit && !selection->disabled; i++) {
		struct shedding shedding = {.session = session, .probe = busiest(selection)};

		if (!shedding.probe)
			return;
		shedding.share =
			look->share * (shedding.probe->calls - shedding.probe->calls_before) / (all_calls ? all_calls : 1);
		share -= shedding.share;
		protect(let_go, &shedding);
		shedding.probe->calls_before = shedding.probe->calls;
	}
}

static void look_at(struct session *session, const struct overhead_look *look, uint64_t all_calls)
{
	struct selection *selection = session->selection;
	unsigned limit = limit_of(session);
	struct shedding shedding = {.session = session, .share = look->share};

	if (limit == NEVER || look->share * 100 < limit)
		return;
	if (session->decider->conditions.max_overhead) {
		shed(session, look, all_calls);
		return;
	}
	shedding.probe = busiest(selection);
	if (!shedding.probe)
		return;
	selection->overhead_told = true;
	protect(tell, &shedding);
}

void selection_overhead_look(void)
{
	struct overhead_look look;
	uint64_t all_calls = 0;

	if (!overhead_take(&look))
		return;
	for (const struct session *session = session_first(); session; session = session->next)
		all_calls += session->selection ? count_calls(session->selection) : 0;
	for (struct session *session = session_hold_next(NULL); session; session = session_hold_next(session))
		if (session->selection)
			look_at(session, &look, all_calls);
	selection_overhead_begin();
}
