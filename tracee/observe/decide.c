/* Which calls are shown. See decide.h. Context: event, GVL held, but for decider_open() and decider_close(). */

#define _GNU_SOURCE
#include "tracee/observe/decide.h"

#include "proto/clock.h"
#include "tracee/base/job_cpu.h"
#include "tracee/base/random.h"
#include "tracee/base/ticks.h"
#include "tracee/frame/frame.h"
#include "tracee/observe/asking.h"
#include "tracee/observe/expression.h"
#include "tracee/observe/probe.h"
#include "tracee/session/session.h"
#include "tracee/vm/aside.h"
#include "tracee/vm/class_name.h"
#include "tracee/vm/fiber.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define THREAD_LOOK_MS 100 /* how long it is remembered whether a thread is meant: it may be given another name */

/* --- Opening */

static bool copy_text(struct slice *text)
{
	char *copy;

	if (!text->bytes)
		return true;
	copy = strndup(text->bytes, text->size);
	text->bytes = copy;
	return copy != NULL;
}

static void free_texts(struct decider *decider)
{
	free((char *)decider->conditions.raised.bytes);
	free((char *)decider->conditions.thread.bytes);
	free((char *)decider->conditions.expression.bytes);
	free(decider);
}

static bool copy_texts(struct conditions *conditions)
{
	bool raised = copy_text(&conditions->raised);
	bool thread = copy_text(&conditions->thread);
	bool expression = copy_text(&conditions->expression);

	return raised && thread && expression;
}

/* It may be; each method says whether it is: such a name may be one of its parameters. */
static bool selector_is_about_end(const struct selector *selector)
{
	for (uint32_t i = 0; i < selector->expression_count; i++)
		if (selector->role == ROLE_SHOWN && !selector_line(selector) && conditions_code_at_end(selector->expressions[i]))
			return true;
	return false;
}

int decider_open(struct session *session, const struct command *command, struct error *err)
{
	const struct conditions *conditions = &command->options.conditions;
	struct decider *decider;

	session->manner = CALLS_STREAMED;
	session->asks_at_start = session->tests_end = false;
	session->asks_at_end = session->counts_calls = session->shows_ends = false;
	session->slow_ticks = 0;
	session->decider = NULL;
	decider = calloc(1, sizeof(*decider));
	if (!decider)
		return error_set(err, -ENOMEM, "no memory for the conditions");
	decider->conditions = *conditions;
	if (!copy_texts(&decider->conditions)) {
		free_texts(decider);
		return error_set(err, -ENOMEM, "no memory for the conditions");
	}
	for (uint32_t i = 0; i < command->selector_count; i++) {
		session->shows_ends = session->shows_ends || selector_is_about_end(&command->selectors[i]);
		decider->within = decider->within || command->selectors[i].role == ROLE_WITHIN;
		decider->outside = decider->outside || command->selectors[i].role == ROLE_OUTSIDE;
		decider->outermost = decider->outermost || command->selectors[i].flags & SELECTOR_OUTERMOST;
	}
	decider->second_ticks = ticks_of_ns(NS_PER_S);
	if (command->options.flags & TRACE_AT_RANDOM)
		decider->chance = clock_now_ns() | 1;
	session->decider = decider;
	session->slow_ticks = ticks_of_ns(conditions->slow_ns);
	session->asks_at_end = conditions_at_end(conditions);
	session->tests_end = conditions_expression_at_end(conditions);
	session->asks_at_start = decider->within || decider->outside || decider->outermost || conditions->depth ||
	                         conditions->thread.size || conditions->slow_cpu_ns ||
	                         (conditions->expression.size && !session->tests_end) ||
	                         (!session->asks_at_end && (conditions->every || conditions->rate));
	session->shows_ends =
		session->shows_ends && command->options.flags & TRACE_ENDS && !(command->options.flags & TRACE_COUNT);
	session->ends_long = session->shows_ends || command->options.flags & (TRACE_RESULT | TRACE_MEASURES | TRACE_LOCALS);
	if (command->options.flags & TRACE_COUNT)
		session->manner = CALLS_COUNTED;
	else if (session->asks_at_end)
		session->manner = command->options.flags & TRACE_TREE ? CALLS_KEPT : CALLS_DECIDED;
	session->asks_at_start = session->asks_at_start || session->manner == CALLS_KEPT;
	atomic_store_explicit(&session->rests,
	                      session->manner == CALLS_COUNTED || (session->manner == CALLS_DECIDED && session->slow_ticks),
	                      memory_order_relaxed);
	session->counts_calls = session->manner == CALLS_COUNTED && command->options.flags & TRACE_NO_TIMES &&
	                        !session->asks_at_end && !decider->within && !decider->outside && !decider->outermost &&
	                        !conditions->depth;
	return 0;
}

void decider_close(struct session *session)
{
	if (session->decider && session->decider->failed)
		session_note(session, NOTE_WARNING, "--if could not be decided for %llu call%s, which count as left out",
		             (unsigned long long)session->decider->failed, session->decider->failed == 1 ? "" : "s");
	if (session->decider)
		free_texts(session->decider);
	session->decider = NULL;
}

struct expression_list *decider_condition(const struct session *session, VALUE method, VALUE owner, bool in_hand)
{
	struct slice expression = session->decider->conditions.expression;

	return expression.size ? expression_condition_new(expression, method, owner, in_hand) : NULL;
}

struct expression_list *decider_condition_for_line(const struct session *session, VALUE names, VALUE owner)
{
	struct slice expression = session->decider->conditions.expression;

	return expression.size ? expression_condition_new_for_line(expression, names, owner) : NULL;
}

/* --- Both */

/* Whether the user's expression is true. */
static bool is_true(struct fiber_state *fiber, const struct probe *probe, const struct seen_call *seen, int *jump)
{
	struct session *session = probe->session;
	struct decider *decider = session->decider;
	char bytes[256];
	struct text why = {.bytes = bytes, .size = sizeof(bytes)};
	enum expression_truth truth;
	struct asking asking;

	if (!probe->condition)
		return decider->conditions.expression.size == 0;
	asking = asking_begin(session, fiber, seen->outcome != NULL);
	truth = expression_test(probe->condition, seen, &session->options, &why, jump);
	asking_end(&asking);
	if (truth == EXPRESSION_FAILED && decider->failed++ == 0)
		session_note(session, NOTE_WARNING, "--if gave %.*s; calls for which it cannot be decided are left out",
		             (int)why.used, bytes);
	return truth == EXPRESSION_TRUE;
}

bool decide_is_counted_in(struct decider *decider, uint64_t *met, struct rate_window *window, uint64_t time)
{
	const struct conditions *conditions = &decider->conditions;
	uint64_t number = conditions->every && decider->chance ? random_next(&decider->chance) : (*met)++;

	if (conditions->every && number % conditions->every)
		return false;
	if (!conditions->rate)
		return true;
	if (time - window->began >= decider->second_ticks) {
		window->began = time;
		window->taken = 0;
	}
	return window->taken++ < conditions->rate;
}

/* --- The start */

struct thread_look {
	const struct session *session;
	bool meant;
};

bool decide_is_thread_named(const struct session *session, VALUE name, bool is_main)
{
	const char *wanted = session->decider->conditions.thread.bytes;
	char bytes[NAME_SIZE_MAX + 1];

	if (is_main && strcmp(wanted, "main") == 0)
		return true;
	if (NIL_P(name))
		return false;
	snprintf(bytes, sizeof(bytes), "%.*s", (int)RSTRING_LEN(name), RSTRING_PTR(name));
	return fnmatch(wanted, bytes, 0) == 0;
}

static VALUE look_at_thread(VALUE argument)
{
	struct thread_look *look = (struct thread_look *)argument;
	struct fiber_description description;
	char id[16];

	fiber_describe(&description);
	snprintf(id, sizeof(id), "%u", description.native_id);
	look->meant = strcmp(id, look->session->decider->conditions.thread.bytes) == 0 ||
	              decide_is_thread_named(look->session, description.thread_name, rb_thread_current() == rb_thread_main());
	RB_GC_GUARD(description.thread_name);
	RB_GC_GUARD(description.created_at);
	return Qnil;
}

bool decide_is_thread_meant(const struct session *session, struct call_stack *stack, int *jump)
{
	struct thread_look look = {.session = session};
	uint64_t now_ns;

	if (stack->depth && stack->thread_look_ns)
		return stack->thread_meant;
	now_ns = clock_now_ns();
	if (stack->thread_look_ns && now_ns - stack->thread_look_ns < THREAD_LOOK_MS * NS_PER_MS)
		return stack->thread_meant;
	if (!jump)
		look_at_thread((VALUE)&look);
	else if (!*jump)
		*jump = aside_protect(look_at_thread, (VALUE)&look);
	stack->thread_meant = look.meant;
	stack->thread_look_ns = now_ns;
	return look.meant;
}

/* Further out than this nobody looks: a set's calls are near each other, and a stack may be deep. */
#define SET_LOOK_MAX 256u

static bool is_inside_its_set(const struct probe *probe, const struct call_stack *stack)
{
	uint32_t end = stack->depth > SET_LOOK_MAX ? stack->depth - SET_LOOK_MAX : 0;

	for (uint32_t i = stack->depth; i > end; i--)
		if (stack->calls[i - 1].probe->outermost_of == probe->outermost_of &&
		    stack->calls[i - 1].roles & 1u << ROLE_SHOWN)
			return true;
	return false;
}

enum verdict decide_start(struct probe *probe, struct fiber_state *fiber, const struct seen_call *seen, int *jump)
{
	struct session *session = probe->session;
	struct decider *decider = session->decider;
	struct call_stack *stack = &fiber->stacks[session->slot];
	enum verdict otherwise = probe->roles & ~(1u << ROLE_SHOWN) ? VERDICT_SCOPE : VERDICT_UNSEEN;
	const struct conditions *conditions;

	if (!session->asks_at_start)
		return VERDICT_SHOWN;
	conditions = &decider->conditions;
	if (!(probe->roles & 1u << ROLE_SHOWN))
		return otherwise;
	/* One of its set says it already: it is no call of its own, and not counted. */
	if (probe->outermost_of && is_inside_its_set(probe, stack))
		return otherwise;
	if ((decider->within && !stack->within) || (decider->outside && (stack->outside || probe->roles & 1u << ROLE_OUTSIDE)) ||
	    (conditions->depth && !session->asks_at_end && stack->shown >= conditions->depth) ||
	    (conditions->thread.size && !decide_is_thread_meant(session, stack, jump)) ||
	    (!session->tests_end && !is_true(fiber, probe, seen, jump)) ||
	    (!session->asks_at_end && !decide_is_counted_in(decider, &probe->met, &decider->calls, ticks_now()))) {
		session->calls++;
		probe->calls++;
		session->left_out++;
		return otherwise;
	}
	return VERDICT_SHOWN;
}

/* --- The end */

struct class_look {
	VALUE exception;
	const char *pattern;
	bool meant;
};

bool decide_is_of_class(VALUE object, const char *pattern)
{
	VALUE ancestors = rb_mod_ancestors(rb_obj_class(object));
	bool meant = false;

	for (long i = 0; i < RARRAY_LEN(ancestors) && !meant; i++) {
		char bytes[NAME_SIZE_MAX + 1];
		struct text name = {.bytes = bytes, .size = NAME_SIZE_MAX};

		class_name_add(&name, RARRAY_AREF(ancestors, i));
		bytes[name.used] = '\0';
		meant = fnmatch(pattern, bytes, 0) == 0;
	}
	RB_GC_GUARD(ancestors);
	return meant;
}

static VALUE look_at_class(VALUE argument)
{
	struct class_look *look = (struct class_look *)argument;

	look->meant = decide_is_of_class(look->exception, look->pattern);
	return Qnil;
}

static bool has_raised(const struct decider *decider, const struct frame_end *end, int *jump)
{
	struct class_look look = {.pattern = decider->conditions.raised.bytes};
	struct slice pattern = decider->conditions.raised;

	if (!pattern.bytes)
		return true;
	if (!end || end->ending != FRAME_RAISED)
		return false;
	if (pattern.size == 0)
		return true;
	if (RB_SPECIAL_CONST_P(end->exception) || *jump)
		return false;
	look.exception = end->exception;
	*jump = aside_protect(look_at_class, (VALUE)&look);
	return look.meant;
}

struct call_outcome decide_outcome(const struct open_call *call, uint64_t time, const struct frame_end *end)
{
	struct call_outcome outcome = {.result = Qnil, .error = Qnil};

	outcome.elapsed = (double)(time - call->began) / (double)call->probe->session->decider->second_ticks;
	if (end->ending == FRAME_RAISED && end->exception != Qundef)
		outcome.error = end->exception;
	else if (end->value != Qundef)
		outcome.result = end->value;
	return outcome;
}

/* Where nobody saw how it ended, or it was unwound for no exception, no expression can run. */
static bool is_true_at_end(struct fiber_state *fiber, const struct open_call *call, uint64_t time, const struct ended_call *ended,
                           int *jump)
{
	const struct session *session = call->probe->session;
	struct call_outcome outcome;
	struct seen_call seen;
	bool met;

	if (!session->tests_end)
		return true;
	if (!ended || !ended->seen || (ended->end->ending != FRAME_RETURNED && ended->end->ending != FRAME_RAISED))
		return false;
	seen = *ended->seen;
	outcome = decide_outcome(call, time, ended->end);
	seen.outcome = &outcome;
	met = is_true(fiber, call->probe, &seen, jump);
	RB_GC_GUARD(outcome.error);
	RB_GC_GUARD(outcome.result);
	return met;
}

bool decide_end(struct fiber_state *fiber, const struct open_call *call, uint64_t time, const struct ended_call *ended, int *jump)
{
	struct session *session = call->probe->session;
	struct decider *decider = session->decider;
	uint64_t slow_cpu_ns = decider->conditions.slow_cpu_ns;
	/* In a collection this thread is any. */
	bool met = time - call->began >= session->slow_ticks &&
	           (!slow_cpu_ns || (ended && job_cpu_without_ns() - call->cpu_ns >= slow_cpu_ns)) &&
	           has_raised(decider, ended ? ended->end : NULL, jump) && is_true_at_end(fiber, call, time, ended, jump) &&
	           decide_is_counted_in(decider, &call->probe->met, &decider->calls, time);

	/* What is kept may be shown because of a call around it. */
	if (!met && session->manner != CALLS_KEPT)
		session->left_out++;
	return met;
}
