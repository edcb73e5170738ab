#ifndef RBPROBE_RUBY_WORDS_H
#define RBPROBE_RUBY_WORDS_H

#include "proto/slice.h"

#include <stdbool.h>
#include <stddef.h>

/* Words in Ruby code, as far as bytes say it. Any context. */

/* Whether the bytes are one word, which begins with no digit. */
bool ruby_is_word(const char *bytes, size_t size);
/* Whether the word is in the code, also within a string. */
bool ruby_mentions(struct slice source, const char *word, size_t size);
/* A parameter may have a reserved word's name (`def m(if:)`); code cannot read such a one as a variable. */
bool ruby_is_reserved(const char *bytes, size_t size);

#endif
