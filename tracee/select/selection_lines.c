/*
 * Selectors that are lines of files: which code has them. See selection_lines.h. Context: job, and whatever defines methods; GVL
 * held, under rb_protect.
 *
 * The code is that of the methods of all modules, with what is written in them. Where none has the line, it is looked for in
 * what threads are running outside of methods, such as a program's top level, and in the blocks and method objects that somebody
 * keeps. What else runs once, while a file is loaded, is over.
 */

#define _GNU_SOURCE
#include "tracee/select/selection_lines.h"

#include "tracee/engine/engine_line.h"
#include "tracee/session/session.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/class_name.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/gvl_slice.h"
#include "tracee/vm/heap_list.h"
#include "tracee/vm/line_code.h"
#include "tracee/vm/method_definition.h"
#include "tracee/vm/string_slice.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES_MAX 10000 /* of a thread */

/* Code that may have one, and whose it is. */
struct candidate {
	VALUE code;
	VALUE owner, name; /* of its method; nil: of none */
	VALUE block;       /* a Proc, which knows the variables around it; or nil */
	bool once;         /* it is running, and does not run again */
};

/* --- Looking */

static bool path_ends_with(VALUE path, struct slice end)
{
	size_t size = NIL_P(path) ? 0 : (size_t)RSTRING_LEN(path);
	size_t before = size - end.size;

	return size >= end.size && memcmp(RSTRING_PTR(path) + before, end.bytes, end.size) == 0 &&
	       (before == 0 || RSTRING_PTR(path)[before - 1] == '/');
}

VALUE lines_file_of(const struct selector *selector, VALUE code)
{
	VALUE path = line_code_path(code), absolute = line_code_absolute_path(code);

	if (!path_ends_with(path, selector->class_pattern) && !path_ends_with(absolute, selector->class_pattern))
		return Qnil;
	return NIL_P(absolute) ? path : absolute;
}

static bool is_end_of(VALUE end, VALUE path)
{
	return RSTRING_LEN(end) > 0 && RSTRING_PTR(end)[0] != '/' && path_ends_with(path, string_slice(end));
}

bool lines_is_same_file(VALUE file, VALUE other)
{
	return rb_str_cmp(file, other) == 0 || is_end_of(file, other) || is_end_of(other, file);
}

VALUE lines_note_file(struct selected_line *line, VALUE file)
{
	for (long i = 0; i < RARRAY_LEN(line->files); i++) {
		VALUE other = rb_ary_entry(line->files, i);

		if (!lines_is_same_file(file, other))
			continue;
		if (RSTRING_LEN(other) < RSTRING_LEN(file))
			rb_ary_store(line->files, i, file);
		return rb_ary_entry(line->files, i);
	}
	if (RARRAY_LEN(line->files) < LINE_FILES_MAX)
		rb_ary_push(line->files, file);
	return file;
}

void lines_keep(struct line_look *look, VALUE code, VALUE names)
{
	struct lines_keeping *keeping = look->argument;
	VALUE hits = keeping->line->hits, name = keeping->name;

	keeping->found = true;
	for (long i = 0; i < RARRAY_LEN(hits); i++) {
		VALUE hit = rb_ary_entry(hits, i), other = rb_ary_entry(hit, HIT_CODE);

		if (line_code_is_same(code, other)) {
			/* A block that has become a method's. */
			if (NIL_P(rb_ary_entry(hit, HIT_OWNER))) {
				rb_ary_store(hit, HIT_OWNER, keeping->owner);
				rb_ary_store(hit, HIT_NAME, NIL_P(name) ? rb_ary_entry(hit, HIT_NAME) : name);
			}
			return;
		}
		if (!RTEST(rb_ary_entry(hit, HIT_ONCE)) && method_definition_encloses(other, code))
			return;
	}
	if (NIL_P(name))
		name = rb_to_symbol(builtin_call0(BUILTIN_ISEQ_LABEL, code));
	rb_ary_push(hits, rb_ary_new_from_args(6, code, names, keeping->owner, name, keeping->file, look->once ? Qtrue : Qfalse));
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
		exception_drop(Qnil);
	return failed ? Qnil : names;
}

/* A method that is there, and has no line. */
static void note_silent(struct selected_line *line, const struct candidate *candidate)
{
	memset(line->silent, 0, sizeof(line->silent));
	class_name_add_method(&(struct text){.bytes = line->silent, .size = sizeof(line->silent) - 1}, candidate->owner,
	                      candidate->name);
}

static void consider(const struct lines_wanted *wanted, const struct candidate *candidate)
{
	for (uint32_t i = 0; i < wanted->count; i++) {
		struct selected_line *line = &wanted->lines[i];
		struct lines_keeping keeping = {.line = line, .owner = candidate->owner, .name = candidate->name};
		struct line_look look = {.line = line->line, .found = lines_keep, .argument = &keeping};

		if (!line->line)
			continue;
		keeping.file = lines_file_of(&wanted->selectors[i], candidate->code);
		if (NIL_P(keeping.file))
			continue;
		keeping.file = lines_note_file(line, keeping.file);
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

void lines_consider_method(const struct match *match, void *argument)
{
	struct candidate candidate = {.owner = match->owner, .name = match->name, .block = Qnil};

	candidate.code = method_definition_instructions(match->method);
	if (!NIL_P(candidate.code))
		consider(argument, &candidate);
	RB_GC_GUARD(candidate.code);
}

/* Blocks and methods that somebody keeps and no module has. */
static void consider_objects(const struct lines_wanted *wanted, VALUE class)
{
	struct heap_list list;

	heap_list_begin(&list, class);
	while (heap_list_next(&list))
		gvl_slice_pass_current();
	for (long i = 0; i < RARRAY_LEN(list.objects); i++) {
		VALUE object = rb_ary_entry(list.objects, i);
		struct candidate candidate = {.owner = Qnil, .name = Qnil, .block = class == rb_cProc ? object : Qnil};

		gvl_slice_pass_current();
		candidate.code = method_definition_instructions(object);
		if (NIL_P(candidate.code))
			continue;
		consider(wanted, &candidate);
		RB_GC_GUARD(candidate.code);
	}
	RB_GC_GUARD(list.objects);
	RB_GC_GUARD(list.pages);
}

struct frame_look {
	const struct lines_wanted *wanted;
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
static void consider_frames(const struct lines_wanted *wanted, VALUE thread, VALUE any)
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
			exception_drop(Qnil);
	}
	ALLOCV_END(memory);
	ALLOCV_END(line_memory);
}

static void consider_threads(const struct lines_wanted *wanted)
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

static bool all_found(const struct lines_wanted *wanted)
{
	for (uint32_t i = 0; i < wanted->count; i++)
		if (wanted->lines[i].line && RARRAY_LEN(wanted->lines[i].hits) == 0)
			return false;
	return true;
}

static void look(const struct lines_wanted *wanted)
{
	static const struct selector everything;
	const VALUE *const classes[] = {&rb_cProc, &rb_cMethod, &rb_cUnboundMethod};

	selector_each_match(&everything, lines_consider_method, (void *)wanted);
	if (!all_found(wanted))
		consider_threads(wanted);
	for (size_t i = 0; i < sizeof(classes) / sizeof(*classes) && !all_found(wanted); i++)
		consider_objects(wanted, *classes[i]);
}

struct lines_wanted lines_wanted_of(const struct selection *selection)
{
	return (struct lines_wanted){selection->selectors, selection->lines, selection->selector_count};
}

void lines_begin(struct selection *selection)
{
	for (uint32_t i = 0; selection->lines && i < selection->selector_count; i++) {
		selection->lines[i].files = rb_ary_new();
		selection->lines[i].hits = rb_ary_new();
	}
	if (selection->lines)
		engine_line_prepare();
}

int lines_look(struct selection *selection, struct error *err)
{
	struct lines_wanted wanted = lines_wanted_of(selection);

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

bool lines_run_once(VALUE owner, VALUE name)
{
	VALUE label = rb_sym2str(name);

	return NIL_P(owner) && RSTRING_LEN(label) > 0 && RSTRING_PTR(label)[0] == '<';
}

/* --- Listing */

uint64_t lines_list(struct session *session, const struct selector *selector, uint32_t index)
{
	struct selected_line line = {.line = selector_line(selector), .files = rb_ary_new(), .hits = rb_ary_new()};
	struct lines_wanted wanted = {selector, &line, 1};

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
		                       .once = lines_run_once(rb_ary_entry(hit, HIT_OWNER), rb_ary_entry(hit, HIT_NAME))};

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

	for (uint32_t i = 0; i < selection->selector_count; i++) {
		if (!selector_line(&selection->selectors[i]))
			continue;
		any = true;
		if (!slice_set_add(&selection->line_files, slice_file_name(selection->selectors[i].class_pattern)))
			return false;
	}
	if (!any)
		return true;
	selection->lines = calloc(selection->selector_count, sizeof(*selection->lines));
	for (uint32_t i = 0; selection->lines && i < selection->selector_count; i++)
		selection->lines[i] =
			(struct selected_line){.line = selector_line(&selection->selectors[i]), .files = Qnil, .hits = Qnil};
	return selection->lines != NULL;
}

bool lines_may_mean(const struct selection *selection, VALUE path)
{
	return !NIL_P(path) && slice_set_has(&selection->line_files, slice_file_name(string_slice(path)));
}

void lines_free(struct selection *selection)
{
	free(selection->lines);
	slice_set_free(&selection->line_files);
	selection->lines = NULL;
}

void lines_mark(const struct selection *selection)
{
	for (uint32_t i = 0; selection->lines && i < selection->selector_count; i++) {
		rb_gc_mark(selection->lines[i].files);
		rb_gc_mark(selection->lines[i].hits);
	}
}
