/*
 * What a command asks for: arming what its selectors name, and listing it. See selection.h. Context: job, GVL held, under
 * rb_protect where Ruby is asked.
 */

#include "tracee/select/selection_parts.h"

#include "proto/clock.h"
#include "tracee/observe/decide.h"
#include "tracee/observe/expression.h"
#include "tracee/observe/measure.h"
#include "tracee/observe/overdue.h"
#include "tracee/observe/overhead.h"
#include "tracee/observe/tally.h"
#include "tracee/select/compiler_watch.h"
#include "tracee/select/hook_consent.h"
#include "tracee/select/module_changes.h"
#include "tracee/session/debug.h"
#include "tracee/session/session.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/gvl_slice.h"
#include "tracee/vm/refinements.h"

#include <errno.h>

/* CPU time that a command may take. With a compiler the process is slow meanwhile, too. */
#define WORK_MAX_MS 5000u
#define WORK_COMPILED_MAX_MS 2000u

struct asked {
	struct session *session;
	const struct command *command;
	struct selection *selection;
	uint64_t count;
	struct error *err;
	int status;
	struct gvl_slice slice;
};

/* Everything that the selectors match, and whether it may be armed. */
static VALUE look_for_all(VALUE argument)
{
	struct asked *asked = (struct asked *)argument;
	struct selection *selection = asked->selection;

	if (compat_compiler() != COMPAT_COMPILER_NONE)
		asked->slice.limit_ns = WORK_COMPILED_MAX_MS * NS_PER_MS;
	overhead_calibrate();
	if (asked->command->options.conditions.expression.size)
		expression_condition_check(asked->command->options.conditions.expression);
	selection->looking = true;
	lines_begin(selection);
	for (uint32_t i = 0; i < selection->selector_count; i++) {
		struct arming arming = {.selection = selection, .selector = i, .slice = &asked->slice};

		if (!selector_line(&selection->selectors[i]))
			selector_each_match(&selection->selectors[i], selection_arm_match, &arming);
	}
	asked->status = lines_look(selection, asked->err);
	if (asked->status == 0)
		asked->status = matches_ask_consent(&selection->matches, &asked->command->options, &asked->slice, asked->err);
	return Qnil;
}

static VALUE arm_all(VALUE argument)
{
	struct asked *asked = (struct asked *)argument;
	struct selection *selection = asked->selection;

	selection->looking = false;
	asked->count = matches_arm(selection, &asked->slice) + lines_arm(selection);
	for (uint32_t i = 0; i < selection->selector_count; i++) {
		const struct selector_result *result = &selection->results[i];
		char text[512];

		selector_write(&selection->selectors[i], text, sizeof(text));
		debug(selection->session, DEBUG_SELECT, "selector %u, %s: methods armed: %u", i, text, result->armed);
		if (!result->found && !selector_line(&selection->selectors[i]))
			session_note(selection->session, NOTE_WARNING,
			             "%s matches no method yet; it will be traced when one is defined%s", text,
			             selector_may_be_class(&selection->selectors[i]) ? SELECTOR_CLASS_HINT : "");
	}
	matches_free(&selection->matches);
	left_out_report(selection);
	if (asked->command->options.flags & TRACE_FIREHOSE) {
		selection_announce_hook(selection, true);
		engine_hook_start(&selection->hook, true);
	}
	selection_resolve(selection);
	selection_look_later(selection);
	return Qnil;
}

/* What was raised, or that the work was given up. */
static int error_of_work(struct asked *asked, const char *work)
{
	uint32_t armed = asked->selection && !asked->selection->looking ? asked->selection->probes.count : 0;

	if (!asked->slice.gave_up[0])
		return selection_error(asked->err);
	rb_set_errinfo(Qnil);
	if (!armed)
		return error_set(asked->err, -ETIMEDOUT, "%s was given up: %s; select fewer methods", work, asked->slice.gave_up);
	return error_set(asked->err, -ETIMEDOUT, "%s was given up after %u methods, and none is traced: %s%s", work, armed,
	                 asked->slice.gave_up,
	                 asked->slice.limit_ns == WORK_MAX_MS * NS_PER_MS
	                         ? "; select fewer methods"
	                         : ", since the compiler drops all of its code for each of them; select fewer methods, or use "
	                           "--engine hook");
}

/* Where one was refused, another may follow. Nobody holds it but for a moment. */
static int make_room(struct session *session, struct error *err)
{
	if (!session->selection)
		return 0;
	if (!session->selection->disabled || !session->selection->looking)
		return error_set(err, -EBUSY, "this session traces already");
	if (session->held)
		return error_set(err, -EBUSY, "what was refused is still in use; send it again");
	selection_part.release(session);
	return 0;
}

static int begin_selection(struct asked *asked)
{
	struct session *session = asked->session;

	session->options = asked->command->options;
	refinements_forget();
	asked->selection = selection_new(session, asked->command);
	if (!asked->selection)
		return error_set(asked->err, -ENOMEM, "no memory for %u selectors", asked->command->selector_count);
	session->selection = asked->selection;
	if (decider_open(session, asked->command, asked->err) < 0 || tallies_open(session, asked->command, asked->err) < 0)
		return asked->err->code;
	measure_open(session);
	overdue_open(session);
	session->probes = &asked->selection->probes;
	session->hook = &asked->selection->hook;
	compiler_watch_begin();
	if (asked->selection->selector_count > 0)
		module_changes_begin();
	return 0;
}

/* From here on what is defined is seen, so that each selector has to be looked for once only. */
static int look_and_arm(struct asked *asked)
{
	const char *work = "looking for methods";
	int failed = 0;

	arming_protect(look_for_all, (VALUE)asked, &failed);
	if (!failed && asked->status == 0) {
		work = "arming";
		arming_protect(arm_all, (VALUE)asked, &failed);
	}
	if (failed)
		asked->status = error_of_work(asked, work);
	/* Events that have come already are the client's; its END will count them. */
	if (asked->status < 0)
		selection_disable(asked->selection);
	return asked->status;
}

int selection_arm(struct session *session, const struct command *command, uint64_t *count, struct error *err)
{
	struct asked asked = {.session = session, .command = command, .err = err};
	int status = make_room(session, err);

	if (status == 0)
		status = hook_question_firehose(&command->options, err);
	if (status < 0)
		return status;
	gvl_slice_begin_for(&asked.slice, &session->gone, WORK_MAX_MS);
	status = begin_selection(&asked);
	if (status == 0)
		status = look_and_arm(&asked);
	gvl_slice_end();
	if (status == 0)
		selection_overhead_begin();
	*count = asked.count;
	return status;
}

struct listing {
	struct asked *asked;
	uint32_t selector;
};

static void match_list(const struct match *match, void *argument)
{
	struct listing *listing = argument;

	gvl_slice_pass(&listing->asked->slice);
	selection_send_match(listing->asked->session, listing->asked->command->options.engine, match, listing->selector);
	listing->asked->count++;
}

static VALUE list_all(VALUE argument)
{
	struct asked *asked = (struct asked *)argument;
	struct listing listing = {.asked = asked};

	for (; listing.selector < asked->command->selector_count; listing.selector++)
		if (selector_line(&asked->command->selectors[listing.selector]))
			asked->count +=
				lines_list(asked->session, &asked->command->selectors[listing.selector], listing.selector);
		else
			selector_each_match(&asked->command->selectors[listing.selector], match_list, &listing);
	return Qnil;
}

int selection_list(struct session *session, const struct command *command, uint64_t *count, struct error *err)
{
	struct asked asked = {.session = session, .command = command, .err = err};
	int failed = 0;

	gvl_slice_begin_for(&asked.slice, &session->gone, WORK_MAX_MS);
	arming_protect(list_all, (VALUE)&asked, &failed);
	gvl_slice_end();
	if (failed)
		return error_of_work(&asked, "listing");
	*count = asked.count;
	return 0;
}
