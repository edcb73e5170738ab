/* Ruby values in answers. See pack.h. */

#include "pack.h"

#include <stdio.h>

static int pack_pair(VALUE key, VALUE value, VALUE argument)
{
	struct answer *answer = (struct answer *)argument;

	if (FIXNUM_P(key)) {
		char digits[24];

		snprintf(digits, sizeof(digits), "%ld", FIX2LONG(key));
		pack_value(answer, digits, value);
		return ST_CONTINUE;
	}
	if (RB_SYMBOL_P(key))
		key = rb_sym2str(key);
	answer_key(answer, RSTRING_PTR(key), (size_t)RSTRING_LEN(key));
	pack_value(answer, NULL, value);
	return ST_CONTINUE;
}

static void pack_bignum(struct answer *answer, const char *key, VALUE value)
{
	if (rb_absint_size(value, NULL) <= sizeof(uint64_t) && RBIGNUM_POSITIVE_P(value))
		answer_uint(answer, key, rb_big2ull(value));
	else
		answer_nil(answer, key);
}

void pack_value(struct answer *answer, const char *key, VALUE value)
{
	switch (rb_type(value)) {
	case T_TRUE:
	case T_FALSE:
		answer_bool(answer, key, RTEST(value));
		break;
	case T_FIXNUM:
		answer_int(answer, key, FIX2LONG(value));
		break;
	case T_BIGNUM:
		pack_bignum(answer, key, value);
		break;
	case T_FLOAT:
		answer_double(answer, key, RFLOAT_VALUE(value));
		break;
	case T_SYMBOL:
		pack_string(answer, key, rb_sym2str(value));
		break;
	case T_STRING:
		pack_string(answer, key, value);
		break;
	case T_ARRAY:
		answer_array(answer, key);
		for (long i = 0; i < RARRAY_LEN(value); i++)
			pack_value(answer, NULL, rb_ary_entry(value, i));
		answer_end(answer);
		break;
	case T_HASH:
		answer_map(answer, key);
		rb_hash_foreach(value, pack_pair, (VALUE)answer);
		answer_end(answer);
		break;
	default:
		answer_nil(answer, key);
	}
}

void pack_string(struct answer *answer, const char *key, VALUE string)
{
	if (RB_TYPE_P(string, T_STRING))
		answer_text(answer, key, RSTRING_PTR(string), (size_t)RSTRING_LEN(string));
	RB_GC_GUARD(string);
}

bool pack_and_send(struct request *request, VALUE value)
{
	struct answer answer;
	bool sent;

	answer_init(&answer);
	pack_value(&answer, NULL, value);
	sent = request_answer(request, &answer);
	answer_free(&answer);
	RB_GC_GUARD(value);
	return sent;
}
