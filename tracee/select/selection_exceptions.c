/* Whether a class that --raised or --raise names can match anything. See selection_parts.h. Context: job, under rb_protect. */

#include "tracee/select/selection_parts.h"

#include "tracee/session/session.h"
#include "tracee/vm/class_name.h"
#include "tracee/vm/constant.h"

#include <string.h>

static bool is_pattern(struct slice name)
{
	return memchr(name.bytes, '*', name.size) || memchr(name.bytes, '?', name.size) || memchr(name.bytes, '[', name.size) ||
	       memchr(name.bytes, '\\', name.size);
}

/* Exceptions are compared by the names of their classes. A constant may hold a class of another name: Errno::EWOULDBLOCK. */
static void check_module(struct session *session, const char *option, struct slice wanted, VALUE module)
{
	char bytes[NAME_SIZE_MAX];
	struct text name = {.bytes = bytes, .size = sizeof(bytes)};

	if (RB_TYPE_P(module, T_CLASS) && rb_class_inherited_p(module, rb_eException) != Qtrue &&
	    rb_class_inherited_p(rb_eException, module) != Qtrue) {
		session_note(session, NOTE_WARNING, "%s=%.*s matches nothing: that is no class of exceptions", option,
		             (int)wanted.size, wanted.bytes);
		return;
	}
	class_name_add(&name, module);
	if (name.used != wanted.size || memcmp(name.bytes, wanted.bytes, wanted.size) != 0)
		session_note(session, NOTE_WARNING, "%s=%.*s matches nothing: the name of that class is %.*s", option,
		             (int)wanted.size, wanted.bytes, (int)name.used, name.bytes);
}

static void check(struct session *session, const char *option, struct slice wanted)
{
	VALUE module;

	if (!wanted.size || is_pattern(wanted))
		return;
	module = constant_module(wanted);
	if (NIL_P(module))
		session_note(session, NOTE_WARNING, "%s=%.*s: there is no such class yet; it counts once it is loaded", option,
		             (int)wanted.size, wanted.bytes);
	else
		check_module(session, option, wanted, module);
}

void selection_check_exceptions(struct session *session, const struct trace_options *options)
{
	check(session, "--raised", options->conditions.raised);
	check(session, "--raise", options->marks.raise);
}
