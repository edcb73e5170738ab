/*
 * Arming what selection_lines.c finds, and what comes later: methods that are defined, and code that is compiled (by require,
 * load, eval, ...; code_compiled.c hears of it). See selection_lines.h. Context: job, and whatever defines methods; compiling
 * code: event. GVL held, under rb_protect.
 */

#include "tracee/select/selection_lines.h"

#include "proto/clock.h"
#include "tracee/engine/engine_line.h"
#include "tracee/observe/decide.h"
#include "tracee/observe/expression.h"
#include "tracee/select/method_added.h"
#include "tracee/session/debug.h"
#include "tracee/session/session.h"
#include "tracee/vm/class_name.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/method_definition.h"

#include <errno.h>
#include <string.h>

#define COMPILED_MAX 1000u /* pieces of code that are armed for one selector as they are compiled or defined */

enum when { AT_ONCE, DEFINED, COMPILED };

/* The probe that has the code's events, also where it is within other code; or NULL. */
static struct probe *probe_for(const struct selection *selection, uint32_t selector, VALUE code)
{
	for (struct probe *probe = selection->probes.first_made; probe; probe = probe->next_made) {
		VALUE other = engine_line_code(probe);

		if (!NIL_P(other) && probe->selector == selector &&
		    (line_code_is_same(code, other) || (!engine_line_is_once(probe) && method_definition_encloses(other, code))))
			return probe;
	}
	return NULL;
}

/* Whether the other selector is for the same line of the code, and their values are shown together. */
static bool is_twin(const struct selection *selection, uint32_t selector, uint32_t other, VALUE code)
{
	const struct selected_line *line = &selection->lines[other];
	VALUE file;

	if (line->line != selection->lines[selector].line ||
	    selection->selectors[selector].role != selection->selectors[other].role ||
	    selection_are_alternatives(&selection->selectors[selector], &selection->selectors[other]))
		return false;
	file = lines_file_of(&selection->selectors[other], code);
	return !NIL_P(file) && (RARRAY_LEN(line->files) == 0 || lines_is_same_file(file, rb_ary_entry(line->files, 0)));
}

static bool is_twins(const struct selection *selection, uint32_t selector, VALUE code)
{
	for (uint32_t i = 0; i < selection->selector_count; i++)
		if (i != selector && is_twin(selection, selector, i, code) && probe_for(selection, i, code))
			return true;
	return false;
}

static struct expression_list *expressions_of(const struct selection *selection, uint32_t selector, VALUE code, VALUE names,
                                              VALUE scope)
{
	struct slice all[EXPRESSIONS_MAX];
	struct selector together = {.expressions = all};

	for (uint32_t i = 0; i < selection->selector_count; i++)
		if (i == selector || is_twin(selection, selector, i, code))
			selection_join_expressions(&together, all, &selection->selectors[i]);
	return expression_list_new_for_line(&together, names, scope, selection->session->options.flags & TRACE_LOCALS);
}

/* A block whose probe knows no method, and which is a method's now: `define_method(:total) { ... }`. */
static bool becomes_method(const struct probe *probe, VALUE code, VALUE owner)
{
	return NIL_P(probe->owner) && !NIL_P(owner) && line_code_is_same(code, engine_line_code(probe));
}

/* Whether code of this file is not to be armed, since the selector means another file. */
static bool is_of_other_file(struct selection *selection, uint32_t selector, VALUE file, const char *written)
{
	struct selected_line *line = &selection->lines[selector];

	if (lines_is_same_file(file, rb_ary_entry(line->files, 0)))
		return false;
	line->other_told = true;
	session_note(selection->session, NOTE_WARNING, "%s: %.*s, which has that name, too, is not traced", written,
	             (int)RSTRING_LEN(file), RSTRING_PTR(file));
	return true;
}

/* Code that is compiled, or defined, again and again would fill the memory. */
static bool is_one_too_many(struct selection *selection, uint32_t selector, enum when when, const char *written)
{
	struct selected_line *line = &selection->lines[selector];

	if (when == AT_ONCE || ++line->compiled_count <= COMPILED_MAX)
		return false;
	if (line->compiled_count == COMPILED_MAX + 1)
		session_note(selection->session, NOTE_WARNING,
		             "%s was compiled %u times since the trace began; what is compiled from now on is not traced",
		             written, COMPILED_MAX);
	line->compiled_count = COMPILED_MAX + 1;
	return true;
}

static struct probe *make_probe(struct selection *selection, uint32_t selector, VALUE hit)
{
	VALUE owner = rb_ary_entry(hit, HIT_OWNER), names = rb_ary_entry(hit, HIT_NAMES);
	VALUE scope = NIL_P(owner) ? rb_cObject : owner;
	struct session *session = selection->session;
	struct probe *probe = probe_table_add_line(&selection->probes, owner, rb_ary_entry(hit, HIT_NAME));

	if (!probe)
		rb_memerror();
	probe->session = session;
	probe->selector = selector;
	probe->roles = 1u << ROLE_SHOWN;
	probe->outermost_of = selection_outermost_of(selection, selector);
	probe->expressions = expressions_of(selection, selector, rb_ary_entry(hit, HIT_CODE), names, scope);
	probe->condition = decider_condition_for_line(session, names, scope);
	selection_send_line(probe, rb_ary_entry(hit, HIT_FILE));
	probe->told = true;
	return probe;
}

static void tell(const struct selection *selection, const char *written, VALUE hit, enum when when)
{
	static const char *const words[] = {"armed", "defined now, armed", "loaded now, armed"};
	VALUE owner = rb_ary_entry(hit, HIT_OWNER), name = rb_ary_entry(hit, HIT_NAME);
	char bytes[512];
	struct text method = {.bytes = bytes, .size = sizeof(bytes)};

	if (NIL_P(owner))
		text_append(&method, RSTRING_PTR(rb_sym2str(name)), (size_t)RSTRING_LEN(rb_sym2str(name)));
	else
		class_name_add_method(&method, owner, name);
	if (when == AT_ONCE && lines_run_once(owner, name))
		session_note(selection->session, NOTE_WARNING,
		             "%s is outside of methods and blocks, in code that runs once: it may be over", written);
	session_note(selection->session, NOTE_INFO, "%s %s in %.*s", written, words[when], (int)method.used, bytes);
}

static bool arm(struct selection *selection, uint32_t selector, VALUE hit, enum when when)
{
	struct session *session = selection->session;
	VALUE code = rb_ary_entry(hit, HIT_CODE);
	struct probe *former, *probe;
	char written[512];
	struct error err;

	/* To look for the former probe takes the longer, the more there are. */
	if (selection->lines[selector].compiled_count > COMPILED_MAX)
		return false;
	former = probe_for(selection, selector, code);
	if (selection->disabled || (former && !becomes_method(former, code, rb_ary_entry(hit, HIT_OWNER))))
		return false;
	selector_write(&selection->selectors[selector], written, sizeof(written));
	if (is_of_other_file(selection, selector, rb_ary_entry(hit, HIT_FILE), written) ||
	    is_one_too_many(selection, selector, when, written))
		return false;
	selection_found(selection, selector);
	if (is_twins(selection, selector, code))
		return false;
	probe = make_probe(selection, selector, hit);
	tell(selection, written, hit, when);
	selection_announce_oneshot_lines(selection);
	if (former) {
		engine_line_hand_over(former, probe);
		return true;
	}
	if (engine_line_arm(probe, code, selection->lines[selector].line, RTEST(rb_ary_entry(hit, HIT_ONCE)), &err) == 0) {
		debug(session, DEBUG_ENGINE, "%s: armed, ref %u", written, probe->ref);
		return true;
	}
	if (err.code != -ENOTSUP)
		rb_raise(rb_eRuntimeError, "%s", err.text);
	session_note(session, NOTE_WARNING, "%s cannot be traced: %s", written, err.text);
	return false;
}

/* Arms what was found of a selector. */
static uint64_t arm_hits(struct selection *selection, uint32_t selector, enum when when)
{
	struct selected_line *line = &selection->lines[selector];
	VALUE hits = line->hits;
	uint64_t armed = 0;

	/* Others may find more meanwhile. */
	line->hits = rb_ary_new();
	for (long i = 0; i < RARRAY_LEN(hits); i++)
		armed += arm(selection, selector, rb_ary_entry(hits, i), when);
	RB_GC_GUARD(hits);
	return armed;
}

uint64_t lines_arm(struct selection *selection)
{
	uint64_t armed = 0;

	for (uint32_t i = 0; selection->lines && i < selection->selector_count; i++) {
		struct selected_line *line = &selection->lines[i];

		if (!line->line)
			continue;
		if (RARRAY_LEN(line->hits) == 0)
			selection_tell_of_no_line(selection->session, &selection->selectors[i], line,
			                          "; it will be traced when it is loaded");
		line->silent_told = line->silent[0] != '\0';
		armed += arm_hits(selection, i, AT_ONCE);
	}
	return armed;
}

/* --- What comes later */

struct addition {
	struct selection *selection;
	uint32_t selector;
	enum when when;
};

static VALUE arm_added(VALUE argument)
{
	const struct addition *addition = (const struct addition *)argument;

	arm_hits(addition->selection, addition->selector, addition->when);
	return Qnil;
}

/* Where it fails, the others are armed all the same. */
static void arm_later(struct selection *selection, uint32_t selector, enum when when)
{
	struct addition addition = {selection, selector, when};
	struct error err;
	char written[512];
	int failed = 0;

	if (RARRAY_LEN(selection->lines[selector].hits) == 0)
		return;
	rb_protect(arm_added, (VALUE)&addition, &failed);
	if (!failed)
		return;
	selection_error(&err);
	selector_write(&selection->selectors[selector], written, sizeof(written));
	session_note(selection->session, NOTE_WARNING, "%s, %s now, is not traced: %s", written,
	             when == DEFINED ? "defined" : "loaded", err.text);
}

void lines_method_added(struct selection *selection, VALUE owner, VALUE name, VALUE method)
{
	struct match match = {.owner = owner, .name = name, .method = method};
	struct lines_wanted wanted = lines_wanted_of(selection);

	if (!selection->lines || NIL_P(selection->lines[0].files))
		return;
	lines_consider_method(&match, &wanted);
	for (uint32_t i = 0; !selection->looking && i < selection->selector_count; i++) {
		struct selected_line *line = &selection->lines[i];

		if (!line->line)
			continue;
		arm_later(selection, i, DEFINED);
		if (line->silent[0] && !line->silent_told)
			selection_tell_of_no_line(selection->session, &selection->selectors[i], line, "");
		line->silent_told = line->silent[0] != '\0';
	}
}

/* Code that was compiled now. */
struct compiled {
	VALUE code;
	bool is_eval;
	struct selection *selection;
};

static void consider_compiled(const struct compiled *compiled, uint32_t selector)
{
	struct selection *selection = compiled->selection;
	struct selected_line *line = &selection->lines[selector];
	struct lines_keeping keeping = {.line = line, .owner = Qnil, .name = Qnil};
	struct line_look look = {.line = line->line, .found = lines_keep, .argument = &keeping};

	keeping.file = lines_file_of(&selection->selectors[selector], compiled->code);
	if (NIL_P(keeping.file))
		return;
	keeping.file = lines_note_file(line, keeping.file);
	if (line->other_told && !lines_is_same_file(keeping.file, rb_ary_entry(line->files, 0)))
		return;
	line_code_look_new(&look, compiled->code, compiled->is_eval, !method_added_is_told());
	if (selection->looking)
		return;
	arm_later(selection, selector, COMPILED);
	if (!keeping.found && !look.in_method && !compiled->is_eval && !line->no_code_told) {
		line->no_code_told = true;
		selection_tell_of_loaded_file(selection->session, &selection->selectors[selector], &look, keeping.file);
	}
	RB_GC_GUARD(keeping.file);
}

static VALUE consider_lines(VALUE argument)
{
	const struct compiled *compiled = (const struct compiled *)argument;
	const struct selection *selection = compiled->selection;

	for (uint32_t i = 0; i < selection->selector_count && !selection->disabled; i++)
		if (selection->lines[i].line && !NIL_P(selection->lines[i].files))
			consider_compiled(compiled, i);
	return Qnil;
}

static bool is_meant(const struct selection *selection, VALUE code)
{
	return selection && !selection->disabled && selection->lines &&
	       (lines_may_mean(selection, line_code_path(code)) || lines_may_mean(selection, line_code_absolute_path(code)));
}

static void overlook(struct selection *selection)
{
	if (!selection->lines_overlooked_told)
		session_note(selection->session, NOTE_WARNING,
		             "code of files with selected lines is compiled (by eval) faster than it can be looked at without "
		             "slowing the process: lines of it may not be traced");
	selection->lines_overlooked_told = true;
}

void selection_code_compiled(VALUE code, bool is_eval)
{
	struct compiled compiled = {.code = code, .is_eval = is_eval};
	uint64_t began_ns = clock_now_ns();
	bool may = selection_may_spend(began_ns) || !is_eval, any = false;

	for (struct session *session = session_hold_next(NULL); session; session = session_hold_next(session)) {
		int failed = 0;

		if (!is_meant(session->selection, code))
			continue;
		any = true;
		if (!may) {
			overlook(session->selection);
			continue;
		}
		compiled.selection = session->selection;
		arming_protect(consider_lines, (VALUE)&compiled, &failed);
		if (failed)
			exception_drop(Qnil);
		/* A job has disabled it in between, and did not see what was not armed yet. */
		if (session->selection->disabled)
			selection_disarm_all(session->selection);
	}
	if (any && may && is_eval)
		selection_spend(clock_now_ns() - began_ns);
	RB_GC_GUARD(code);
}
