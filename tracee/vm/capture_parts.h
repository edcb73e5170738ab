#ifndef RBPROBE_CAPTURE_PARTS_H
#define RBPROBE_CAPTURE_PARTS_H

#include "tracee/vm/capture.h"

/*
 * What capture*.c share. Event context, under rb_protect but for strings and what is no object. Where a method of Ruby's own is
 * called, another thread may run: nothing of the application's is being iterated over meanwhile.
 */

struct render {
	struct text *text;
	const struct trace_options *options;
	unsigned depth;
	unsigned shown; /* elements of what is at hand */
};

/* Any value. capture.c. */
void capture_render(struct render *render, VALUE value);

/* Whether it is a name that needs no quotes: letters, digits and "_", not beginning with a digit. */
bool capture_is_identifier(const char *name, size_t size);

/* For what has values inside: false where these are too deep to be shown. */
bool capture_descend(struct render *render, const struct render *outer);
/* As many of so many elements are shown. */
size_t capture_limit(const struct render *render, size_t size);
/* Goes before each element. */
void capture_separate(struct render *render);
/* Goes after the last one: "..." where there are more. */
void capture_rest(struct render *render, size_t size);
/* Goes behind the whole, where not all is shown: " (12,345 elements)". */
void capture_length(struct text *text, size_t size, const char *unit);

/* Text within double quotes. capture_escape.c. */
void capture_quoted(struct text *text, const char *bytes, size_t size, bool utf8);
bool capture_is_utf8(VALUE string);
/* A String's bytes, escaped, without quotes. */
void capture_bytes(struct text *text, VALUE string);

/* What holds values. capture_collections.c. */
void capture_array(struct render *outer, VALUE array);
void capture_hash(struct render *outer, VALUE hash);
void capture_struct(struct render *outer, VALUE value);
/* T_OBJECT: a Set of Ruby before 4.0, an exception, a record, or any other. */
void capture_instance(struct render *outer, VALUE object);
/* "#<Class>", with its instance variables where these are wanted. */
void capture_object(struct render *outer, VALUE object);
#ifdef HAVE_RB_SET_FOREACH
void capture_set(struct render *outer, VALUE set);
#endif

/* The id of a record, as Integer, String or nil; Qundef: it is none. capture_record.c. */
VALUE capture_record_id(VALUE object);

/* What has a form of its own. capture_core.c. */
void capture_regexp(struct render *render, VALUE regexp);
void capture_range(struct render *outer, VALUE range);
void capture_rational(struct render *outer, VALUE number);
void capture_complex(struct render *outer, VALUE number);
void capture_exception(struct render *outer, VALUE exception);
void capture_io(struct render *outer, VALUE io);
/* T_DATA. capture_data.c. */
void capture_data(struct render *outer, VALUE data);

struct capture_attempt {
	struct render *render;
	VALUE value;
};

/* show() has an attempt for its argument. What it has written when it raises is taken back: the value is a "#<Class>" then. */
void capture_try(struct render *render, VALUE value, VALUE (*show)(VALUE));
/* Whether a class of this name is among the value's. */
bool capture_is_kind_of_named(VALUE value, const char *name);
/* A Time, for capture_try(). capture_time.c. */
VALUE capture_show_time(VALUE attempt);
/* Any kind of Enumerator, likewise. capture_enumerator.c. */
VALUE capture_show_enumerator(VALUE attempt);
/* Whether these are typed data that C code calls so. */
bool capture_is_data(VALUE value, const char *type);
/* "#<Class" */
void capture_begin(struct text *text, VALUE value);

#endif
