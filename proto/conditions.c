/* Conditions on the wire. See conditions.h. */

#include "proto/conditions.h"

#include "proto/limits.h"

#include <string.h>

static bool is_word_byte(char c)
{
	return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (unsigned char)c >= 0x80;
}

/* What may not stand before a variable; but a range's second dot may. */
static bool is_prefix(struct slice code, size_t at)
{
	char before = at ? code.bytes[at - 1] : ' ';

	if (before == '.')
		return at < 2 || code.bytes[at - 2] != '.';
	return is_word_byte(before) || before == '@' || before == '$' || before == ':';
}

static bool is_suffix(struct slice code, size_t end)
{
	char after = end < code.size ? code.bytes[end] : ' ';
	char next = end + 1 < code.size ? code.bytes[end + 1] : ' ';

	return is_word_byte(after) || after == '?' || (after == '!' && next != '=') || (after == ':' && next != ':');
}

struct slice conditions_code_alone(struct slice code)
{
	static const char begin[] = CONDITIONS_TRUTH_BEGIN, end[] = CONDITIONS_TRUTH_END;
	const size_t before = sizeof(begin) - 1, after = sizeof(end) - 1;

	if (code.size < before + after || memcmp(code.bytes, begin, before) != 0 ||
	    memcmp(code.bytes + code.size - after, end, after) != 0)
		return code;
	return (struct slice){code.bytes + before, code.size - before - after};
}

bool conditions_code_reads(struct slice code, const char *variable)
{
	size_t size = strlen(variable);

	for (size_t i = 0; i + size <= code.size; i++)
		if (memcmp(code.bytes + i, variable, size) == 0 && !is_prefix(code, i) && !is_suffix(code, i + size))
			return true;
	return false;
}

bool conditions_code_at_end(struct slice code)
{
	return conditions_code_reads(code, "result") || conditions_code_reads(code, "error") ||
	       conditions_code_reads(code, "elapsed");
}

bool conditions_expression_at_end(const struct conditions *conditions)
{
	return conditions_code_at_end(conditions->expression);
}

bool conditions_at_end(const struct conditions *conditions)
{
	return conditions->slow_ns || conditions->slow_cpu_ns || conditions->raised.bytes ||
	       conditions_expression_at_end(conditions);
}

void conditions_encode(msgpack_packer *packer, const struct conditions *conditions)
{
	msgpack_pack_array(packer, 9);
	msgpack_pack_uint64(packer, conditions->slow_ns);
	msgpack_pack_uint64(packer, conditions->slow_cpu_ns);
	msgpack_pack_uint32(packer, conditions->every);
	msgpack_pack_uint32(packer, conditions->rate);
	msgpack_pack_uint32(packer, conditions->depth);
	pack_text_or_nil(packer, conditions->raised.bytes, conditions->raised.size);
	pack_text(packer, conditions->thread.bytes, conditions->thread.size);
	pack_text(packer, conditions->expression.bytes, conditions->expression.size);
	msgpack_pack_uint32(packer, conditions->max_overhead);
}

void conditions_decode(struct conditions *conditions, struct fields *outer)
{
	const msgpack_object *object = fields_value(outer);
	struct fields fields;

	memset(conditions, 0, sizeof(*conditions));
	if (!object)
		return;
	if (!fields_open(&fields, "conditions", object, outer->err)) {
		outer->status = fields_status(&fields);
		return;
	}
	conditions->slow_ns = fields_uint(&fields, UINT64_MAX / 2);
	conditions->slow_cpu_ns = fields_uint(&fields, UINT64_MAX / 2);
	conditions->every = (uint32_t)fields_uint(&fields, UINT32_MAX);
	conditions->rate = (uint32_t)fields_uint(&fields, UINT32_MAX);
	conditions->depth = (uint32_t)fields_uint(&fields, UINT32_MAX);
	conditions->raised = fields_text_or_nil(&fields, NAME_SIZE_MAX);
	conditions->thread = fields_text(&fields, NAME_SIZE_MAX);
	conditions->expression = fields_text(&fields, EXPRESSION_SIZE_MAX);
	conditions->max_overhead = (uint32_t)fields_uint(&fields, 100);
	outer->status = fields_status(&fields);
}
