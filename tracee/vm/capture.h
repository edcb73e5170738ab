#ifndef RBPROBE_CAPTURE_H
#define RBPROBE_CAPTURE_H

#include "proto/command.h"
#include "tracee/base/text.h"

#include <ruby.h>

/*
 * Values as text, in the manner of inspect but without calling any method of the application: what is not a core type is shown as
 * "#<Class>". Bounded in bytes, depth and length; a cut is shown as "...". Always valid UTF-8 without control characters.
 * Event context; allocates at most for the text of a big integer.
 */
void capture_value(struct text *text, VALUE value, const struct trace_options *options);

/* The same by calling inspect. Application code: may raise, block, switch threads. Under rb_protect. */
void capture_inspect(struct text *text, VALUE value, const struct trace_options *options);

/* A String as the text that it is, without quotes. */
void capture_string(struct text *text, VALUE string, const struct trace_options *options);

/* An exception's message without calling its methods: what it was raised with. capture_message.c. */
void capture_message(struct text *text, VALUE exception, const struct trace_options *options);

/* Bytes of any encoding, escaped as a double-quoted literal's inside, or bare: for names and messages. */
void capture_escaped(struct text *text, const char *bytes, size_t size, bool utf8);

#endif
