#ifndef RBPROBE_RUBY_MSGPACK_H
#define RBPROBE_RUBY_MSGPACK_H

#include "tracee/base/msgpack_builder.h"
#include "tracee/session/request.h"

#include <ruby.h>

/*
 * Ruby values in answers: nil, booleans, Integers of 64 bits, Floats, Strings, Symbols, and Arrays and Hashes of them; anything
 * else becomes nil. The keys of a Hash are Strings, Symbols or small Integers. Calls no method and does not raise. GVL held.
 */
void ruby_msgpack_value(struct msgpack_builder *answer, const char *key, VALUE value);

/* What is no String is left out. */
void ruby_msgpack_string(struct msgpack_builder *answer, const char *key, VALUE string);

/*
 * Sends one DATA. An answer that is put together as Ruby objects first leaks nothing where that raises. What is larger than a
 * record may be is not sent: false.
 */
bool ruby_msgpack_send(struct request *request, VALUE value);

#endif
