/* What the application lets rbprobe do. See permissions.h. */

#include "tracee/session/permissions.h"

#include "proto/label.h"
#include "tracee/base/ruby_words.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Read by signal handlers, too. */
static _Atomic uint32_t given = PERMISSIONS_ALL;
static _Atomic bool changed;

static const char *const names[PERMISSION_COUNT] = {
	[PERMIT_TRACE] = "trace",   [PERMIT_EVAL] = "eval", [PERMIT_BACKTRACE] = "backtrace", [PERMIT_HEAP] = "heap",
	[PERMIT_MEMORY] = "memory", [PERMIT_FORK] = "fork", [PERMIT_SELFTEST] = "selftest",
};

const char *permission_name(enum permission permission)
{
	return names[permission];
}

uint32_t permissions(void)
{
	return atomic_load_explicit(&given, memory_order_relaxed);
}

void permissions_set(uint32_t mask)
{
	atomic_store(&given, mask);
	atomic_store(&changed, true);
}

bool permissions_take_change(void)
{
	return atomic_load_explicit(&changed, memory_order_relaxed) && atomic_exchange(&changed, false);
}

static bool is(struct slice text, const char *word)
{
	return text.size == strlen(word) && memcmp(text.bytes, word, text.size) == 0;
}

/* Whether to show it calls nothing: expression_build() sees the same. */
static bool is_variable(struct slice expression, bool strict)
{
	const char *bytes;
	size_t size;

	label_split(&expression);
	bytes = expression.bytes;
	size = expression.size;
	if (is(expression, "self") || is(expression, "__source__"))
		return true;
	if (size > 1 && bytes[0] == '@')
		return ruby_is_word(bytes + 1, size - 1);
	return !strict && (is(expression, "&block") || ruby_is_word(bytes, size));
}

static bool has_code(const struct command *command, bool strict)
{
	const struct trace_options *options = &command->options;

	/* inspect is the application's, but it is the client that has it run at every call. */
	if (options->flags & TRACE_INSPECT)
		return true;
	if (options->conditions.expression.size || (options->key.size && !is_variable(options->key, strict)))
		return true;
	for (uint32_t i = 0; i < command->selector_count; i++)
		for (uint32_t j = 0; j < command->selectors[i].expression_count; j++)
			if (!is_variable(command->selectors[i].expressions[j], strict))
				return true;
	return false;
}

/* A kind of command that is not here needs all of them. */
uint32_t permissions_needed(const struct command *command, bool strict)
{
	switch (command->kind) {
	case COMMAND_ATTACH:
	case COMMAND_DETACH:
	case COMMAND_CANCEL:
		return 0;
	case COMMAND_TRACE:
		return 1u << PERMIT_TRACE | (has_code(command, strict) ? 1u << PERMIT_EVAL : 0);
	case COMMAND_METHODS:
	case COMMAND_STATISTICS:
	case COMMAND_VERSIONS:
		return 1u << PERMIT_TRACE;
	case COMMAND_EVAL:
	case COMMAND_COMPLETE:
	case COMMAND_LIST:
	case COMMAND_ENTER:
	case COMMAND_SOURCE:
		return 1u << PERMIT_EVAL;
	case COMMAND_BACKTRACE:
	case COMMAND_PROFILE:
	case COMMAND_FRAMES:
		return 1u << PERMIT_BACKTRACE;
	case COMMAND_HEAP_DUMP:
		return 1u << PERMIT_HEAP;
	case COMMAND_MEMORY:
		return 1u << PERMIT_MEMORY;
	case COMMAND_FORK:
		return 1u << PERMIT_FORK;
	case COMMAND_SELFTEST:
		return 1u << PERMIT_SELFTEST;
	default:
		return PERMISSIONS_ALL;
	}
}

int permissions_check(uint32_t needed, struct error *err)
{
	uint32_t has = permissions(), lacking = needed & ~has;
	char allowed[128] = "nothing";
	size_t used = 0, first = 0;

	if (!lacking)
		return 0;
	while (!(lacking & (1u << first)))
		first++;
	for (size_t i = 0; i < PERMISSION_COUNT; i++)
		if (has & (1u << i))
			used += (size_t)snprintf(allowed + used, sizeof(allowed) - used, "%s%s", used ? ", " : "", names[i]);
	return error_set(
		err, -EPERM, "the application does not allow %s%s (Rbprobe.allow); it allows %s", names[first],
		needed & (1u << PERMIT_TRACE) && first == PERMIT_EVAL ? ", which expressions, conditions and --inspect need" : "",
		allowed);
}
