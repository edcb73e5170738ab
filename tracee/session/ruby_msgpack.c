/* Ruby values in answers. See ruby_msgpack.h. */

#include "tracee/session/ruby_msgpack.h"

#include <stdio.h>

static int pack_pair(VALUE key, VALUE value, VALUE argument)
{
	struct msgpack_builder *answer = (struct msgpack_builder *)argument;

	if (FIXNUM_P(key)) {
		char digits[24];

		snprintf(digits, sizeof(digits), "%ld", FIX2LONG(key));
		ruby_msgpack_value(answer, digits, value);
		return ST_CONTINUE;
	}
	if (RB_SYMBOL_P(key))
		key = rb_sym2str(key);
	builder_key(answer, RSTRING_PTR(key), (size_t)RSTRING_LEN(key));
	ruby_msgpack_value(answer, NULL, value);
	return ST_CONTINUE;
}

static void pack_bignum(struct msgpack_builder *answer, const char *key, VALUE value)
{
	if (rb_absint_size(value, NULL) <= sizeof(uint64_t) && RBIGNUM_POSITIVE_P(value))
		builder_uint(answer, key, rb_big2ull(value));
	else
		builder_nil(answer, key);
}

void ruby_msgpack_value(struct msgpack_builder *answer, const char *key, VALUE value)
{
	switch (rb_type(value)) {
	case T_TRUE:
	case T_FALSE:
		builder_bool(answer, key, RTEST(value));
		break;
	case T_FIXNUM:
		builder_int(answer, key, FIX2LONG(value));
		break;
	case T_BIGNUM:
		pack_bignum(answer, key, value);
		break;
	case T_FLOAT:
		builder_double(answer, key, RFLOAT_VALUE(value));
		break;
	case T_SYMBOL:
		ruby_msgpack_string(answer, key, rb_sym2str(value));
		break;
	case T_STRING:
		ruby_msgpack_string(answer, key, value);
		break;
	case T_ARRAY:
		builder_array(answer, key);
		for (long i = 0; i < RARRAY_LEN(value); i++)
			ruby_msgpack_value(answer, NULL, rb_ary_entry(value, i));
		builder_end(answer);
		break;
	case T_HASH:
		builder_map(answer, key);
		rb_hash_foreach(value, pack_pair, (VALUE)answer);
		builder_end(answer);
		break;
	default:
		builder_nil(answer, key);
	}
}

void ruby_msgpack_string(struct msgpack_builder *answer, const char *key, VALUE string)
{
	if (RB_TYPE_P(string, T_STRING))
		builder_text(answer, key, RSTRING_PTR(string), (size_t)RSTRING_LEN(string));
	RB_GC_GUARD(string);
}

bool ruby_msgpack_send(struct request *request, VALUE value)
{
	struct msgpack_builder answer;
	bool sent;

	builder_init(&answer);
	ruby_msgpack_value(&answer, NULL, value);
	sent = request_answer(request, &answer);
	builder_free(&answer);
	RB_GC_GUARD(value);
	return sent;
}
