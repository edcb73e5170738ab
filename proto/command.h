#ifndef RBPROBE_COMMAND_H
#define RBPROBE_COMMAND_H

#include "proto/conditions.h"
#include "proto/error.h"
#include "proto/limits.h"
#include "proto/marks.h"
#include "proto/slice.h"
#include "proto/wire.h"

#include <msgpack.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * What a client asks of the target; PROTOCOL.md, "Commands". Everything here points into memory of the caller or of the
 * decoded message.
 */

/* Which methods, or which line, and what to show of their calls. */
struct selector {
	struct slice class_pattern;  /* "Order", "Billing::*"; empty: any. Of a line: the file's path, or its end */
	char separator;              /* '#' instance method, '.' singleton method, 0 either; ':' a line */
	struct slice method_pattern; /* "save", "*charge*"; empty: all. Of a line: its number, in digits */
	uint32_t expression_count;
	const struct slice *expressions; /* "self", "@total", "items.size" */
	enum selector_role role;
	uint32_t flags;  /* enum selector_flag */
	uint32_t set;    /* with SELECTOR_OUTERMOST: the set of selectors that it is of, from 1 */
	uint32_t tracer; /* the client's own, which is not sent: of which tracer it is, from 1; 0: none */
	bool if_slow;    /* the same: --slow is about it, and not about those that are not */
};

#define SELECTOR_LINE ':'
#define LINE_MAX_DIGITS 9

/* The number of the line that a selector is for; 0: it is for methods. */
static inline uint32_t selector_line(const struct selector *selector)
{
	uint32_t line = 0;

	if (selector->separator != SELECTOR_LINE || selector->method_pattern.size > LINE_MAX_DIGITS)
		return 0;
	for (size_t i = 0; i < selector->method_pattern.size; i++) {
		if (selector->method_pattern.bytes[i] < '0' || selector->method_pattern.bytes[i] > '9')
			return 0;
		line = line * 10 + (uint32_t)(selector->method_pattern.bytes[i] - '0');
	}
	return line;
}

/* Selectors that match nothing and have a line each; -v has the others. */
#define UNMATCHED_NAMED_MAX 20u

/* "Order" is a method's name, such as Integer's, but a class may be meant. */
#define SELECTOR_CLASS_HINT ". Of a class, # after its name means the instance methods, . the singleton methods"

static inline bool selector_may_be_class(const struct selector *selector)
{
	return !selector->separator && selector->method_pattern.size && selector->method_pattern.bytes[0] >= 'A' &&
	       selector->method_pattern.bytes[0] <= 'Z';
}

/*
 * The part of its class's name that begins with a small letter, as no constant does: "order" of Billing::order#save. Empty: there
 * is none. Some of Ruby's own classes have such names: Time::tm.
 */
struct slice selector_misnamed(const struct selector *selector);

struct trace_options {
	uint32_t flags; /* enum trace_flag */
	enum engine_id engine;
	enum overflow_policy overflow;
	uint32_t value_size; /* bytes of a rendered value */
	uint32_t value_depth;
	uint32_t value_length;          /* elements */
	uint32_t expression_timeout_ms; /* how long one expression may run */
	uint32_t work_limit_ms; /* CPU time that looking for methods and arming them may take, where that is more than usual */
	struct conditions conditions;
	struct mark_options marks;
	uint32_t stack_frames; /* with TRACE_STACK: so many callers of a call, at most */
	struct slice key;      /* with TRACE_COUNT: a Ruby expression, by whose value calls are counted apart; empty: none */
};

struct command {
	enum command_kind kind;
	uint32_t id;
	struct { /* COMMAND_ATTACH */
		uint32_t version;
		struct slice socket_path; /* as the target sees it */
		uint32_t client_pid;      /* as the target sees it; 0 where it cannot see it */
		uint32_t debug;           /* domains whose debug lines the client wants: bits of enum debug_domain */
		struct slice command;     /* the client's command line, for the application */
	} attach;
	struct { /* of requests, COMMAND_EVAL and those after it; PROTOCOL.md says what each takes */
		uint32_t flags;
		union { /* one field on the wire, in the unit of the request */
			uint64_t number;
			uint64_t result_size_max; /* EVAL: bytes of the shown result */
			uint64_t request_id;      /* CANCEL */
			uint64_t cursor;          /* COMPLETE: where it is in the text, in bytes */
			uint64_t frames_max;      /* BACKTRACE: of a thread; 0: all */
			uint64_t pause_max_ms;    /* MEMORY: how long counting the objects may take */
		};
		uint32_t timeout_ms; /* how long the request may be under way; 0: as long as it takes */
		struct slice name;
		struct slice text;
	} arguments;
	struct trace_options options; /* COMMAND_TRACE; engine and work_limit_ms alone: COMMAND_METHODS */
	uint32_t selector_count;      /* both */
	const struct selector *selectors;
};

/* Appends the encoded command to buffer. */
void command_encode(msgpack_sbuffer *buffer, const struct command *command);

/*
 * Fills command from size bytes; strings point into bytes, arrays live in zone. Returns 0, or -EPROTO and err where a
 * rule or a limit is broken. command->kind and id are set whenever they could be read, so that even a refusal can be
 * answered.
 */
int command_decode(struct command *command, const uint8_t *bytes, size_t size, msgpack_zone *zone, struct error *err);

#endif
