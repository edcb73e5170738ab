#ifndef RBPROBE_OTHER_RUBY_H
#define RBPROBE_OTHER_RUBY_H

#include "tracer/process/target.h"

#include <stddef.h>

/*
 * The name of the Ruby that is not CRuby and that a process runs, "JRuby" or "TruffleRuby"; NULL: none, or not known. Its
 * maps have been read.
 */
const char *other_ruby(const struct target *target);

/* The same, of the path of its program and of its command line: words that end with a NUL each, size bytes, and one NUL more. */
const char *other_ruby_of(const char *program, const char *words, size_t size);

/* A sentence on what can look into it instead, for one of these names. */
const char *other_ruby_remedy(const char *name);

#endif
