/*
 * What a command asks for: arming what its selectors name, and listing it. See selection.h. Context: job, GVL held, under
 * rb_protect where Ruby is asked.
 *
 * Thousands of methods take a tenth of a second, in which the thread that has the job would stand still. So the work is a table
 * of steps, each of which is called until it has nothing more to do, and a job ends between two calls. What the application does
 * meanwhile is seen: methods that it defines are added to what was found, or are armed at once.
 */

#include "tracee/select/selection_parts.h"

#include "proto/clock.h"
#include "tracee/observe/decide.h"
#include "tracee/observe/expression.h"
#include "tracee/observe/measure.h"
#include "tracee/observe/overdue.h"
#include "tracee/observe/overhead.h"
#include "tracee/observe/tally.h"
#include "tracee/select/code_compiled.h"
#include "tracee/select/compiler_watch.h"
#include "tracee/select/hook_consent.h"
#include "tracee/select/module_changes.h"
#include "tracee/select/suggestions.h"
#include "tracee/session/debug.h"
#include "tracee/session/session.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/gvl_slice.h"
#include "tracee/vm/refinements.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* CPU time that a command may take, or more where its client says so. With a compiler the process is slow meanwhile, too. */
#define WORK_MAX_MS 5000u
#define WORK_COMPILED(limit_ms) ((limit_ms) / 5 * 2)

struct step;

struct selection_work {
	struct session *session;
	const struct command *command;
	struct selection *selection; /* NULL: a listing */
	const struct step *step;     /* the next */
	uint32_t selector;           /* that is looked for */
	struct selector_walk walk;
	bool *listed; /* by selector: a listing has named a method */
	bool suggesting;
	const struct selector *misnamed; /* its class begins with a small letter, and is not there; NULL: none is so */
	struct suggestions suggestions;
	size_t next;  /* of the matches */
	size_t found; /* matches there were when all was looked for: what is defined faster than it is looked at, comes later */
	struct hook_question question;
	uint64_t count;
	unsigned parts; /* jobs that it has taken */
	bool in_parts;
	bool compiling; /* the process has a compiler */
	struct error *err;
	int status;
	struct gvl_slice slice;
	struct selection_work *next_work; /* of all, for the GC */
};

struct step {
	const char *work; /* of which it is a part */
	/* A piece of it, or all; true: there is more. May raise; or sets status, which ends the work. */
	bool (*run)(struct selection_work *work);
};

static struct selection_work *works;

void selection_works_mark(void)
{
	for (const struct selection_work *work = works; work; work = work->next_work) {
		selector_walk_mark(&work->walk);
		suggestions_mark(&work->suggestions);
	}
}

static uint32_t limit_ms(const struct command *command)
{
	return command->options.work_limit_ms > WORK_MAX_MS ? command->options.work_limit_ms : WORK_MAX_MS;
}

/* --- What matches nothing */

static bool has_matched(const struct selection_work *work, uint32_t i)
{
	return work->selection ? work->selection->results[i].found : work->listed[i];
}

/* Of a selector that matches nothing: lines have words of their own. */
static bool says_nothing(const struct selector *selector)
{
	return selector_line(selector) || selector->flags & SELECTOR_OPTIONAL;
}

static bool suggest(struct selection_work *work)
{
	const struct command *command = work->command;

	for (uint32_t i = 0; i < command->selector_count && !work->suggesting; i++)
		if (!has_matched(work, i) && !says_nothing(&command->selectors[i]))
			suggestions_add(&work->suggestions, i, &command->selectors[i]);
	work->suggesting = true;
	return suggestions_look(&work->suggestions);
}

static void tell_unmatched(struct selection_work *work, const char *what_follows)
{
	const struct command *command = work->command;
	uint32_t told = 0;

	for (uint32_t i = 0; i < command->selector_count; i++) {
		const struct selector *selector = &command->selectors[i];
		char name[512], meant[320];

		if (has_matched(work, i) || says_nothing(selector))
			continue;
		selector_write(selector, name, sizeof(name));
		suggestions_write(&work->suggestions, i, meant, sizeof(meant));
		session_note(work->session, ++told <= UNMATCHED_NAMED_MAX ? NOTE_WARNING : NOTE_INFO, "no method matches %s%s%s",
		             name, what_follows, selector_may_be_class(selector) ? SELECTOR_CLASS_HINT : meant);
	}
	if (told > UNMATCHED_NAMED_MAX)
		session_note(work->session, NOTE_WARNING, "no method matches %u more selectors%s: -v names them",
		             told - UNMATCHED_NAMED_MAX, what_follows);
}

/* No constant has such a name, so that nothing is waited for. */
static void refuse_misnamed(struct selection_work *work)
{
	const struct selector *selector = work->misnamed;
	struct slice part = selector_misnamed(selector), method = selector->method_pattern.size ? selector->method_pattern : part;
	char name[512], meant[320];

	selector_write(selector, name, sizeof(name));
	suggestions_write(&work->suggestions, 0, meant, sizeof(meant));
	if (!meant[0])
		snprintf(meant, sizeof(meant), "; write %.*s alone for the methods of that name in all classes", (int)method.size,
		         method.bytes);
	work->status =
		error_set(work->err, -EINVAL, "selector \"%s\": \"%.*s\" is no class%s", name, (int)part.size, part.bytes, meant);
}

/* Looks at the next method or module that the walk's selector may mean; at its end the next selector is looked for. */
static void walk_on(struct selection_work *work)
{
	const struct selector *selector = work->walk.selector;

	if (selector_walk_next(&work->walk))
		return;
	/* Ruby itself has some, such as Time::tm. */
	if (!work->misnamed && !work->walk.has_class && selector_misnamed(selector).size) {
		work->misnamed = selector;
		suggestions_add(&work->suggestions, 0, selector);
	}
	work->walk = (struct selector_walk){.selector = NULL};
	work->selector++;
}

static bool refuse_what_is_misnamed(struct selection_work *work)
{
	if (!work->misnamed)
		return false;
	if (suggestions_look(&work->suggestions))
		return true;
	refuse_misnamed(work);
	return false;
}

/* --- The steps of a trace */

static bool prepare(struct selection_work *work)
{
	work->compiling = compat_compiler() != COMPAT_COMPILER_NONE;
	if (work->compiling)
		work->slice.limit_ns = WORK_COMPILED(limit_ms(work->command)) * NS_PER_MS;
	overhead_calibrate();
	if (work->command->options.conditions.expression.size)
		expression_condition_check(work->command->options.conditions.expression);
	if (work->command->options.key.size)
		expression_condition_check(work->command->options.key);
	lines_begin(work->selection);
	return false;
}

/* Everything that the selectors match is found before the first is armed: one of them may be refused. */
static bool look_for_methods(struct selection_work *work)
{
	struct selection *selection = work->selection;
	struct arming arming = {.selection = selection, .selector = work->selector};

	if (work->selector == selection->selector_count)
		return false;
	work->walk.found = selection_arm_match;
	work->walk.argument = &arming;
	if (!work->walk.selector && !selector_line(&selection->selectors[work->selector]))
		selector_walk_begin(&work->walk, &selection->selectors[work->selector]);
	else if (work->walk.selector)
		walk_on(work);
	else
		work->selector++;
	return true;
}

static bool look_for_lines(struct selection_work *work)
{
	work->status = lines_look(work->selection, work->err);
	return false;
}

static bool ask_consent(struct selection_work *work)
{
	const struct matches *matches = &work->selection->matches;

	if (work->next == 0) {
		if (!hook_question_begin(&work->question, &work->command->options))
			return false;
		work->found = matches->count;
	}
	if (work->next < work->found) {
		/* Others may add to the list meanwhile. */
		struct selector_match found = matches->list[work->next++];

		if (!left_out_as_attribute(work->selection, found.selector, &found.match))
			hook_question_look(&work->question, &found.match);
		return true;
	}
	work->status = hook_question_end(&work->question, work->err);
	work->next = 0;
	return false;
}

static bool arm_methods(struct selection_work *work)
{
	work->selection->looking = false;
	if (work->next == work->selection->matches.count)
		return false;
	work->count += matches_arm(work->selection, work->next++);
	return true;
}

static bool finish(struct selection_work *work)
{
	struct selection *selection = work->selection;

	selection_check_exceptions(selection->session, &work->command->options);
	work->count += lines_arm(selection);
	for (uint32_t i = 0; i < selection->selector_count; i++) {
		const struct selector_result *result = &selection->results[i];
		char text[512];

		selector_write(&selection->selectors[i], text, sizeof(text));
		debug(selection->session, DEBUG_SELECT, "selector %u, %s: methods armed: %u", i, text, result->armed);
	}
	tell_unmatched(work, " yet (waiting for it)");
	if (work->command->options.flags & TRACE_LOCALS && work->count && !selection->has_locals && !selection->lines &&
	    !(work->command->options.flags & TRACE_FIREHOSE))
		session_note(selection->session, NOTE_WARNING,
		             "no method that is traced is written in Ruby: there are no local variables to show");
	matches_free(&selection->matches);
	selection_tell_more_armed(selection);
	left_out_report(selection);
	hook_price_report(selection);
	if (work->command->options.flags & TRACE_FIREHOSE) {
		selection_announce_whole_hook(selection);
		engine_hook_start(&selection->hook, true);
	}
	selection_resolve(selection);
	selection_look_later(selection);
	return false;
}

static const struct step trace_steps[] = {
	{"looking for methods", prepare},
	{"looking for methods", look_for_methods},
	{"looking for methods", refuse_what_is_misnamed},
	{"looking for methods", look_for_lines},
	{"looking for methods", ask_consent},
	{"arming", arm_methods},
	{"arming", suggest},
	{"arming", finish},
	{NULL, NULL},
};

/* --- The step of a listing */

static void match_list(const struct match *match, void *argument)
{
	struct selection_work *work = argument;

	selection_send_match(work->session, work->command->options.engine, match, work->selector);
	work->listed[work->selector] = true;
	work->count++;
}

static bool list_methods(struct selection_work *work)
{
	const struct command *command = work->command;

	if (work->selector == command->selector_count)
		return false;
	if (selector_line(&command->selectors[work->selector])) {
		work->count += lines_list(work->session, &command->selectors[work->selector], work->selector);
		work->selector++;
		return true;
	}
	work->walk.found = match_list;
	work->walk.argument = work;
	if (!work->walk.selector)
		selector_walk_begin(&work->walk, &command->selectors[work->selector]);
	else
		walk_on(work);
	return true;
}

static bool finish_listing(struct selection_work *work)
{
	tell_unmatched(work, "");
	return false;
}

static const struct step list_steps[] = {{"listing", list_methods},
                                         {"listing", refuse_what_is_misnamed},
                                         {"listing", suggest},
                                         {"listing", finish_listing},
                                         {NULL, NULL}};

/* --- From job to job */

/* What was raised, or that the work was given up. */
static int error_of_work(struct selection_work *work)
{
	const char *name = work->step->work;
	uint32_t armed = work->selection && !work->selection->looking ? work->selection->probes.count : 0;

	if (!work->slice.gave_up[0])
		return selection_error(work->err);
	exception_drop(Qnil);
	if (!armed)
		return error_set(work->err, -ETIMEDOUT,
		                 "%s was given up: %s; select fewer methods, or allow more with --timeout SEC", name,
		                 work->slice.gave_up);
	return error_set(work->err, -ETIMEDOUT, "%s was given up after %u methods, and none is traced: %s%s", name, armed,
	                 work->slice.gave_up,
	                 work->compiling
	                         ? ", since the compiler drops all of its code for each of them; select fewer methods, or use "
	                           "--engine hook"
	                         : "; select fewer methods, or allow more with --timeout SEC");
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

static int refuse(struct session *session, int status)
{
	decider_close(session);
	tallies_close(session);
	return status;
}

static int begin_selection(struct session *session, const struct command *command, struct error *err)
{
	struct selection *selection;

	session->options = command->options;
	refinements_forget();
	/*
	 * First what events go by: as soon as there is a selection, another thread may define a method, which is armed then. The
	 * client of a trace that was refused may stay.
	 */
	if (decider_open(session, command, err) < 0 || tallies_open(session, command, err) < 0)
		return refuse(session, err->code);
	selection = selection_new(session, command);
	if (!selection)
		return refuse(session, error_set(err, -ENOMEM, "no memory for %u selectors", command->selector_count));
	measure_open(session);
	overdue_open(session);
	session->probes = &selection->probes;
	session->hook = &selection->hook;
	selection->looking = selection->unfinished = true;
	session->selection = selection;
	compiler_watch_begin();
	if (selection->selector_count > 0)
		module_changes_begin();
	if (selection->lines)
		code_compiled_begin();
	return 0;
}

/* From here on what is defined is seen, so that each selector has to be looked for once only. */
static int begin(struct selection_work *work, struct error *err)
{
	struct session *session = work->session;
	int status = make_room(session, err);

	if (status == 0)
		status = hook_question_firehose(&work->command->options, err);
	if (status < 0)
		return status;
	status = begin_selection(session, work->command, err);
	work->selection = session->selection;
	return status;
}

struct selection_work *selection_work_new(struct session *session, const struct command *command)
{
	struct selection_work *work = calloc(1, sizeof(*work));

	if (!work)
		return NULL;
	work->listed = calloc(command->selector_count + 1u, sizeof(*work->listed));
	if (!work->listed) {
		free(work);
		return NULL;
	}
	work->session = session;
	work->command = command;
	work->next_work = works;
	works = work;
	gvl_slice_begin_for(&work->slice, &session->gone, limit_ms(command));
	gvl_slice_end();
	return work;
}

void selection_work_free(struct selection_work *work)
{
	struct selection_work **link = &works;

	while (*link != work)
		link = &(*link)->next_work;
	*link = work->next_work;
	free(work->listed);
	free(work);
}

int selection_work_arm(struct selection_work *work, struct error *err)
{
	work->step = trace_steps;
	return begin(work, err);
}

void selection_work_list(struct selection_work *work)
{
	work->step = list_steps;
}

static VALUE run_part(VALUE argument)
{
	struct selection_work *work = (struct selection_work *)argument;

	while (work->step->run) {
		if (!work->step->run(work) && work->status == 0)
			work->step++;
		if (work->status < 0)
			return Qnil;
		if (work->in_parts && gvl_slice_part_is_over(&work->slice))
			return Qnil;
	}
	return Qnil;
}

int selection_work_go_on(struct selection_work *work, bool in_parts, uint64_t *count, struct error *err)
{
	int failed = 0;

	work->err = err;
	work->in_parts = in_parts;
	work->parts++;
	gvl_slice_part(&work->slice);
	arming_protect(run_part, (VALUE)work, &failed);
	gvl_slice_end();
	if (failed)
		work->status = error_of_work(work);
	*count = work->count;
	if (work->status == 0 && work->step->run) {
		debug(work->session, DEBUG_SELECT, "%s goes on in another job: part %u is done, methods so far: %llu",
		      work->step->work, work->parts, (unsigned long long)work->count);
		return -EINPROGRESS;
	}
	if (!work->selection)
		return work->status;
	work->selection->unfinished = false;
	/* Events that have come already are the client's; its END will count them. */
	if (work->status < 0)
		selection_disable(work->selection);
	else
		selection_overhead_begin();
	return work->status;
}
