/* Ruby values to msgpack. See pack.h. */

#include "pack.h"

#include <string.h>

static void pack_text(msgpack_packer *packer, const char *bytes, size_t size)
{
	msgpack_pack_str(packer, size);
	msgpack_pack_str_body(packer, bytes, size);
}

static int pack_pair(VALUE key, VALUE value, VALUE argument)
{
	msgpack_packer *packer = (msgpack_packer *)argument;

	pack_value(packer, key);
	pack_value(packer, value);
	return ST_CONTINUE;
}

static void pack_integer(msgpack_packer *packer, VALUE value)
{
	if (FIXNUM_P(value))
		msgpack_pack_int64(packer, FIX2LONG(value));
	else
		msgpack_pack_nil(packer);
}

void pack_value(msgpack_packer *packer, VALUE value)
{
	switch (rb_type(value)) {
	case T_TRUE:
		msgpack_pack_true(packer);
		break;
	case T_FALSE:
		msgpack_pack_false(packer);
		break;
	case T_FIXNUM:
		pack_integer(packer, value);
		break;
	case T_SYMBOL:
		value = rb_sym2str(value);
		/* fallthrough */
	case T_STRING:
		pack_text(packer, RSTRING_PTR(value), (size_t)RSTRING_LEN(value));
		break;
	case T_ARRAY:
		msgpack_pack_array(packer, (size_t)RARRAY_LEN(value));
		for (long i = 0; i < RARRAY_LEN(value); i++)
			pack_value(packer, rb_ary_entry(value, i));
		break;
	case T_HASH:
		msgpack_pack_map(packer, RHASH_SIZE(value));
		rb_hash_foreach(value, pack_pair, (VALUE)packer);
		break;
	default:
		msgpack_pack_nil(packer);
	}
}

bool pack_and_send(struct request *request, VALUE value)
{
	msgpack_sbuffer packed;
	msgpack_packer packer;
	bool sent;

	msgpack_sbuffer_init(&packed);
	msgpack_packer_init(&packer, &packed, msgpack_sbuffer_write);
	pack_value(&packer, value);
	sent = request_data(request, &packed);
	msgpack_sbuffer_destroy(&packed);
	RB_GC_GUARD(value);
	return sent;
}
