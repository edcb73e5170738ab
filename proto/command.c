/* The commands' encoding, both ways. See command.h. */

#include "proto/command.h"

#include "proto/fields.h"
#include "proto/shape.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static bool is_small(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

static bool is_separated(struct slice name, size_t at)
{
	return at + 1 < name.size && name.bytes[at] == ':' && name.bytes[at + 1] == ':';
}

struct slice selector_misnamed(const struct selector *selector)
{
	struct slice name = selector->class_pattern;
	size_t from = 0, to;

	/* "#<Class:0x00007f50>" is one without a name. */
	if (selector->separator == SELECTOR_LINE || (name.size && name.bytes[0] == '#'))
		return (struct slice){NULL, 0};
	for (; from < name.size; from = to + 2) {
		for (to = from; to < name.size && !is_separated(name, to); to++)
			;
		if (from < to && is_small(name.bytes[from]))
			return (struct slice){name.bytes + from, to - from};
	}
	return (struct slice){NULL, 0};
}

static void selectors_encode(msgpack_packer *packer, const struct command *command)
{
	msgpack_pack_array(packer, command->selector_count);
	for (uint32_t i = 0; i < command->selector_count; i++) {
		const struct selector *selector = &command->selectors[i];

		msgpack_pack_array(packer, 7);
		pack_text(packer, selector->class_pattern.bytes, selector->class_pattern.size);
		msgpack_pack_uint8(packer, (uint8_t)selector->separator);
		pack_text(packer, selector->method_pattern.bytes, selector->method_pattern.size);
		msgpack_pack_array(packer, selector->expression_count);
		for (uint32_t e = 0; e < selector->expression_count; e++)
			pack_text(packer, selector->expressions[e].bytes, selector->expressions[e].size);
		msgpack_pack_uint32(packer, selector->role);
		msgpack_pack_uint32(packer, selector->flags);
		msgpack_pack_uint32(packer, selector->set);
	}
}

/* EVAL and all after it have the same fields. */
static bool has_request_fields(enum command_kind kind)
{
	return kind >= COMMAND_EVAL && kind < COMMAND_COUNT;
}

/* fields: how many follow. */
static void header_encode(msgpack_packer *packer, const struct command *command, size_t fields)
{
	msgpack_pack_array(packer, 2 + fields);
	msgpack_pack_uint32(packer, command->kind);
	msgpack_pack_uint32(packer, command->id);
}

static void trace_encode(msgpack_packer *packer, const struct command *command)
{
	const struct trace_options *options = &command->options;

	header_encode(packer, command, 13);
	msgpack_pack_uint32(packer, options->flags);
	msgpack_pack_uint32(packer, options->engine);
	msgpack_pack_uint32(packer, options->overflow);
	msgpack_pack_uint32(packer, options->value_size);
	msgpack_pack_uint32(packer, options->value_depth);
	msgpack_pack_uint32(packer, options->value_length);
	msgpack_pack_uint32(packer, options->expression_timeout_ms);
	selectors_encode(packer, command);
	conditions_encode(packer, &options->conditions);
	marks_encode(packer, &options->marks);
	msgpack_pack_uint32(packer, options->stack_frames);
	pack_text(packer, options->key.bytes, options->key.size);
	msgpack_pack_uint32(packer, options->work_limit_ms);
}

static void request_encode(msgpack_packer *packer, const struct command *command)
{
	header_encode(packer, command, 5);
	msgpack_pack_uint32(packer, command->arguments.flags);
	msgpack_pack_uint64(packer, command->arguments.number);
	msgpack_pack_uint32(packer, command->arguments.timeout_ms);
	pack_text(packer, command->arguments.name.bytes, command->arguments.name.size);
	pack_text(packer, command->arguments.text.bytes, command->arguments.text.size);
}

void command_encode(msgpack_sbuffer *buffer, const struct command *command)
{
	msgpack_packer packer;

	msgpack_packer_init(&packer, buffer, msgpack_sbuffer_write);
	switch (command->kind) {
	case COMMAND_ATTACH:
		header_encode(&packer, command, command->attach.command.size ? 5 : command->attach.debug ? 4 : 3);
		msgpack_pack_uint32(&packer, command->attach.version);
		pack_text(&packer, command->attach.socket_path.bytes, command->attach.socket_path.size);
		msgpack_pack_uint32(&packer, command->attach.client_pid);
		if (command->attach.debug || command->attach.command.size)
			msgpack_pack_uint32(&packer, command->attach.debug);
		if (command->attach.command.size)
			pack_text(&packer, command->attach.command.bytes, command->attach.command.size);
		break;
	case COMMAND_TRACE:
		trace_encode(&packer, command);
		break;
	case COMMAND_METHODS:
		header_encode(&packer, command, 3);
		msgpack_pack_uint32(&packer, command->options.engine);
		selectors_encode(&packer, command);
		msgpack_pack_uint32(&packer, command->options.work_limit_ms);
		break;
	case COMMAND_DETACH:
		header_encode(&packer, command, 0);
		break;
	default:
		if (has_request_fields(command->kind))
			request_encode(&packer, command);
	}
}

static void selector_decode(struct selector *selector, const msgpack_object *object, msgpack_zone *zone, struct fields *outer)
{
	struct fields fields;
	struct slice *expressions;
	const msgpack_object *elements;
	size_t count;

	memset(selector, 0, sizeof(*selector));
	if (outer->status != 0)
		return;
	if (!fields_open(&fields, "selector", object, outer->err)) {
		outer->status = fields_status(&fields);
		return;
	}
	selector->class_pattern = fields_text(&fields, NAME_SIZE_MAX);
	selector->separator = (char)fields_uint(&fields, 127);
	if (selector->separator != 0 && selector->separator != '#' && selector->separator != '.' &&
	    selector->separator != SELECTOR_LINE)
		fields_refuse(&fields, "is neither 0 nor '#' nor '.' nor ':'");
	selector->method_pattern = fields_text(&fields, NAME_SIZE_MAX);
	if (selector->separator == SELECTOR_LINE && (!selector_line(selector) || !selector->class_pattern.size))
		fields_refuse(&fields, "is not the number of a line of a file");
	elements = fields_array(&fields, EXPRESSIONS_MAX, &count);
	expressions = count ? msgpack_zone_malloc(zone, count * sizeof(*expressions)) : NULL;
	if (count && !expressions)
		fields_refuse(&fields, "does not fit into memory");
	for (size_t i = 0; i < count && fields_status(&fields) == 0; i++) {
		struct fields one = {.what = "expression", .next = &elements[i], .left = 1, .err = fields.err};

		expressions[i] = fields_text(&one, EXPRESSION_SIZE_MAX);
		fields.status = fields_status(&one);
	}
	selector->expressions = expressions;
	selector->expression_count = (uint32_t)count;
	selector->role = (enum selector_role)fields_uint(&fields, ROLE_COUNT - 1);
	if (fields.left > 0)
		selector->flags = (uint32_t)fields_uint(&fields, UINT32_MAX);
	if (fields.left > 0)
		selector->set = (uint32_t)fields_uint(&fields, SELECTOR_SETS_MAX);
	outer->status = fields_status(&fields);
}

static void selectors_decode(struct command *command, struct fields *fields, msgpack_zone *zone)
{
	size_t count;
	const msgpack_object *elements = fields_array(fields, SELECTORS_MAX, &count);
	struct selector *selectors = count ? msgpack_zone_malloc(zone, count * sizeof(*selectors)) : NULL;

	if (count && !selectors) {
		fields_refuse(fields, "does not fit into memory");
		return;
	}
	for (size_t i = 0; i < count; i++)
		selector_decode(&selectors[i], &elements[i], zone, fields);
	command->selectors = selectors;
	command->selector_count = (uint32_t)count;
}

static enum engine_id engine_decode(struct fields *fields)
{
	uint64_t engine = fields_uint(fields, ENGINE_COUNT - 1);

	if (engine == ENGINE_NONE)
		fields_refuse(fields, "is an engine that only answers name");
	return (enum engine_id)engine;
}

static void trace_decode(struct command *command, struct fields *fields, msgpack_zone *zone)
{
	struct trace_options *options = &command->options;

	options->flags = (uint32_t)fields_uint(fields, UINT32_MAX);
	options->engine = engine_decode(fields);
	options->overflow = (enum overflow_policy)fields_uint(fields, OVERFLOW_BLOCK);
	options->value_size = (uint32_t)fields_uint(fields, VALUE_SIZE_MAX);
	options->value_depth = (uint32_t)fields_uint(fields, 64);
	options->value_length = (uint32_t)fields_uint(fields, VALUE_SIZE_MAX);
	options->expression_timeout_ms = (uint32_t)fields_uint(fields, UINT32_MAX);
	selectors_decode(command, fields, zone);
	conditions_decode(&options->conditions, fields);
	if (fields->left > 0)
		marks_decode(&options->marks, fields);
	if (fields->left > 0)
		options->stack_frames = (uint32_t)fields_uint(fields, STACK_FRAMES_MAX);
	if (fields->left > 0)
		options->key = fields_text(fields, EXPRESSION_SIZE_MAX);
	if (fields->left > 0)
		options->work_limit_ms = (uint32_t)fields_uint(fields, UINT32_MAX);
}

static void request_decode(struct command *command, struct fields *fields)
{
	command->arguments.flags = (uint32_t)fields_uint(fields, UINT32_MAX);
	command->arguments.number = fields_uint(fields, UINT64_MAX);
	command->arguments.timeout_ms = (uint32_t)fields_uint(fields, UINT32_MAX);
	command->arguments.name = fields_text(fields, NAME_SIZE_MAX);
	command->arguments.text = fields_text(fields, COMMAND_SIZE_MAX);
}

int command_decode(struct command *command, const uint8_t *bytes, size_t size, msgpack_zone *zone, struct error *err)
{
	msgpack_object object;
	struct fields fields;
	size_t offset = 0;

	memset(command, 0, sizeof(*command));
	if (!shape_is_sound(bytes, size) ||
	    msgpack_unpack((const char *)bytes, size, &offset, zone, &object) != MSGPACK_UNPACK_SUCCESS || offset != size)
		return error_set(err, -EPROTO, "malformed command: not one msgpack value");
	if (!fields_open(&fields, "command", &object, err))
		return fields_status(&fields);
	command->kind = (enum command_kind)fields_uint(&fields, UINT16_MAX);
	command->id = (uint32_t)fields_uint(&fields, UINT32_MAX);
	if (fields_status(&fields) != 0)
		return fields_status(&fields);
	switch (command->kind) {
	case COMMAND_ATTACH:
		command->attach.version = (uint32_t)fields_uint(&fields, UINT32_MAX);
		command->attach.socket_path = fields_text(&fields, SOCKET_PATH_MAX);
		command->attach.client_pid = (uint32_t)fields_uint(&fields, INT32_MAX);
		if (fields.left > 0)
			command->attach.debug = (uint32_t)fields_uint(&fields, UINT32_MAX);
		if (fields.left > 0)
			command->attach.command = fields_text(&fields, NAME_SIZE_MAX);
		break;
	case COMMAND_TRACE:
		trace_decode(command, &fields, zone);
		break;
	case COMMAND_METHODS:
		command->options.engine = engine_decode(&fields);
		selectors_decode(command, &fields, zone);
		if (fields.left > 0)
			command->options.work_limit_ms = (uint32_t)fields_uint(&fields, UINT32_MAX);
		break;
	case COMMAND_DETACH:
		break;
	default:
		if (!has_request_fields(command->kind))
			return error_set(err, -EPROTO, "the loaded extension knows no command %d; it is older than this rbprobe",
			                 (int)command->kind);
		request_decode(command, &fields);
	}
	return fields_status(&fields);
}
