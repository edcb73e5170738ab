/*
 * What observing takes of the process, and what is done about it: methods that are called too often are only counted, and if that
 * is too much, too, let go; or the client is told of them. See observe/overhead.h for how it is measured. Context: job.
 */

#include "tracee/select/selection_parts.h"

#include "proto/clock.h"
#include "tracee/engine/engine_line.h"
#include "tracee/observe/decide.h"
#include "tracee/observe/overhead.h"
#include "tracee/observe/retry.h"
#include "tracee/session/session.h"
#include "tracee/vm/class_name.h"
#include "tracee/vm/exception_drop.h"

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

static uint32_t new_calls(const struct probe *probe)
{
	return probe->calls - probe->calls_before;
}

/* Whether its calls have values, a condition, or a key by which they are counted apart. */
static bool has_values(const struct probe *probe)
{
	return (probe->expressions || probe->condition || probe->ends || probe->key) && !probe->only_counted;
}

/* What the last look has found, of all sessions together. */
struct account {
	struct overhead_look look;
	uint64_t calls;
	uint64_t calls_with_values;
};

static void add_calls(struct account *account, const struct selection *selection)
{
	for (const struct probe *probe = selection->probes.first_made; probe; probe = probe->next_made) {
		account->calls += new_calls(probe);
		account->calls_with_values += has_values(probe) ? new_calls(probe) : 0;
	}
}

/* A probe's part of what observing takes, by its calls: what values take, only those have that have some. */
static double share_of(const struct account *account, const struct probe *probe)
{
	double share = 0;

	if (account->calls)
		share += (account->look.share - account->look.values) * new_calls(probe) / (double)account->calls;
	if (account->calls_with_values && has_values(probe))
		share += account->look.values * new_calls(probe) / (double)account->calls_with_values;
	return share;
}

static void forget_calls(const struct selection *selection)
{
	for (struct probe *probe = selection->probes.first_made; probe; probe = probe->next_made)
		probe->calls_before = probe->calls;
}

/* The one that takes most; NULL: none was called. */
static struct probe *dearest(const struct selection *selection, const struct account *account)
{
	struct probe *found = NULL;
	double most = 0;

	for (struct probe *probe = selection->probes.first_made; probe; probe = probe->next_made)
		/* Of one that was let go, a call may have been under way. */
		if (share_of(account, probe) > most && !probe->let_go) {
			most = share_of(account, probe);
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
	bool only_counts; /* from now on; else it is let go */
	double share;     /* of the process's CPU time, of this probe; where there is no limit, of all */
};

static VALUE tell(VALUE argument)
{
	const struct shedding *shedding = (const struct shedding *)argument;
	struct probe *probe = shedding->probe;
	unsigned limit = shedding->session->decider->conditions.max_overhead;
	double seconds = (double)(clock_now_ns() - counted_since_ns + 1) / 1e9;
	double rate = new_calls(probe) / seconds;
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
		             "%.*s is %s: called %.0f times a second, it took %.0f %% of the process's CPU time%s "
		             "(all together more than --max-overhead %u)",
		             (int)name.used, name.bytes,
		             shedding->only_counts ? "only counted from now on, and not shown" : "not traced any more", rate,
		             shedding->share * 100, probe->only_counted && !shedding->only_counts ? " just to be counted" : "",
		             limit);
	else
		session_note(shedding->session, NOTE_WARNING,
		             "tracing takes %.0f %% of the process's CPU time, most of it for %.*s (called %.0f times a second); "
		             "--max-overhead PERCENT limits that",
		             shedding->share * 100, (int)name.used, name.bytes, rate);
	return Qnil;
}

/*
 * Whether calls of the probe can be counted without following them: a retry would look like one more, and what is inside of them
 * may be asked for.
 */
static bool can_only_count(const struct session *session, struct probe *probe)
{
	int jump = 0;

	if (probe->only_counted || probe->waiting || session->manner == CALLS_COUNTED || probe->roles != 1u << ROLE_SHOWN)
		return false;
	if (!probe->line && retry_is_possible(probe, &jump))
		return false;
	if (jump)
		rb_jump_tag(jump);
	return true;
}

/* Its calls that are open are followed to their ends. */
static VALUE reduce(VALUE argument)
{
	struct shedding *shedding = (struct shedding *)argument;
	struct probe *probe = shedding->probe;

	shedding->only_counts = can_only_count(shedding->session, probe);
	tell(argument);
	probe->way = WAY_LONG;
	probe->only_counted |= shedding->only_counts;
	probe->let_go = !shedding->only_counts;
	probe->let_go_ns = probe->let_go ? clock_now_ns() : 0;
	if (shedding->only_counts)
		return Qnil;
	if (probe->line)
		engine_line_disarm(probe);
	else if (probe->engine && probe->engine->disarm)
		probe->engine->disarm(probe);
	else
		engine_hook_stop(shedding->session->hook);
	return Qnil;
}

static void protect(VALUE (*function)(VALUE), struct shedding *shedding)
{
	int failed = 0;

	rb_protect(function, (VALUE)shedding, &failed);
	if (failed)
		exception_drop(Qnil);
}

/*
 * What remains is within the limit, as far as the last moment tells. Values that nobody makes any more were under way when their
 * method was reduced: no method is to blame for them.
 */
static void shed(struct session *session, const struct account *account)
{
	struct selection *selection = session->selection;
	double limit = session->decider->conditions.max_overhead / 100.0;
	double share = account->look.share - (account->calls_with_values ? 0 : account->look.values);

	for (unsigned i = 0; i < SHED_MAX && share > limit && !selection->disabled; i++) {
		struct shedding shedding = {.session = session, .probe = dearest(selection, account)};

		if (!shedding.probe)
			return;
		shedding.share = share_of(account, shedding.probe);
		share -= shedding.share;
		protect(reduce, &shedding);
		shedding.probe->calls_before = shedding.probe->calls;
	}
}

static void look_at(struct session *session, const struct account *account)
{
	struct selection *selection = session->selection;
	unsigned limit = limit_of(session);
	struct shedding shedding = {.session = session, .share = account->look.share};

	if (limit == NEVER || account->look.share * 100 < limit)
		return;
	if (session->decider->conditions.max_overhead) {
		shed(session, account);
		return;
	}
	shedding.probe = dearest(selection, account);
	if (!shedding.probe)
		return;
	selection->overhead_told = true;
	protect(tell, &shedding);
}

void selection_overhead_look(void)
{
	struct account account = {.calls = 0};

	if (!overhead_take(&account.look))
		return;
	for (const struct session *session = session_first(); session; session = session->next)
		if (session->selection)
			add_calls(&account, session->selection);
	for (struct session *session = session_hold_next(NULL); session; session = session_hold_next(session))
		if (session->selection)
			look_at(session, &account);
	selection_overhead_begin();
}
