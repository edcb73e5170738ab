/* What the client is told of a method. See selection_parts.h. Context: job, GVL held, under rb_protect. */

#include "core.h"
#include "selection_parts.h"

#include "expression.h"
#include "naming.h"
#include "session.h"

#include <string.h>

#define LABEL_SIZE_MAX 1024u /* bytes that the client is told of an expression */

static struct slice slice_of(VALUE string)
{
	struct slice slice = {RSTRING_PTR(string), (size_t)RSTRING_LEN(string)};

	if (slice.size > NAME_SIZE_MAX)
		slice.size = NAME_SIZE_MAX;
	return slice;
}

/* What is said of a method in METHOD and in MATCH records alike. */
struct method_names {
	char class_bytes[NAME_SIZE_MAX];
	struct text class_text;
	char separator;
	struct slice name, file;
	uint32_t line;
	VALUE keep[2]; /* Strings that name and file point into */
};

static void name_method(struct method_names *names, VALUE owner, VALUE name, VALUE method)
{
	VALUE location = NIL_P(method) ? Qnil : core_call0(CORE_UNBOUND_METHOD_SOURCE_LOCATION, method);

	names->class_text = (struct text){.bytes = names->class_bytes, .size = sizeof(names->class_bytes)};
	names->separator = naming_owner(&names->class_text, owner);
	names->keep[0] = rb_sym2str(name);
	names->name = slice_of(names->keep[0]);
	names->file = (struct slice){NULL, 0};
	names->line = 0;
	if (RB_TYPE_P(location, T_ARRAY) && RB_TYPE_P(rb_ary_entry(location, 0), T_STRING)) {
		names->keep[1] = rb_ary_entry(location, 0);
		names->file = slice_of(names->keep[1]);
		names->line = NUM2UINT(rb_ary_entry(location, 1));
	}
}

void selection_send_method(const struct probe *probe, const struct engine *engine, VALUE method)
{
	struct method_names names;
	struct slice labels[VALUES_MAX];
	struct record record = {.kind = RECORD_METHOD};
	uint32_t count = probe->expressions ? probe->expressions->count : 0;

	name_method(&names, probe->owner, probe->callee, method);
	for (uint32_t i = 0; i < count; i++)
		labels[i] = (struct slice){probe->expressions->items[i].label,
		                           strnlen(probe->expressions->items[i].label, LABEL_SIZE_MAX)};
	record.method = (struct record_method){.ref = probe->ref,
	                                       .class_name = {names.class_text.bytes, names.class_text.used},
	                                       .separator = names.separator,
	                                       .method_name = names.name,
	                                       .file = names.file,
	                                       .line = names.line,
	                                       .engine = engine->id,
	                                       .label_count = count,
	                                       .labels = labels};
	session_send(probe->session, &record);
	RB_GC_GUARD(names.keep[0]);
	RB_GC_GUARD(names.keep[1]);
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
