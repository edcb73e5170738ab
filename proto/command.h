#ifndef RBPROBE_COMMAND_H
#define RBPROBE_COMMAND_H

#include "error.h"
#include "limits.h"
#include "slice.h"
#include "wire.h"

#include <msgpack.h>
#include <stdint.h>

/* What a client asks of the target; PROTOCOL.md, "Commands". Everything here points into memory of the caller or of the decoded message. */

/* Which methods, and what to show of their calls. */
struct selector {
	struct slice class_pattern;  /* "Order", "Billing::*"; empty: any */
	char separator;              /* '#' instance method, '.' singleton method, 0 either */
	struct slice method_pattern; /* "save", "*charge*"; empty: all */
	uint32_t expression_count;
	const struct slice *expressions; /* "self", "@total", "items.size" */
};

/* "Order" is a method's name, such as Integer's, but a class may be meant. */
#define SELECTOR_CLASS_HINT " (of a class, # after its name means the instance methods, . the singleton methods)"

static inline bool selector_may_be_class(const struct selector *selector)
{
	return !selector->separator && selector->method_pattern.size && selector->method_pattern.bytes[0] >= 'A' &&
	       selector->method_pattern.bytes[0] <= 'Z';
}

struct trace_options {
	uint32_t flags; /* enum trace_flag */
	enum engine_id engine;
	enum overflow_policy overflow;
	uint32_t value_size; /* bytes of a rendered value */
	uint32_t value_depth;
	uint32_t value_length;          /* elements */
	uint32_t expression_timeout_ms; /* how long one expression may run */
};

struct command {
	enum command_kind kind;
	uint32_t id;
	struct { /* COMMAND_ATTACH */
		uint32_t version;
		struct slice socket_path; /* as the target sees it */
		uint32_t client_pid;      /* as the target sees it; 0 where it cannot see it */
	} attach;
	struct { /* COMMAND_EVAL and all behind it; PROTOCOL.md tells what each takes */
		uint32_t flags;
		uint64_t limit;
		uint32_t timeout_ms; /* 0: none */
		struct slice name;
		struct slice text;
	} request;
	struct trace_options options; /* COMMAND_TRACE; engine alone: COMMAND_METHODS */
	uint32_t selector_count;      /* both */
	const struct selector *selectors;
};

/* Appends the encoded command to buffer. */
void command_encode(msgpack_sbuffer *buffer, const struct command *command);

/*
 * Fills command from size bytes; strings point into bytes, arrays live in zone. Returns 0, or -EPROTO and err where a rule or a limit
 * is broken. command->kind and id are set whenever they could be read, so that even a refusal can be answered.
 */
int command_decode(struct command *command, const uint8_t *bytes, size_t size, msgpack_zone *zone, struct error *err);

#endif
