/*
 * Arming what selectors name, and listing it. See selection.h. Context: job, GVL held, under rb_protect where Ruby is asked.
 */

#include "core.h"
#include "selection_parts.h"

#include "compat.h"
#include "compiler_watch.h"
#include "consent.h"
#include "expression.h"
#include "facts.h"
#include "fiber.h"
#include "naming.h"
#include "proto/clock.h"
#include "refinements.h"
#include "session.h"
#include "turn.h"
#include "watch_modules.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* CPU time that a command may take. With a compiler the process is slow meanwhile, too. */
#define WORK_MAX_MS 5000u
#define WORK_COMPILED_MAX_MS 2000u

/* A thread that is arming, on its stack. It runs, which keeps it from the GC. There may be several: each lets others run now and then. */
struct arming_thread {
	VALUE thread;
	pthread_t native;
	struct arming_thread *next;
};

static struct arming_thread *arming_threads;

static void arming_end(const struct arming_thread *arming)
{
	struct arming_thread **link = &arming_threads;

	while (*link != arming)
		link = &(*link)->next;
	*link = arming->next;
}

VALUE selection_protect_arming(VALUE (*run)(VALUE), VALUE argument, int *failed)
{
	struct arming_thread arming = {.thread = rb_thread_current(), .native = pthread_self(), .next = arming_threads};
	struct fiber_state *own = fiber_own_begin();
	VALUE result;

	arming_threads = &arming;
	result = rb_protect(run, argument, failed);
	arming_end(&arming);
	fiber_own_end(own);
	return result;
}

bool selection_is_arming(void)
{
	for (const struct arming_thread *arming = arming_threads; arming; arming = arming->next)
		if (arming->thread == rb_thread_current())
			return true;
	return false;
}

void selection_fork_child(void)
{
	struct arming_thread **link = &arming_threads;

	while (*link)
		if (pthread_equal((*link)->native, pthread_self()))
			link = &(*link)->next;
		else
			*link = (*link)->next;
}

/* What was raised, as an error for people. SyntaxError has the compiler's words, in several lines. */
static int error_from_exception(struct error *err)
{
	VALUE exception = rb_errinfo();
	char message[ERROR_TEXT_SIZE / 2];

	rb_set_errinfo(Qnil);
	core_describe(exception, message, sizeof(message));
	if (RTEST(rb_obj_is_kind_of(exception, rb_eSyntaxError)))
		return error_set(err, -EINVAL, "an expression does not compile, %s", message);
	if (RB_SPECIAL_CONST_P(exception) || rb_obj_class(exception) == rb_eRuntimeError)
		return error_set(err, -EINVAL, "%s", message);
	return error_set(err, -EINVAL, "%s: %s", rb_obj_classname(exception), message);
}

/* --- Arming one method */

static bool has_kind(VALUE kinds, VALUE kind)
{
	for (long i = 0; i < RARRAY_LEN(kinds); i++)
		if (RARRAY_AREF(kinds, i) == kind)
			return true;
	return false;
}

/* One method may be meant for several classes that inherit it, or for all. */
void selection_widen(struct probe *probe, const struct match *match)
{
	if (!probe->told && probe->engine) {
		selection_send_method(probe, probe->engine, match->method);
		probe->told = true;
	}
	if (match->only_kind_of == Qundef)
		probe->only_kind_of = Qundef;
	else if (probe->only_kind_of != Qundef && !has_kind(probe->only_kind_of, match->only_kind_of))
		rb_ary_push(probe->only_kind_of, match->only_kind_of);
}

static void announce_hook(struct selection *selection, bool whole)
{
	unsigned announcement = whole ? 2 : 1;

	if (selection->hook_announced >= announcement)
		return;
	selection->hook_announced = announcement;
	session_note(selection->session, NOTE_WARNING,
	             whole ? "engine hook: the whole process runs 3 to 7 times slower while this trace is on, and up to 3 times "
	                     "slower (15 "
	                     "times with YJIT) until it restarts"
	                   : "engine hook: every call of a method written in C is slower while this trace is on, in the whole "
	                     "process; "
	                     "nothing of it stays");
}

static void match_describe(const struct match *match, char *buffer, size_t size)
{
	struct text text = {.bytes = buffer, .size = size - 1};

	naming_method(&text, match->owner, match->name);
	buffer[text.used] = '\0';
}

void selection_found(struct selection *selection, uint32_t selector)
{
	struct record record = {.kind = RECORD_FOUND, .found = {.selector = selector}};

	if (selection->found[selector])
		return;
	selection->found[selector] = true;
	session_send(selection->session, &record);
}

/* A method that an engine was found for, and its probe. */
struct arming_one {
	struct probe *probe;
	const struct match *match;
	const struct engine *engine;
	const char *description;
	const struct text *reason; /* why this engine; may be empty */
	const char *when;          /* "armed", ...; NULL: silently */
};

/* Returns whether it is armed. Raises what makes the whole trace fail. */
static bool arm_one(const struct arming_one *one)
{
	struct probe *probe = one->probe;
	struct session *session = probe->session;
	struct selection *selection = session->selection;
	const struct engine *engine = one->engine;
	VALUE method = one->match->method;
	struct error err;

	probe->expressions = expression_list_new(&selection->selectors[probe->selector], method, probe->owner,
	                                         session->options.flags & TRACE_ARGUMENTS, engine == &engine_patch);
	if (engine->id == ENGINE_HOOK)
		announce_hook(selection, engine_hook_stays(method, probe->owner, probe->callee));
	if (one->when) {
		selection_send_method(probe, engine, method);
		probe->told = true;
		selection_await_name(probe);
	}
	probe->engine = engine;
	session_note(session, NOTE_INFO, "%s %s, engine %s%s%.*s", one->description,
	             one->when ? one->when : "armed until its class has a name", engine_name(engine->id),
	             one->reason->used ? ": " : "", (int)one->reason->used, one->reason->bytes);
	if (engine->arm(probe, method, &err) == 0)
		return true;
	if (err.code != -ENOTSUP)
		rb_raise(rb_eRuntimeError, "%s", err.text);
	session_note(session, NOTE_WARNING, "%s cannot be traced by engine %s: %s", one->description, engine_name(engine->id),
	             err.text);
	return false;
}

/* The engine for a method. NULL: it is not traced, and the client has been told. */
static const struct engine *choose(struct selection *selection, uint32_t selector, const struct match *match, bool late,
                                   const char *description, struct text *reason)
{
	struct session *session = selection->session;
	enum left_out_reason why;
	const struct engine *engine = engine_choose(session->options.engine, match, reason);

	if (!engine && selector_is_exactly(&selection->selectors[selector], match->name)) {
		session_note(session, NOTE_WARNING, "%s cannot be traced by engine %s: %.*s", description,
		             engine_name(session->options.engine), (int)reason->used, reason->bytes);
		return NULL;
	}
	why = left_out_reason(selection, selector, engine, match);
	if (why != LEFT_OUT_NOT) {
		left_out_add(selection, why, description, late, reason);
		return NULL;
	}
	return engine;
}

void selection_arm_match(const struct match *match, void *argument)
{
	struct arming *arming = argument;
	struct selection *selection = arming->selection;
	char reason_bytes[256], description[512];
	struct text reason = {.bytes = reason_bytes, .size = sizeof(reason_bytes)};
	struct arming_one one = {.match = match, .description = description, .reason = &reason};

	selection_found(selection, arming->selector);
	if (arming->turn)
		turn_pass(arming->turn);
	if (selection->disabled)
		return;
	one.probe = selection_probe(selection, match->owner, match->name);
	if (one.probe) {
		selection_widen(one.probe, match);
		return;
	}
	match_describe(match, description, sizeof(description));
	one.engine = choose(selection, arming->selector, match, arming->late, description, &reason);
	if (!one.engine)
		return;
	/* That ran Ruby code. */
	one.probe = selection_probe(selection, match->owner, match->name);
	if (one.probe)
		selection_widen(one.probe, match);
	if (one.probe || selection->disabled)
		return;
	one.when = arming->late ? "defined now, armed" : "armed";
	one.probe = selection_add_probe(selection, match, arming->selector);
	if (arm_one(&one))
		arming->armed++;
}

/* Whether it was armed for this very definition. */
static bool is_served(const struct probe *probe, const struct match *match)
{
	return probe->engine && probe->engine->serves && probe->engine->serves(probe, match->method);
}

struct probe *selection_arm_silently(struct selection *selection, const struct match *match, uint32_t selector)
{
	char reason_bytes[256], description[512];
	struct text reason = {.bytes = reason_bytes, .size = sizeof(reason_bytes)};
	struct arming_one one = {.match = match, .description = description, .reason = &reason};
	struct probe *former = selection_probe(selection, match->owner, match->name);

	/* Engine hook goes by the name, whatever the definition. */
	if (former && (former->told || !former->engine || !former->engine->serves || is_served(former, match)))
		return former;
	one.engine = engine_choose(selection->session->options.engine, match, &reason);
	if (!one.engine || !consent_given(one.engine, match, selection->session->options.flags) || selection->disabled)
		return NULL;
	match_describe(match, description, sizeof(description));
	one.probe = selection_add_probe(selection, match, selector);
	one.probe->former = former;
	one.probe->only_kind_of = rb_ary_new();
	arm_one(&one);
	return one.probe;
}

static VALUE arm_one_protected(VALUE argument)
{
	return arm_one((const struct arming_one *)argument) ? Qtrue : Qfalse;
}

void selection_arm_again(struct probe *former, const struct match *match)
{
	struct selection *selection = former->session->selection;
	char reason_bytes[256], description[512];
	struct text reason = {.bytes = reason_bytes, .size = sizeof(reason_bytes)};
	struct arming_one one = {.match = match, .description = description, .reason = &reason, .when = "defined anew, armed"};
	int failed = 0;

	if (is_served(former, match))
		return;
	match_describe(match, description, sizeof(description));
	one.engine = choose(selection, former->selector, match, true, description, &reason);
	/* That ran Ruby code. */
	former = selection_probe(selection, match->owner, match->name);
	if (!one.engine || selection->disabled || is_served(former, match))
		return;
	one.probe = selection_add_probe(selection, match, former->selector);
	one.probe->former = former;
	one.probe->only_kind_of = former->only_kind_of;
	/* Definitions with one C function share what observes it; both probes would mean each call. */
	engine_patch.disarm(former);
	rb_protect(arm_one_protected, (VALUE)&one, &failed);
	if (failed) {
		struct error err;

		error_from_exception(&err);
		session_note(selection->session, NOTE_WARNING, "%s defined anew, is not traced any more: %s", description,
		             err.text);
	}
}

/* --- What a command asks for */

struct asked {
	struct session *session;
	const struct command *command;
	struct selection *selection;
	uint64_t count;
	struct error *err;
	int status;
	struct turn turn;
};

static void note_facts(struct session *session)
{
	char bytes[256];
	struct text names = {.bytes = bytes, .size = sizeof(bytes)};

	facts_failed(&names);
	if (names.used)
		session_note(session, NOTE_INFO, "self-test: %.*s failed; `rbprobe selftest` tells more", (int)names.used,
		             names.bytes);
}

static VALUE arm_all(VALUE argument)
{
	struct asked *asked = (struct asked *)argument;
	struct selection *selection = asked->selection;

	for (uint32_t i = 0; i < selection->selector_count; i++) {
		struct arming arming = {.selection = selection, .selector = i, .turn = &asked->turn};
		char text[512];

		selector_each_match(&selection->selectors[i], selection_arm_match, &arming);
		asked->count += arming.armed;
		selector_write(&selection->selectors[i], text, sizeof(text));
		if (!selection->found[i])
			session_note(selection->session, NOTE_WARNING,
			             "%s matches no method yet; it will be traced when one is defined%s", text,
			             selector_may_be_class(&selection->selectors[i]) ? SELECTOR_CLASS_HINT : "");
	}
	left_out_report(selection);
	if (asked->command->options.flags & TRACE_FIREHOSE) {
		announce_hook(selection, true);
		engine_hook_start(selection, &selection->hook, true);
	}
	note_facts(selection->session);
	selection_resolve(selection);
	selection_look_later(selection);
	return Qnil;
}

/* What was raised, or that the work was given up. */
static int error_of_work(struct asked *asked, const char *work)
{
	uint32_t armed = asked->selection ? asked->selection->probe_count : 0;

	if (!asked->turn.gave_up[0])
		return error_from_exception(asked->err);
	rb_set_errinfo(Qnil);
	if (!armed)
		return error_set(asked->err, -ETIMEDOUT, "%s was given up: %s; select fewer methods", work, asked->turn.gave_up);
	return error_set(asked->err, -ETIMEDOUT, "%s was given up after %u methods, and none is traced: %s%s", work, armed,
	                 asked->turn.gave_up,
	                 asked->turn.limit_ns == WORK_MAX_MS * NS_PER_MS
	                         ? "; select fewer methods"
	                         : ", since the compiler drops all of its code for each of them; select fewer methods, or use "
	                           "--engine hook");
}

static VALUE ask_consent(VALUE argument)
{
	struct asked *asked = (struct asked *)argument;

	if (compat_compiler() != COMPAT_COMPILER_NONE)
		asked->turn.limit_ns = WORK_COMPILED_MAX_MS * NS_PER_MS;
	asked->status = consent_check(asked->command, &asked->turn, asked->err);
	return Qnil;
}

int selection_arm(struct session *session, const struct command *command, uint64_t *count, struct error *err)
{
	struct asked asked = {.session = session, .command = command, .err = err};
	int failed = 0;

	if (session->selection)
		return error_set(err, -EBUSY, "this session traces already");
	turn_begin_for(&asked.turn, session, WORK_MAX_MS);
	selection_protect_arming(ask_consent, (VALUE)&asked, &failed);
	if (failed || asked.status < 0) {
		turn_end();
		return failed ? error_of_work(&asked, "looking for methods") : asked.status;
	}
	session->options = command->options;
	refinements_forget();
	asked.selection = selection_new(session, command);
	if (!asked.selection) {
		turn_end();
		return error_set(err, -ENOMEM, "no memory for %u selectors", command->selector_count);
	}
	session->selection = asked.selection;
	compiler_watch_begin();
	if (asked.selection->selector_count > 0)
		watch_modules_begin();
	selection_protect_arming(arm_all, (VALUE)&asked, &failed);
	turn_end();
	if (failed) {
		int status = error_of_work(&asked, "arming");

		/* Events that have come already are the client's; its END will count them. */
		selection_disable(asked.selection);
		return status;
	}
	*count = asked.count;
	return 0;
}

struct listing {
	struct asked *asked;
	uint32_t selector;
};

static void match_list(const struct match *match, void *argument)
{
	struct listing *listing = argument;

	turn_pass(&listing->asked->turn);
	selection_send_match(listing->asked->session, listing->asked->command->options.engine, match, listing->selector);
	listing->asked->count++;
}

static VALUE list_all(VALUE argument)
{
	struct asked *asked = (struct asked *)argument;
	struct listing listing = {.asked = asked};

	for (; listing.selector < asked->command->selector_count; listing.selector++)
		selector_each_match(&asked->command->selectors[listing.selector], match_list, &listing);
	return Qnil;
}

int selection_list(struct session *session, const struct command *command, uint64_t *count, struct error *err)
{
	struct asked asked = {.session = session, .command = command, .err = err};
	int failed = 0;

	turn_begin_for(&asked.turn, session, WORK_MAX_MS);
	selection_protect_arming(list_all, (VALUE)&asked, &failed);
	turn_end();
	if (failed)
		return error_of_work(&asked, "listing");
	*count = asked.count;
	return 0;
}
