/*
 * Selectors that are lines of files: which code has them, and arming it. See selection_parts.h. Context: job, and whatever
 * defines methods; GVL held, under rb_protect.
 *
 * The code is that of the methods of all modules, with what is written in them. Where none has the line, it is looked for in
 * what threads are running outside of methods, such as a program's top level, and in the blocks and method objects that somebody
 * keeps. What else runs once, while a file is loaded, is over.
 */

#include "tracee/select/selection_parts.h"

#include "tracee/engine/engine_line.h"
#include "tracee/observe/decide.h"
#include "tracee/observe/expression.h"
#include "tracee/select/selector.h"
#include "tracee/session/debug.h"
#include "tracee/session/session.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/class_name.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/gvl_slice.h"
#include "tracee/vm/line_code.h"
#include "tracee/vm/method_definition.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES_MAX 10000 /* of a thread */

/* The elements of a hit. */
enum { HIT_CODE, HIT_NAMES, HIT_OWNER, HIT_NAME, HIT_FILE };

/* Lines that are looked for together. */
struct wanted {
	const struct selector *selectors;
	struct selected_line *lines;
	uint32_t count;
};

/* Code that may have one, and whose it is. */
struct candidate {
	VALUE code;
	VALUE owner, name; /* of its method; nil: of none */
	VALUE block;       /* a Proc, which knows the variables around it; or nil */
	bool once;         /* it is running, and does not run again */
};

/* --- Looking */

static bool ends_with(VALUE path, struct slice end)
{
	size_t size = NIL_P(path) ? 0 : (size_t)RSTRING_LEN(path);
	size_t before = size - end.size;

	return size >= end.size && memcmp(RSTRING_PTR(path) + before, end.bytes, end.size) == 0 &&
	       (before == 0 || RSTRING_PTR(path)[before - 1] == '/');
}

/* The file that the code is from, if the selector may mean it; else nil. */
static VALUE file_of(const struct selector *selector, VALUE code)
{
	VALUE path = line_code_path(code), absolute = line_code_absolute_path(code);

	if (!ends_with(path, selector->class_pattern) && !ends_with(absolute, selector->class_pattern))
		return Qnil;
	return NIL_P(absolute) ? path : absolute;
}

static bool has_file(const struct selected_line *line, VALUE file)
{
	for (long i = 0; i < RARRAY_LEN(line->files); i++)
		if (rb_str_cmp(rb_ary_entry(line->files, i), file) == 0)
			return true;
	return false;
}

struct keeping {
	struct selected_line *line;
	const struct candidate *candidate;
	VALUE file;
};

static void keep(struct line_look *look, VALUE code, VALUE names)
{
	const struct keeping *keeping = look->argument;
	VALUE hits = keeping->line->hits, name = keeping->candidate->name;

	for (long i = 0; i < RARRAY_LEN(hits); i++) {
		VALUE other = rb_ary_entry(rb_ary_entry(hits, i), HIT_CODE);

		if (line_code_is_same(code, other) || method_definition_encloses(other, code))
			return;
	}
	if (NIL_P(name))
		name = rb_to_symbol(builtin_call0(BUILTIN_ISEQ_LABEL, code));
	rb_ary_push(hits, rb_ary_new_from_args(5, code, names, keeping->candidate->owner, name, keeping->file));
}

static VALUE variables_around(VALUE block)
{
	return builtin_call0(BUILTIN_BINDING_LOCAL_VARIABLES, builtin_call0(BUILTIN_PROC_BINDING, block));
}

/* Nil where the block has none, or keeps them to itself, as that of a Ractor. */
static VALUE outer_names(VALUE block)
{
	VALUE names = Qnil;
	int failed = 0;

	if (NIL_P(block))
		return Qnil;
	names = rb_protect(variables_around, block, &failed);
	if (failed)
		rb_set_errinfo(Qnil);
	return failed ? Qnil : names;
}

/* A method that is there, and has no line. */
static void note_silent(struct selected_line *line, const struct candidate *candidate)
{
	memset(line->silent, 0, sizeof(line->silent));
	class_name_add_method(&(struct text){.bytes = line->silent, .size = sizeof(line->silent) - 1}, candidate->owner,
	                      candidate->name);
}

static void consider(const struct wanted *wanted, const struct candidate *candidate)
{
	for (uint32_t i = 0; i < wanted->count; i++) {
		struct selected_line *line = &wanted->lines[i];
		struct keeping keeping = {.line = line, .candidate = candidate};
		struct line_look look = {.line = line->line, .found = keep, .argument = &keeping};

		if (!line->line)
			continue;
		keeping.file = file_of(&wanted->selectors[i], candidate->code);
		if (NIL_P(keeping.file))
			continue;
		if (RARRAY_LEN(line->files) < LINE_FILES_MAX && !has_file(line, keeping.file))
			rb_ary_push(line->files, keeping.file);
		look.before = line->before;
		look.after = line->after;
		if (candidate->once)
			line_code_look_once(&look, candidate->code);
		else
			line_code_look(&look, candidate->code, outer_names(candidate->block));
		if (candidate->once)
			continue;
		line->before = look.before;
		line->after = look.after;
		if (look.silent && !NIL_P(candidate->owner))
			note_silent(line, candidate);
	}
}

static void consider_method(const struct match *match, void *argument)
{
	struct candidate candidate = {.owner = match->owner, .name = match->name, .block = Qnil};

	candidate.code = method_definition_instructions(match->method);
	if (!NIL_P(candidate.code))
		consider(argument, &candidate);
	RB_GC_GUARD(candidate.code);
}

static VALUE collect(RB_BLOCK_CALL_FUNC_ARGLIST(object, objects))
{
	(void)argc;
	(void)argv;
	(void)blockarg;
	return rb_ary_push(objects, object);
}

/* Blocks and methods that somebody keeps and no module has. */
static void consider_objects(const struct wanted *wanted, VALUE class)
{
	VALUE objects = rb_ary_new();

	builtin_iterate(BUILTIN_EACH_OBJECT, rb_path2class("ObjectSpace"), 1, &class, collect, objects);
	for (long i = 0; i < RARRAY_LEN(objects); i++) {
		VALUE object = rb_ary_entry(objects, i);
		struct candidate candidate = {.owner = Qnil, .name = Qnil, .block = class == rb_cProc ? object : Qnil};

		gvl_slice_pass_current();
		candidate.code = method_definition_instructions(object);
		if (NIL_P(candidate.code))
			continue;
		consider(wanted, &candidate);
		RB_GC_GUARD(candidate.code);
	}
	RB_GC_GUARD(objects);
}

struct frame_look {
	const struct wanted *wanted;
	VALUE frame;
	VALUE any; /* InstructionSequence */
};

static VALUE consider_frame(VALUE argument)
{
	const struct frame_look *look = (const struct frame_look *)argument;
	struct candidate candidate = {.code = compat_frame_instructions(look->frame, look->any),
	                              .owner = Qnil,
	                              .name = Qnil,
	                              .block = Qnil,
	                              .once = true};

	if (NIL_P(candidate.code))
		return Qnil;
	consider(look->wanted, &candidate);
	RB_GC_GUARD(candidate.code);
	return Qnil;
}

/* What a thread is running, the outermost first: a block belongs to what it is written in. */
static void consider_frames(const struct wanted *wanted, VALUE thread, VALUE any)
{
	VALUE memory, line_memory;
	VALUE *frames = ALLOCV_N(VALUE, memory, FRAMES_MAX);
	int *lines = ALLOCV_N(int, line_memory, FRAMES_MAX);
	int count = compat_thread_frames(thread, FRAMES_MAX, frames, lines);

	while (count-- > 0) {
		struct frame_look look = {.wanted = wanted, .frame = frames[count], .any = any};
		int failed = 0;

		/* The VM has frames of its own, whose code is none to look at. */
		rb_protect(consider_frame, (VALUE)&look, &failed);
		if (failed)
			rb_set_errinfo(Qnil);
	}
	ALLOCV_END(memory);
	ALLOCV_END(line_memory);
}

static void consider_threads(const struct wanted *wanted)
{
	VALUE threads = builtin_call0(BUILTIN_THREAD_LIST, rb_cThread);
	VALUE any = method_definition_instructions(builtin_lambda("-> { }"));

	for (long i = 0; i < RARRAY_LEN(threads); i++) {
		gvl_slice_pass_current();
		consider_frames(wanted, rb_ary_entry(threads, i), any);
	}
	RB_GC_GUARD(threads);
	RB_GC_GUARD(any);
}

static bool all_found(const struct wanted *wanted)
{
	for (uint32_t i = 0; i < wanted->count; i++)
		if (wanted->lines[i].line && RARRAY_LEN(wanted->lines[i].hits) == 0)
			return false;
	return true;
}

static void look(const struct wanted *wanted)
{
	static const struct selector everything;
	const VALUE *const classes[] = {&rb_cProc, &rb_cMethod, &rb_cUnboundMethod};

	selector_each_match(&everything, consider_method, (void *)wanted);
	if (!all_found(wanted))
		consider_threads(wanted);
	for (size_t i = 0; i < sizeof(classes) / sizeof(*classes) && !all_found(wanted); i++)
		consider_objects(wanted, *classes[i]);
}

static struct wanted wanted_of(const struct selection *selection)
{
	return (struct wanted){selection->selectors, selection->lines, selection->selector_count};
}

void lines_begin(struct selection *selection)
{
	for (uint32_t i = 0; selection->lines && i < selection->selector_count; i++) {
		selection->lines[i].files = rb_ary_new();
		selection->lines[i].hits = rb_ary_new();
	}
}

int lines_look(struct selection *selection, struct error *err)
{
	struct wanted wanted = wanted_of(selection);

	if (!selection->lines)
		return 0;
	if (selection->session->manner == CALLS_COUNTED)
		return error_set(err, -EINVAL, "only calls are counted, and a line is none");
	if (selection->session->manner != CALLS_STREAMED)
		return error_set(err, -EINVAL, "a line has no end, so no condition can be about its end");
	look(&wanted);
	for (uint32_t i = 0; i < selection->selector_count; i++)
		if (selection->lines[i].line && !selection_line_is_clear(&selection->selectors[i], &selection->lines[i], err))
			return err->code;
	return 0;
}

/* Code that is no method's and no block: its label is `<main>`, `<top (required)>` or `<class:Order>`. */
static bool runs_once(VALUE owner, VALUE name)
{
	VALUE label = rb_sym2str(name);

	return NIL_P(owner) && RSTRING_LEN(label) > 0 && RSTRING_PTR(label)[0] == '<';
}

/* --- Arming */

static bool is_armed(const struct selection *selection, uint32_t selector, VALUE code)
{
	for (const struct probe *probe = selection->probes.first_made; probe; probe = probe->next_made) {
		VALUE other = engine_line_code(probe);

		if (!NIL_P(other) && probe->selector == selector &&
		    (line_code_is_same(code, other) || method_definition_encloses(other, code)))
			return true;
	}
	return false;
}

static bool arm(struct selection *selection, uint32_t selector, VALUE hit, bool late)
{
	struct session *session = selection->session;
	VALUE code = rb_ary_entry(hit, HIT_CODE), names = rb_ary_entry(hit, HIT_NAMES), owner = rb_ary_entry(hit, HIT_OWNER);
	VALUE name = rb_ary_entry(hit, HIT_NAME), file = rb_ary_entry(hit, HIT_FILE);
	char bytes[512], written[512];
	struct text method = {.bytes = bytes, .size = sizeof(bytes)};
	VALUE scope = NIL_P(owner) ? rb_cObject : owner;
	struct probe *probe;
	struct error err;

	if (selection->disabled || is_armed(selection, selector, code))
		return false;
	selector_write(&selection->selectors[selector], written, sizeof(written));
	if (rb_str_cmp(file, rb_ary_entry(selection->lines[selector].files, 0)) != 0) {
		session_note(session, NOTE_WARNING, "%s: %.*s, which has that name, too, is not traced", written,
		             (int)RSTRING_LEN(file), RSTRING_PTR(file));
		return false;
	}
	selection_found(selection, selector);
	probe = probe_table_add_line(&selection->probes, owner, name);
	if (!probe)
		rb_memerror();
	probe->session = session;
	probe->selector = selector;
	probe->roles = 1u << ROLE_SHOWN;
	probe->expressions = expression_list_new_for_line(&selection->selectors[selector], names, scope,
	                                                  session->options.flags & TRACE_LOCALS);
	probe->condition = decider_condition_for_line(session, names, scope);
	selection_send_line(probe, file);
	probe->told = true;
	if (NIL_P(owner))
		text_append(&method, RSTRING_PTR(rb_sym2str(name)), (size_t)RSTRING_LEN(rb_sym2str(name)));
	else
		class_name_add_method(&method, owner, name);
	if (runs_once(owner, name))
		session_note(session, NOTE_WARNING, "%s is outside of methods and blocks, in code that runs once: it may be over",
		             written);
	session_note(session, NOTE_INFO, "%s %s in %.*s", written, late ? "defined now, armed" : "armed", (int)method.used,
	             bytes);
	if (engine_line_arm(probe, code, selection->lines[selector].line, &err) == 0) {
		debug(session, DEBUG_ENGINE, "%s: armed in %.*s, ref %u", written, (int)method.used, bytes, probe->ref);
		return true;
	}
	if (err.code != -ENOTSUP)
		rb_raise(rb_eRuntimeError, "%s", err.text);
	session_note(session, NOTE_WARNING, "%s cannot be traced in %.*s: %s", written, (int)method.used, bytes, err.text);
	return false;
}

/* Arms what was found of a selector. */
static uint64_t arm_hits(struct selection *selection, uint32_t selector, bool late)
{
	struct selected_line *line = &selection->lines[selector];
	VALUE hits = line->hits;
	uint64_t armed = 0;

	/* Others may find more meanwhile. */
	line->hits = rb_ary_new();
	for (long i = 0; i < RARRAY_LEN(hits); i++)
		armed += arm(selection, selector, rb_ary_entry(hits, i), late);
	RB_GC_GUARD(hits);
	return armed;
}

uint64_t lines_arm(struct selection *selection)
{
	uint64_t armed = 0;

	for (uint32_t i = 0; selection->lines && i < selection->selector_count; i++) {
		const struct selected_line *line = &selection->lines[i];

		if (!line->line)
			continue;
		if (RARRAY_LEN(line->hits) == 0)
			selection_tell_of_no_line(selection->session, &selection->selectors[i], line,
			                          "; it will be traced when one is defined");
		armed += arm_hits(selection, i, false);
	}
	return armed;
}

struct addition {
	struct selection *selection;
	uint32_t selector;
};

static VALUE arm_added(VALUE argument)
{
	const struct addition *addition = (const struct addition *)argument;

	arm_hits(addition->selection, addition->selector, true);
	return Qnil;
}

void lines_method_added(struct selection *selection, VALUE owner, VALUE name, VALUE method)
{
	struct match match = {.owner = owner, .name = name, .method = method};
	struct wanted wanted = wanted_of(selection);

	if (!selection->lines || NIL_P(selection->lines[0].files))
		return;
	consider_method(&match, &wanted);
	for (uint32_t i = 0; !selection->looking && i < selection->selector_count; i++) {
		struct addition addition = {selection, i};
		int failed = 0;

		if (!selection->lines[i].line || RARRAY_LEN(selection->lines[i].hits) == 0)
			continue;
		rb_protect(arm_added, (VALUE)&addition, &failed);
		if (failed) {
			struct error err;
			char written[512];

			selection_error(&err);
			selector_write(&selection->selectors[i], written, sizeof(written));
			session_note(selection->session, NOTE_WARNING, "%s, defined now, is not traced: %s", written, err.text);
		}
	}
}

/* --- Listing */

uint64_t lines_list(struct session *session, const struct selector *selector, uint32_t index)
{
	struct selected_line line = {.line = selector_line(selector), .files = rb_ary_new(), .hits = rb_ary_new()};
	struct wanted wanted = {selector, &line, 1};

	look(&wanted);
	if (!RARRAY_LEN(line.hits))
		selection_tell_of_no_line(session, selector, &line, "");
	for (long i = 0; i < RARRAY_LEN(line.hits); i++) {
		VALUE hit = rb_ary_entry(line.hits, i);
		struct line_hit one = {.code = rb_ary_entry(hit, HIT_CODE),
		                       .names = rb_ary_entry(hit, HIT_NAMES),
		                       .owner = rb_ary_entry(hit, HIT_OWNER),
		                       .name = rb_ary_entry(hit, HIT_NAME),
		                       .file = rb_ary_entry(hit, HIT_FILE),
		                       .line = line.line,
		                       .once = runs_once(rb_ary_entry(hit, HIT_OWNER), rb_ary_entry(hit, HIT_NAME))};

		selection_send_line_match(session, index, &one);
		RB_GC_GUARD(hit);
	}
	RB_GC_GUARD(line.files);
	RB_GC_GUARD(line.hits);
	return (uint64_t)RARRAY_LEN(line.hits);
}

/* --- Making and freeing */

bool lines_make(struct selection *selection)
{
	bool any = false;

	for (uint32_t i = 0; i < selection->selector_count; i++)
		any = any || selector_line(&selection->selectors[i]);
	if (!any)
		return true;
	selection->lines = calloc(selection->selector_count, sizeof(*selection->lines));
	for (uint32_t i = 0; selection->lines && i < selection->selector_count; i++)
		selection->lines[i] =
			(struct selected_line){.line = selector_line(&selection->selectors[i]), .files = Qnil, .hits = Qnil};
	return selection->lines != NULL;
}

void lines_free(struct selection *selection)
{
	free(selection->lines);
	selection->lines = NULL;
}

void lines_mark(const struct selection *selection)
{
	for (uint32_t i = 0; selection->lines && i < selection->selector_count; i++) {
		rb_gc_mark(selection->lines[i].files);
		rb_gc_mark(selection->lines[i].hits);
	}
}
