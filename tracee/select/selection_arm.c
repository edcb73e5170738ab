/*
 * Arming one method that a selector names. See selection_parts.h. Context: job, and whatever defines methods; GVL held, under
 * rb_protect.
 */

#include "tracee/select/selection_parts.h"
#include "tracee/vm/builtin_methods.h"

#include "tracee/observe/decide.h"
#include "tracee/observe/expression.h"
#include "tracee/observe/observe.h"
#include "tracee/observe/retry.h"
#include "tracee/observe/tally_keys.h"
#include "tracee/session/debug.h"
#include "tracee/session/session.h"
#include "tracee/vm/class_name.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/gvl_slice.h"
#include "tracee/vm/method_definition.h"
#include "tracee/vm/oneshot_lines.h"

#include <errno.h>

#define NAMELESS_MAX 1000u /* methods that are defined later, of classes that have no name */
#define DEFINED_MAX 1000u  /* times that one method is defined anew, each of which keeps its code */

/* SyntaxError has the compiler's words, in several lines. */
int selection_error(struct error *err)
{
	VALUE exception = rb_errinfo();
	char message[ERROR_TEXT_SIZE / 2];

	exception_drop(Qnil);
	builtin_describe(exception, message, sizeof(message));
	if (RTEST(rb_obj_is_kind_of(exception, rb_eSyntaxError)))
		return error_set(err, -EINVAL, "an expression does not compile, %s", message);
	if (RB_SPECIAL_CONST_P(exception) || rb_obj_class(exception) == rb_eRuntimeError)
		return error_set(err, -EINVAL, "%s", message);
	return error_set(err, -EINVAL, "%s: %s", rb_obj_classname(exception), message);
}

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
	if (probe->engine)
		observe_choose_way(probe);
}

void selection_announce_whole_hook(struct selection *selection)
{
	if (selection->hook_announced == 2)
		return;
	selection->hook_announced = 2;
	session_note(
		selection->session, NOTE_WARNING,
		"engine hook: all calls in the process are several times slower while this trace is on (tight loops up to 25 "
		"times, 200 with YJIT), and up to 5 times slower (40 with YJIT) until it restarts");
}

void selection_announce_oneshot_lines(struct selection *selection)
{
	if (selection->oneshot_announced || oneshot_lines_ready() || !oneshot_lines_run())
		return;
	selection->oneshot_announced = true;
	session_note(
		selection->session, NOTE_WARNING,
		"Coverage runs with oneshot_lines: of a method or line that runs for the first time while this trace is on, Ruby "
		"forgets that it is watched, and only the first call is seen; of methods but those of define_method, "
		"--engine hook sees all calls");
}

static void match_describe(const struct match *match, char *buffer, size_t size)
{
	struct text text = {.bytes = buffer, .size = size - 1};

	class_name_add_method(&text, match->owner, match->name);
	buffer[text.used] = '\0';
}

void selection_found(struct selection *selection, uint32_t selector)
{
	struct record record = {.kind = RECORD_FOUND, .found = {.selector = selector}};

	if (selection->results[selector].found)
		return;
	selection->results[selector].found = true;
	session_send(selection->session, &record);
}

bool selection_keeps_binding(const struct session *session, VALUE method)
{
	bool wanted = session->options.flags & TRACE_LOCALS || session->shows_ends ||
	              (session->tests_end && session->decider->conditions.expression.size);

	return wanted && !compat_block_method_frame_stays() && method_definition_is_block_method(method);
}

/* A method that an engine was found for, and its probe. */
struct arming_one {
	struct probe *probe;
	const struct match *match;
	const struct engine *engine;
	const char *description;
	const struct text *reason; /* why this engine; may be empty */
	const char *when;          /* "armed", ...; NULL: silently */
	bool late;                 /* the method was defined while we were attached */
};

/* Returns whether it is armed. Raises what makes the whole trace fail. */
static bool arm_one(const struct arming_one *one)
{
	struct probe *probe = one->probe;
	struct session *session = probe->session;
	struct selection *selection = session->selection;
	const struct selector *selector = &selection->selectors[probe->selector];
	const struct engine *engine = one->engine;
	VALUE method = one->match->method;
	struct error err;
	int jump = 0;

	if (!(session->options.flags & TRACE_BY_VALUE))
		probe->expressions = selection_expressions(probe, probe->selector, method, engine == &engine_patch);
	probe->condition = decider_condition(session, method, probe->owner, engine == &engine_patch);
	probe->ends = selection_ends(probe, probe->selector, method, engine == &engine_patch);
	probe->keeps_binding = selection_keeps_binding(session, method);
	probe->key = tally_keys_expression(session, selector, method, probe->owner, engine == &engine_patch);
	if (engine->id == ENGINE_HOOK && engine_hook_stays(method, probe->owner, probe->callee))
		selection_announce_whole_hook(selection);
	else if (engine->id == ENGINE_HOOK)
		hook_price_add(selection, one->description, engine_hook_is_attribute(method), one->late);
	if (one->when) {
		selection_send_method(probe, engine, method);
		probe->told = true;
		selection_await_name(probe);
	}
	probe->engine = engine;
	if (one->late || selection_names_armed(selection, engine->id))
		session_note(session, NOTE_INFO, "%s %s, engine %s%s%.*s", one->description,
		             one->when ? one->when : "armed until its class has a name", engine_name(engine->id),
		             one->reason->used ? ": " : "", (int)one->reason->used, one->reason->bytes);
	/* A retry looks like a call, unless it is known which call is open. */
	probe->counts_only = session->counts_calls && !retry_is_possible(probe, &jump);
	if (jump)
		rb_jump_tag(jump);
	observe_choose_way(probe);
	if (engine->id == ENGINE_TARGET)
		selection_announce_oneshot_lines(selection);
	if (engine->arm(probe, method, &err) == 0) {
		debug(session, DEBUG_ENGINE, "%s: armed by engine %s, ref %u, %u expressions", one->description,
		      engine_name(engine->id), probe->ref, probe->expressions ? probe->expressions->count : 0);
		return true;
	}
	debug(session, DEBUG_ENGINE, "%s: arming by engine %s failed: %s", one->description, engine_name(engine->id), err.text);
	if (err.code != -ENOTSUP)
		rb_raise(rb_eRuntimeError, "%s", err.text);
	session_note(session, NOTE_WARNING, "%s cannot be traced by engine %s: %s", one->description, engine_name(engine->id),
	             err.text);
	return false;
}

static void debug_choice(struct session *session, const struct engine *engine, const char *description, const struct text *reason)
{
	debug(session, DEBUG_ENGINE, "%s: engine %s of --engine %s%s%.*s", description,
	      engine_name(engine ? engine->id : ENGINE_NONE), engine_name(session->options.engine),
	      reason->used ? "; others do not: " : "", (int)reason->used, reason->bytes);
}

/* The engine for a method. NULL: it is not traced, and the client has been told. */
static const struct engine *choose(struct selection *selection, uint32_t selector, const struct match *match, bool late,
                                   const char *description, struct text *reason)
{
	struct session *session = selection->session;
	enum left_out_reason why;
	const struct engine *engine = engine_choose(session->options.engine, match, reason);

	debug_choice(session, engine, description, reason);
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

/* An object's singleton class, or no name at all: the process may make such without end, and each is kept until the end. */
static bool is_nameless(VALUE owner)
{
	while (class_name_is_singleton(owner)) {
		owner = compat_attached_object(owner);
		if (!RB_TYPE_P(owner, T_CLASS) && !RB_TYPE_P(owner, T_MODULE))
			return true;
	}
	return !selection_has_name(owner);
}

static bool is_one_nameless_too_many(const struct arming *arming, VALUE owner)
{
	struct selection *selection = arming->selection;

	if (!arming->late || !is_nameless(owner))
		return false;
	if (selection->nameless_count < NAMELESS_MAX) {
		selection->nameless_count++;
		return false;
	}
	if (!selection->nameless_told)
		session_note(selection->session, NOTE_WARNING,
		             "%u methods of objects, and of classes without a name, were defined since the trace began; of more, "
		             "those are traced whose class gets a name",
		             NAMELESS_MAX);
	selection->nameless_told = true;
	/* A look finds it then. */
	if (!arming->slice)
		selection_modules_changed();
	return true;
}

void selection_arm_match(const struct match *match, void *argument)
{
	struct arming *arming = argument;
	struct selection *selection = arming->selection;
	char reason_bytes[256], description[512];
	struct text reason = {.bytes = reason_bytes, .size = sizeof(reason_bytes)};
	struct arming_one one = {.match = match, .description = description, .reason = &reason};
	uint8_t role = (uint8_t)(1u << selection->selectors[arming->selector].role);

	if (arming->slice)
		gvl_slice_pass(arming->slice);
	if (selection->disabled)
		return;
	if (selection->looking) {
		matches_add(selection, match, arming->selector, arming->late);
		return;
	}
	selection_found(selection, arming->selector);
	one.probe = probe_table_find(&selection->probes, match->owner, match->name);
	if (one.probe) {
		one.probe->roles |= role;
		selection_widen(one.probe, match);
		return;
	}
	if (is_one_nameless_too_many(arming, match->owner))
		return;
	match_describe(match, description, sizeof(description));
	one.engine = choose(selection, arming->selector, match, arming->late, description, &reason);
	if (!one.engine)
		return;
	/* That ran Ruby code. */
	one.probe = probe_table_find(&selection->probes, match->owner, match->name);
	if (one.probe) {
		one.probe->roles |= role;
		selection_widen(one.probe, match);
	}
	if (one.probe || selection->disabled)
		return;
	one.when = arming->late ? "defined now, armed" : role == 1u << ROLE_SHOWN ? "armed" : "armed as a condition";
	one.late = arming->late;
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
	struct arming_one one = {.match = match, .description = description, .reason = &reason, .late = true};
	struct probe *former = probe_table_find(&selection->probes, match->owner, match->name);

	/* Engine hook goes by the name, whatever the definition. */
	if (former && (former->told || !former->engine || !former->engine->serves || is_served(former, match)))
		return former;
	one.engine = engine_choose(selection->session->options.engine, match, &reason);
	if (left_out_reason(selection, selector, one.engine, match) != LEFT_OUT_NOT || selection->disabled)
		return NULL;
	match_describe(match, description, sizeof(description));
	debug_choice(selection->session, one.engine, description, &reason);
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

/* The former definition's probe says so once. */
static bool is_one_definition_too_many(struct probe *former, const struct match *match)
{
	char description[512];

	if (former->definitions < DEFINED_MAX)
		return false;
	match_describe(match, description, sizeof(description));
	if (former->definitions++ == DEFINED_MAX)
		session_note(former->session, NOTE_WARNING,
		             "%s was defined anew %u times since the trace began; what is defined from now on is not traced",
		             description, DEFINED_MAX);
	former->definitions = DEFINED_MAX + 1;
	return true;
}

void selection_arm_again(struct probe *former, const struct match *match)
{
	struct selection *selection = former->session->selection;
	char reason_bytes[256], description[512];
	struct text reason = {.bytes = reason_bytes, .size = sizeof(reason_bytes)};
	struct arming_one one = {
		.match = match, .description = description, .reason = &reason, .when = "defined anew, armed", .late = true};
	int failed = 0;

	if (is_served(former, match) || is_one_definition_too_many(former, match))
		return;
	match_describe(match, description, sizeof(description));
	one.engine = choose(selection, former->selector, match, true, description, &reason);
	/* That ran Ruby code. */
	former = probe_table_find(&selection->probes, match->owner, match->name);
	if (!one.engine || selection->disabled || is_served(former, match))
		return;
	debug(selection->session, DEBUG_SELECT, "%s: defined anew; ref %u stays with the former definition", description,
	      former->ref);
	one.probe = selection_add_probe(selection, match, former->selector);
	one.probe->former = former;
	one.probe->definitions = former->definitions + 1;
	one.probe->roles = former->roles;
	one.probe->only_kind_of = former->only_kind_of;
	/* Definitions with one C function share what observes it; both probes would mean each call. */
	engine_patch.disarm(former);
	rb_protect(arm_one_protected, (VALUE)&one, &failed);
	if (failed) {
		struct error err;

		selection_error(&err);
		session_note(selection->session, NOTE_WARNING, "%s defined anew, is not traced any more: %s", description,
		             err.text);
	}
}
