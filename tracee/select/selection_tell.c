/* What the client is told of a method. See selection_parts.h. Context: job, GVL held, under rb_protect. */

#include "tracee/select/selection_parts.h"

#include "tracee/observe/expression.h"
#include "tracee/session/session.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/class_name.h"
#include "tracee/vm/line_code.h"
#include "tracee/vm/string_slice.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ARMED_NAMED_MAX 20u
#define LABEL_SIZE_MAX 1024u /* bytes that the client is told of an expression */

/* What is said of a method in METHOD and in MATCH records alike. */
struct method_names {
	char class_bytes[NAME_SIZE_MAX];
	struct text class_text;
	char separator;
	struct slice name, file;
	int32_t line;
	VALUE keep[2]; /* Strings that name and file point into */
};

/* owner: nil for code that is no method's. */
static void name_owner(struct method_names *names, VALUE owner, VALUE name)
{
	names->class_text = (struct text){.bytes = names->class_bytes, .size = sizeof(names->class_bytes)};
	if (!NIL_P(owner))
		names->separator = class_name_add_owner(&names->class_text, owner);
	names->keep[0] = rb_sym2str(name);
	names->name = string_slice_of_name(names->keep[0]);
}

static void name_method(struct method_names *names, VALUE owner, VALUE name, VALUE method)
{
	VALUE location = NIL_P(method) ? Qnil : builtin_call0(BUILTIN_UNBOUND_METHOD_SOURCE_LOCATION, method);

	name_owner(names, owner, name);
	names->file = (struct slice){NULL, 0};
	names->line = 0;
	if (RB_TYPE_P(location, T_ARRAY) && RB_TYPE_P(rb_ary_entry(location, 0), T_STRING)) {
		names->keep[1] = rb_ary_entry(location, 0);
		names->file = string_slice_of_name(names->keep[1]);
		names->line = NUM2INT(rb_ary_entry(location, 1));
	}
}

static uint32_t label_list(const struct expression_list *list, struct slice labels[VALUES_MAX])
{
	uint32_t count = list ? list->count : 0;

	for (uint32_t i = 0; i < count; i++)
		labels[i] = (struct slice){list->items[i].label, strnlen(list->items[i].label, LABEL_SIZE_MAX)};
	return count;
}

void selection_send_method(const struct probe *probe, const struct engine *engine, VALUE method)
{
	struct method_names names;
	struct slice labels[VALUES_MAX], locals[VALUES_MAX];
	struct record record = {.kind = RECORD_METHOD};

	name_method(&names, probe->owner, probe->callee, method);
	record.method = (struct record_method){.ref = probe->ref,
	                                       .class_name = {names.class_text.bytes, names.class_text.used},
	                                       .separator = names.separator,
	                                       .method_name = names.name,
	                                       .file = names.file,
	                                       .line = names.line,
	                                       .engine = engine->id,
	                                       .label_count = label_list(probe->expressions, labels),
	                                       .labels = labels,
	                                       .local_count = label_list(probe->ends, locals),
	                                       .locals = locals,
	                                       .flags = probe->always ? METHOD_ALWAYS : 0};
	session_send(probe->session, &record);
	RB_GC_GUARD(names.keep[0]);
	RB_GC_GUARD(names.keep[1]);
}

void selection_send_line(const struct probe *probe, VALUE file)
{
	const struct selector *selector = &probe->session->selection->selectors[probe->selector];
	struct method_names names = {.separator = 0};
	struct slice labels[VALUES_MAX];
	struct record record = {.kind = RECORD_METHOD};
	char place[NAME_SIZE_MAX];

	name_owner(&names, probe->owner, probe->callee);
	selector_write(selector, place, sizeof(place));
	record.method = (struct record_method){.ref = probe->ref,
	                                       .class_name = {names.class_text.bytes, names.class_text.used},
	                                       .separator = names.separator,
	                                       .method_name = names.name,
	                                       .file = string_slice_of_name(file),
	                                       .line = (int32_t)selector_line(selector),
	                                       .engine = ENGINE_TARGET,
	                                       .label_count = label_list(probe->expressions, labels),
	                                       .labels = labels,
	                                       .place = {place, strlen(place)}};
	session_send(probe->session, &record);
	RB_GC_GUARD(names.keep[0]);
	RB_GC_GUARD(file);
}

void selection_send_line_match(struct session *session, uint32_t selector, const struct line_hit *hit)
{
	struct method_names names = {.separator = 0};
	struct record record = {.kind = RECORD_MATCH};
	char bytes[512];
	struct text reason = {.bytes = bytes, .size = sizeof(bytes)};

	name_owner(&names, hit->owner, hit->name);
	text_append_cstr(&reason, hit->once ? "runs once" : "");
	for (long i = 0; i < RARRAY_LEN(hit->names); i++) {
		VALUE name = rb_sym2str(rb_ary_entry(hit->names, i));

		text_append_cstr(&reason, i ? ", " : hit->once ? "; local variables: " : "local variables: ");
		text_append(&reason, RSTRING_PTR(name), (size_t)RSTRING_LEN(name));
	}
	record.match = (struct record_match){.selector = selector,
	                                     .class_name = {names.class_text.bytes, names.class_text.used},
	                                     .separator = names.separator,
	                                     .method_name = names.name,
	                                     .file = string_slice_of_name(hit->file),
	                                     .line = (int32_t)hit->line,
	                                     .engine = ENGINE_TARGET,
	                                     .reason = {reason.bytes, reason.used}};
	session_send(session, &record);
	RB_GC_GUARD(names.keep[0]);
}

void selection_send_match(struct session *session, enum engine_id wanted, const struct match *match, uint32_t selector)
{
	struct method_names names;
	char reason_bytes[256];
	struct text reason = {.bytes = reason_bytes, .size = sizeof(reason_bytes)};
	const struct engine *engine = engine_choose(wanted, match, &reason);
	struct record record = {.kind = RECORD_MATCH};

	name_method(&names, match->owner, match->name, match->method);
	record.match = (struct record_match){.selector = selector,
	                                     .class_name = {names.class_text.bytes, names.class_text.used},
	                                     .separator = names.separator,
	                                     .method_name = names.name,
	                                     .file = names.file,
	                                     .line = names.line,
	                                     .engine = engine ? engine->id : ENGINE_NONE,
	                                     .reason = {reason.bytes, reason.used}};
	session_send(session, &record);
	RB_GC_GUARD(names.keep[0]);
	RB_GC_GUARD(names.keep[1]);
}

bool selection_line_is_clear(const struct selector *selector, const struct selected_line *line, struct error *err)
{
	char name[512], bytes[512];
	struct text files = {.bytes = bytes, .size = sizeof(bytes)};

	if (RARRAY_LEN(line->files) < 2)
		return true;
	for (long i = 0; i < RARRAY_LEN(line->files); i++) {
		VALUE file = rb_ary_entry(line->files, i);

		text_append_cstr(&files, i ? ", " : "");
		text_append(&files, RSTRING_PTR(file), (size_t)RSTRING_LEN(file));
	}
	selector_write(selector, name, sizeof(name));
	error_set(err, -EINVAL, "%s may be a line of several files; write more of the path: %.*s%s", name, (int)files.used,
	          files.bytes, RARRAY_LEN(line->files) == LINE_FILES_MAX ? ", perhaps others" : "");
	return false;
}

static void name_near_lines(char *text, size_t size, uint32_t before, uint32_t after)
{
	if (before && after)
		snprintf(text, size, "lines near it that have: %u, %u", before, after);
	else if (before || after)
		snprintf(text, size, "the nearest line that has: %u", before ? before : after);
	else
		snprintf(text, size, "no other line has, either");
}

void selection_tell_of_loaded_file(struct session *session, const struct selector *selector, const struct line_look *look,
                                   VALUE file)
{
	char name[512], near_lines[64];

	selector_write(selector, name, sizeof(name));
	name_near_lines(near_lines, sizeof(near_lines), look->before, look->after);
	session_note(session, NOTE_WARNING, "%s: %.*s is loaded now, and line %u of it has no code of its own; %s", name,
	             (int)RSTRING_LEN(file), RSTRING_PTR(file), look->line, near_lines);
	RB_GC_GUARD(file);
}

void selection_tell_of_no_line(struct session *session, const struct selector *selector, const struct selected_line *line,
                               const char *later)
{
	char name[512], near_lines[64];
	VALUE file = rb_ary_entry(line->files, 0);

	selector_write(selector, name, sizeof(name));
	if (NIL_P(file) || (!line->before && !line->after && !line->silent[0])) {
		session_note(session, NOTE_WARNING, "%s: no code is from a file of that name so far%s", name, later);
		return;
	}
	if (line->silent[0]) {
		session_note(session, NOTE_WARNING,
		             "%s: Ruby reports no line of %s, which is there (a method without code, or written as "
		             "`def x = ...`); select the method itself",
		             name, line->silent);
		return;
	}
	name_near_lines(near_lines, sizeof(near_lines), line->before, line->after);
	session_note(
		session, NOTE_WARNING,
		"%s: line %u of %.*s has no code of its own in a method or block (what runs while the file is loaded, as the "
		"body of a class, is over); %s",
		name, line->line, (int)RSTRING_LEN(file), RSTRING_PTR(file), near_lines);
	RB_GC_GUARD(file);
}

bool selection_names_armed(struct selection *selection, enum engine_id engine)
{
	if (selection->armed_named == ARMED_NAMED_MAX) {
		selection->armed_more[engine]++;
		return false;
	}
	selection->armed_named++;
	return true;
}

void selection_tell_more_armed(const struct selection *selection)
{
	for (enum engine_id engine = ENGINE_AUTO; engine < ENGINE_COUNT; engine++)
		if (selection->armed_more[engine])
			session_note(selection->session, NOTE_INFO, "%u more armed, engine %s", selection->armed_more[engine],
			             engine_name(engine));
}
