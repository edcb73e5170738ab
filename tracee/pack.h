#ifndef RBPROBE_PACK_H
#define RBPROBE_PACK_H

#include "proto/limits.h"
#include "request.h"

#include <msgpack.h>
#include <ruby.h>

/*
 * Ruby values as msgpack: what the DATA of requests is made of. nil, booleans, Integers, Strings, Symbols, and Arrays and Hashes of them; anything
 * else becomes nil. Calls no method. Since packing does not raise, an answer is put together as Ruby objects first: then a failure on the
 * way leaks nothing. GVL held.
 */
void pack_value(msgpack_packer *packer, VALUE value);

/* Sends one DATA. What is larger than a record may be is not sent: false. */
bool pack_and_send(struct request *request, VALUE value);

#endif
