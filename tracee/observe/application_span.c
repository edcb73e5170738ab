/*
 * The application's own span. See application_span.h.
 *
 * The opentelemetry gem has a stack of contexts for each fiber: up to 1.4 of its API in a fiber-local variable, since then in an
 * instance variable of the Fiber. The innermost context has entries, and one of them, by a key named "current-span", is the
 * span, whose context has the ids as bytes (context.rb, trace.rb, trace/span_context.rb of opentelemetry-api 1.0 to 1.7).
 *
 * Datadog's has a context in a fiber-local variable, whose name the tracer's context provider knows. The context has the active
 * trace, and that the active span; their ids are Integers (context_provider.rb, trace_operation.rb, span_operation.rb of ddtrace
 * 1.0 to datadog 2.41).
 *
 * All of them are read as what they are: rb_attr_get() of an object, an Array's and a Hash's own contents, a String's bytes.
 */

#include "tracee/observe/application_span.h"

#include "tracee/vm/compat.h"
#include "tracee/vm/constant.h"

#include <ruby.h>
#include <stddef.h>
#include <string.h>

#define DATADOG_WAY 5u /* from the module to the variable's name */

static struct {
	ID stack_local, stack_ivar;
	ID entries, name, context, trace_id, span_id;
	ID datadog_way[DATADOG_WAY], active_trace, active_span, id;
	ID datadog; /* its fiber-local variable, as it was last seen; 0: never */
} ids;

static VALUE within(VALUE object, ID name)
{
	return RB_SPECIAL_CONST_P(object) ? Qnil : rb_attr_get(object, name);
}

void application_span_init(void)
{
	static const char *const way[DATADOG_WAY] = {"@components", "@tracer", "@provider", "@context", "@key"};

	for (size_t i = 0; i < DATADOG_WAY; i++)
		ids.datadog_way[i] = rb_intern(way[i]);
	ids.stack_local = rb_intern("__opentelemetry_context_storage__");
	ids.stack_ivar = rb_intern("@opentelemetry_context");
	ids.entries = rb_intern("@entries");
	ids.name = rb_intern("@name");
	ids.context = rb_intern("@context");
	ids.trace_id = rb_intern("@trace_id");
	ids.span_id = rb_intern("@span_id");
	ids.active_trace = rb_intern("@active_trace");
	ids.active_span = rb_intern("@active_span");
	ids.id = rb_intern("@id");
}

/* --- OpenTelemetry */

static int find_span(VALUE key, VALUE value, VALUE found)
{
	static const char wanted[] = "current-span";
	VALUE name = within(key, ids.name);

	if (!RB_TYPE_P(name, T_STRING) || RSTRING_LEN(name) != sizeof(wanted) - 1 ||
	    memcmp(RSTRING_PTR(name), wanted, sizeof(wanted) - 1) != 0)
		return ST_CONTINUE;
	*(VALUE *)found = value;
	return ST_STOP;
}

static VALUE span_of_stack(VALUE stack)
{
	VALUE entries, span = Qnil;

	if (!RB_TYPE_P(stack, T_ARRAY) || RARRAY_LEN(stack) == 0)
		return Qnil;
	entries = within(RARRAY_AREF(stack, RARRAY_LEN(stack) - 1), ids.entries);
	/* What is frozen is not changed meanwhile, and not even noted to be walked through. */
	if (RB_TYPE_P(entries, T_HASH) && RB_OBJ_FROZEN(entries))
		rb_hash_foreach(entries, find_span, (VALUE)&span);
	return span;
}

static bool read_bytes(VALUE string, uint64_t *words, size_t count)
{
	const uint8_t *bytes;

	if (!RB_TYPE_P(string, T_STRING) || (size_t)RSTRING_LEN(string) != 8 * count)
		return false;
	bytes = (const uint8_t *)RSTRING_PTR(string);
	for (size_t i = 0; i < 8 * count; i++)
		words[i / 8] = words[i / 8] << 8 | bytes[i];
	return true;
}

static bool read_opentelemetry(VALUE stack, struct application_span *span)
{
	VALUE context = within(span_of_stack(stack), ids.context);

	return read_bytes(within(context, ids.trace_id), span->trace, 2) &&
	       read_bytes(within(context, ids.span_id), &span->id, 1);
}

/* --- Datadog */

static bool read_integer(VALUE integer, uint64_t *words, size_t count)
{
	if (!RB_INTEGER_TYPE_P(integer))
		return false;
	rb_integer_pack(integer, words, count, sizeof(*words), 0, INTEGER_PACK_MSWORD_FIRST | INTEGER_PACK_NATIVE_BYTE_ORDER);
	return true;
}

/* It is another once the application has configured the gem. An instance variable of a module is the main Ractor's. */
static ID datadog_variable(void)
{
	VALUE at = compat_in_main_ractor() ? constant_module_at_hand("Datadog") : Qnil;

	for (size_t i = 0; i < DATADOG_WAY; i++)
		at = within(at, ids.datadog_way[i]);
	return RB_SYMBOL_P(at) ? rb_sym2id(at) : 0;
}

static VALUE datadog_context(void)
{
	VALUE thread = rb_thread_current(), context = ids.datadog ? rb_thread_local_aref(thread, ids.datadog) : Qnil;

	if (!NIL_P(context))
		return context;
	ids.datadog = datadog_variable();
	return ids.datadog ? rb_thread_local_aref(thread, ids.datadog) : Qnil;
}

static bool read_datadog(struct application_span *span)
{
	VALUE trace = within(datadog_context(), ids.active_trace);

	return read_integer(within(trace, ids.id), span->trace, 2) &&
	       read_integer(within(within(trace, ids.active_span), ids.id), &span->id, 1);
}

bool application_span_read(struct application_span *span)
{
	*span = (struct application_span){0};
	if (!read_opentelemetry(rb_thread_local_aref(rb_thread_current(), ids.stack_local), span) &&
	    !read_opentelemetry(rb_attr_get(rb_fiber_current(), ids.stack_ivar), span) && !read_datadog(span))
		return false;
	/* The gem's own way to say that there is none. */
	return (span->trace[0] || span->trace[1]) && span->id;
}
