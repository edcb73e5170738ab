/* The values of an event, rendered. See expression.h. Context: event, GVL held; what may raise runs under evaluate(). */

#include "core.h"
#include "expression.h"

#include "capture.h"
#include "evaluation.h"
#include "naming.h"

#include <string.h>

#define ARRAY_HEADER 3 /* msgpack array 16 */
#define TEXT_HEADER 3  /* msgpack str 16 */
#define LEFT_OUT 0xc0  /* msgpack nil */
#define FRAMES_LOOKED_AT 16
#define TRACE_ENDED "#<the trace has ended>"

/* The array of texts that is being written. */
struct values {
	char *buffer;
	size_t size;
	size_t used;
	uint32_t count;
};

struct request {
	struct expression *item; /* NULL: value is given */
	VALUE value;
	const struct seen_call *call;
	const struct trace_options *options;
	struct text *text;
	VALUE *binding; /* made at the first need */
	bool ended;     /* nobody waits for any value any more */
	long callers;   /* frames that `caller` shows, where the expression has it */
};

static void values_begin(struct values *values, char *buffer, size_t size)
{
	values->buffer = buffer;
	values->size = size;
	values->used = ARRAY_HEADER;
	values->count = 0;
}

static bool text_begin(const struct values *values, struct text *text)
{
	if (values->used + TEXT_HEADER >= values->size)
		return false;
	text->bytes = values->buffer + values->used + TEXT_HEADER;
	text->size = values->size - values->used - TEXT_HEADER;
	text->used = 0;
	text->cut = false;
	return true;
}

static void text_end(struct values *values, const struct text *text)
{
	char *header = values->buffer + values->used;

	header[0] = (char)0xda;
	header[1] = (char)(text->used >> 8);
	header[2] = (char)text->used;
	values->used += TEXT_HEADER + text->used;
	values->count++;
}

/* A call has not got what stands there. */
static void leave_out(struct values *values)
{
	if (values->used < values->size) {
		values->buffer[values->used++] = (char)LEFT_OUT;
		values->count++;
	}
}

static size_t values_end(struct values *values)
{
	values->buffer[0] = (char)0xdc;
	values->buffer[1] = (char)(values->count >> 8);
	values->buffer[2] = (char)values->count;
	return values->used;
}

/* The place a method was called from. A C call's event has it; of a Ruby method it is the nearest frame above with a file. */
static void render_source(const struct request *request)
{
	VALUE frames[FRAMES_LOOKED_AT];
	int lines[FRAMES_LOOKED_AT];
	VALUE path = Qnil;
	int line = 0;

	if (request->call->trace_arg && request->call->event == RUBY_EVENT_C_CALL) {
		path = rb_tracearg_path(request->call->trace_arg);
		line = NUM2INT(rb_tracearg_lineno(request->call->trace_arg));
	} else {
		/* Asked to skip frames, rb_profile_frames does not before 3.2; the first is a Ruby method's own. */
		int count = rb_profile_frames(0, FRAMES_LOOKED_AT, frames, lines);

		for (int i = request->call->trace_arg ? 1 : 0; i < count && NIL_P(path); i++) {
			path = rb_profile_frame_path(frames[i]);
			line = lines[i];
		}
	}
	if (RB_TYPE_P(path, T_STRING)) {
		capture_escaped(request->text, RSTRING_PTR(path), (size_t)RSTRING_LEN(path), true);
		text_printf(request->text, ":%d", line);
	} else {
		text_append_cstr(request->text, "unknown");
	}
}

static VALUE receiver_of(const struct seen_call *call)
{
	return call->trace_arg ? rb_tracearg_self(call->trace_arg) : call->receiver;
}

/* A C method's argument, counted from 1; nil where the call has fewer. */
static VALUE argument_of(const struct seen_call *call, unsigned number)
{
	if (number == 0)
		return rb_block_given_p() ? rb_block_proc() : Qnil;
	if (call->arity == -2)
		return rb_ary_entry(call->argv[0], (long)number - 1);
	return number <= (unsigned)call->argc ? call->argv[number - 1] : Qnil;
}

static VALUE rest_of(const struct seen_call *call, unsigned from)
{
	if (call->arity == -2)
		return rb_ary_subseq(call->argv[0], (long)from - 1, RARRAY_LEN(call->argv[0]));
	return rb_ary_new_from_values(call->argc - (long)from + 1, call->argv + from - 1);
}

static bool is_left_out(const struct expression *item, const struct seen_call *call)
{
	long count = call->arity == -2 ? RARRAY_LEN(call->argv[0]) : call->argc;

	if (!item->optional)
		return false;
	return item->number ? (long)item->number > count : !rb_block_given_p();
}

static VALUE local_variable(const struct request *request, VALUE name)
{
	if (!request->call->trace_arg)
		return argument_of(request->call, expression_argument_number(name));
	if (NIL_P(*request->binding))
		*request->binding = rb_tracearg_binding(request->call->trace_arg);
	if (NIL_P(*request->binding))
		return Qnil;
	return core_call1(CORE_BINDING_LOCAL_VARIABLE_GET, *request->binding, name);
}

/* While nothing of ours has a frame yet. Calls no method. */
static VALUE count_callers(VALUE argument)
{
	struct request *request = (struct request *)argument;
	const struct seen_call *call = request->call;
	bool has_frame = !call->trace_arg || call->event != RUBY_EVENT_C_CALL;

	request->callers = RARRAY_LEN(rb_make_backtrace()) - has_frame;
	return Qnil;
}

/* The outermost frames, which are those of the callers. */
static VALUE callers_of(const struct request *request, VALUE name)
{
	VALUE frames, level = INT2FIX(0);
	long count;

	if (name == ID2SYM(rb_intern("caller")))
		frames = rb_make_backtrace();
	else
		frames = core_call(CORE_KERNEL_CALLER_LOCATIONS, rb_cObject, 1, &level);
	count = RARRAY_LEN(frames) < request->callers ? RARRAY_LEN(frames) : request->callers;
	return rb_ary_subseq(frames, RARRAY_LEN(frames) - count, count);
}

static VALUE run_code(const struct request *request)
{
	const struct expression *item = request->item;
	long count = RARRAY_LEN(item->names);
	VALUE arguments[VALUES_MAX + 1];

	if (count > (long)VALUES_MAX)
		count = VALUES_MAX;
	arguments[0] = receiver_of(request->call);
	for (long i = 0; i < count; i++) {
		VALUE name = rb_ary_entry(item->names, i);
		bool own = i >= RARRAY_LEN(item->names) - item->own_names;

		arguments[i + 1] = own ? callers_of(request, name) : local_variable(request, name);
	}
	return rb_method_call_with_block((int)count + 1, arguments, item->code, Qnil);
}

/* What to show; Qundef: that is shown already. */
static VALUE value_of(const struct request *request)
{
	VALUE value = request->value;

	if (request->item) {
		switch (request->item->kind) {
		case EXPRESSION_SOURCE:
			render_source(request);
			return Qundef;
		case EXPRESSION_SELF:
			value = receiver_of(request->call);
			break;
		case EXPRESSION_IVAR:
			value = rb_attr_get(receiver_of(request->call), request->item->id);
			break;
		case EXPRESSION_LOCAL:
			value = local_variable(request, ID2SYM(request->item->id));
			break;
		case EXPRESSION_ARGUMENT:
			/* Nobody asked for it by name: then no Proc is made of it, which would cost the application something. */
			if (request->item->number == 0 && request->item->optional) {
				text_append_cstr(request->text, "#<Proc>");
				return Qundef;
			}
			value = argument_of(request->call, request->item->number);
			break;
		case EXPRESSION_REST:
			value = rest_of(request->call, request->item->number);
			break;
		case EXPRESSION_COMPILED:
			value = run_code(request);
			break;
		}
	}
	return value;
}

/* To show these, no method is called. */
static bool is_plain(VALUE value)
{
	return RB_SPECIAL_CONST_P(value) || RB_BUILTIN_TYPE(value) == RUBY_T_STRING || RB_BUILTIN_TYPE(value) == RUBY_T_FLOAT ||
	       RB_BUILTIN_TYPE(value) == RUBY_T_BIGNUM;
}

/* Shows what is plain, and leaves the rest for request_run(). For what finds its value without calling a method. */
static VALUE request_try(VALUE argument)
{
	struct request *request = (struct request *)argument;

	request->value = value_of(request);
	request->item = NULL;
	if (request->value != Qundef && !is_plain(request->value))
		return Qnil;
	if (request->value != Qundef)
		capture_value(request->text, request->value, request->options);
	request->value = Qundef;
	return Qnil;
}

static VALUE request_run(VALUE argument)
{
	struct request *request = (struct request *)argument;
	VALUE value = value_of(request);

	if (value == Qundef)
		return Qnil;
	if (request->options->flags & TRACE_INSPECT)
		capture_inspect(request->text, value, request->options);
	else
		capture_value(request->text, value, request->options);
	RB_GC_GUARD(value);
	return Qnil;
}

static VALUE describe_exception(VALUE argument)
{
	const struct request *request = (const struct request *)argument;

	text_append_cstr(request->text, "#<");
	naming_class(request->text, rb_obj_class(request->value));
	text_append_cstr(request->text, ": ");
	capture_message(request->text, request->value, request->options);
	text_append_cstr(request->text, ">");
	return Qnil;
}

/*
 * Runs a part of a request, under the time limit where it may be Ruby code that runs. That has frames of its own, among which the place of the
 * call, or its block, would be looked for.
 *
 * Any call of a method, of Ruby's own, too, is a place where the VM raises what other threads have sent to this one: so where one is called, that is
 * held back meanwhile. It sets *jump.
 */
static enum evaluation_outcome run(VALUE (*part)(VALUE), struct request *request, VALUE *value, int *jump)
{
	const struct expression *item = request->item;
	enum evaluation_outcome outcome;

	if (item && item->kind == EXPRESSION_SOURCE)
		return evaluate_quickly(part, (VALUE)request, value);
	if ((request->options->flags & TRACE_INSPECT) || (item && item->kind == EXPRESSION_COMPILED))
		return evaluate(part, (VALUE)request, request->options, request->options->expression_timeout_ms, value, jump);
	if (part == request_run && !(item && item->kind == EXPRESSION_LOCAL && request->call->trace_arg)) {
		outcome = evaluate_quickly(request_try, (VALUE)request, value);
		if (outcome != EVALUATION_DONE || request->value == Qundef)
			return outcome;
	}
	return evaluate_undisturbed(part, (VALUE)request, value, jump);
}

static void restart(struct text *text)
{
	text->used = 0;
	text->cut = false;
}

/* Renders one request into its text; what is raised on the way becomes the text. */
static void render(struct request *request, int *jump)
{
	struct expression *item = request->item;
	VALUE value;

	if (item && item->own_names)
		evaluate_quickly(count_callers, (VALUE)request, &value);
	switch (run(request_run, request, &value, jump)) {
	case EVALUATION_DONE:
		break;
	case EVALUATION_RAISED:
		restart(request->text);
		request->value = value;
		if (!*jump)
			evaluate_undisturbed(describe_exception, (VALUE)request, &value, jump);
		break;
	case EVALUATION_TIMED_OUT:
		restart(request->text);
		text_printf(request->text, "#<timed out after %u ms>", request->options->expression_timeout_ms);
		if (item)
			item->switched_off = true;
		break;
	case EVALUATION_ENDED:
		restart(request->text);
		text_append_cstr(request->text, TRACE_ENDED);
		request->ended = true;
		break;
	case EVALUATION_THREW:
		restart(request->text);
		text_append_cstr(request->text, "#<throw>");
		break;
	case EVALUATION_JUMPED:
		restart(request->text);
		text_append_cstr(request->text, "#<interrupted>");
		break;
	}
	RB_GC_GUARD(value);
}

size_t expression_list_render(struct expression_list *list, const struct seen_call *call, const struct trace_options *options,
                              char *buffer, size_t size, int *jump)
{
	struct values values, shown;
	VALUE binding = Qnil;
	bool ended = false;

	values_begin(&values, buffer, size);
	shown = values;
	for (uint32_t i = 0; i < list->count; i++) {
		struct text text;
		struct request request = {.item = &list->items[i],
		                          .value = Qnil,
		                          .call = call,
		                          .options = options,
		                          .text = &text,
		                          .binding = &binding};

		if (is_left_out(&list->items[i], call)) {
			leave_out(&values);
			continue;
		}
		if (!text_begin(&values, &text))
			break;
		if (list->items[i].switched_off)
			text_append_cstr(&text, "#<switched off: it timed out>");
		else if (*jump)
			text_append_cstr(&text, "#<interrupted>");
		else if (ended)
			text_append_cstr(&text, TRACE_ENDED);
		else
			render(&request, jump);
		ended = ended || request.ended;
		text_end(&values, &text);
		shown = values;
	}
	RB_GC_GUARD(binding);
	return values_end(&shown);
}

size_t expression_render_result(VALUE value, const struct trace_options *options, char *buffer, size_t size, int *jump)
{
	struct values values;
	struct text text;
	struct request request = {.value = value, .options = options, .text = &text};

	values_begin(&values, buffer, size);
	if (text_begin(&values, &text)) {
		render(&request, jump);
		text_end(&values, &text);
	}
	return values_end(&values);
}

static VALUE exception_class(VALUE argument)
{
	const struct request *request = (const struct request *)argument;

	naming_class(request->text, rb_obj_class(request->value));
	return Qnil;
}

static VALUE exception_message(VALUE argument)
{
	const struct request *request = (const struct request *)argument;

	if (request->options->flags & TRACE_INSPECT) {
		VALUE message = rb_obj_as_string(core_ask(request->value, "message"));

		capture_escaped(request->text, RSTRING_PTR(message), (size_t)RSTRING_LEN(message), true);
		RB_GC_GUARD(message);
	} else {
		capture_message(request->text, request->value, request->options);
	}
	return Qnil;
}

size_t expression_render_exception(VALUE exception, const struct trace_options *options, char *buffer, size_t size, int *jump)
{
	static VALUE (*const parts[])(VALUE) = {exception_class, exception_message};
	struct values values;
	struct text text;
	struct request request = {.value = exception, .options = options, .text = &text};

	values_begin(&values, buffer, size);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && text_begin(&values, &text); i++) {
		VALUE unused;

		if (*jump)
			text_append_cstr(&text, "#<interrupted>");
		else
			run(parts[i], &request, &unused, jump);
		text_end(&values, &text);
	}
	return values_end(&values);
}
