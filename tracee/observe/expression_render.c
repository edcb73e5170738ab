/* The values of an event, rendered. See expression.h. Context: event, GVL held; what may raise runs under evaluate(). */

#include "tracee/observe/expression.h"

#include "tracee/base/value_texts.h"
#include "tracee/frame/frame_locals.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/capture.h"
#include "tracee/vm/class_name.h"
#include "tracee/vm/evaluation.h"

#include <string.h>

#define FRAMES_LOOKED_AT 16
#define TRACE_ENDED "#<the trace has ended>"

struct rendering {
	struct expression *item; /* NULL: value is given */
	VALUE value;
	const struct seen_call *call;
	const struct trace_options *options;
	struct text *text;
	VALUE *binding; /* made at the first need */
	bool ended;     /* nobody waits for any value any more */
	bool absent;    /* there is no such variable here */
	long callers;   /* frames that `caller` shows, where the expression has it */
};

/* The place a method was called from. A C call's event has it; of a Ruby method it is the nearest frame above with a file. */
static void render_source(const struct rendering *rendering)
{
	VALUE frames[FRAMES_LOOKED_AT];
	int lines[FRAMES_LOOKED_AT];
	VALUE path = Qnil;
	int line = 0;

	if (rendering->call->trace_arg && rendering->call->event == RUBY_EVENT_C_CALL) {
		path = rb_tracearg_path(rendering->call->trace_arg);
		line = NUM2INT(rb_tracearg_lineno(rendering->call->trace_arg));
	} else {
		/* Asked to skip frames, rb_profile_frames does not before 3.4; the first is a Ruby method's own. */
		int count = rb_profile_frames(0, FRAMES_LOOKED_AT, frames, lines);

		for (int i = rendering->call->trace_arg ? 1 : 0; i < count && NIL_P(path); i++) {
			path = rb_profile_frame_path(frames[i]);
			line = lines[i];
		}
	}
	if (RB_TYPE_P(path, T_STRING)) {
		capture_escaped(rendering->text, RSTRING_PTR(path), (size_t)RSTRING_LEN(path), true);
		text_printf(rendering->text, ":%d", line);
	} else {
		text_append_cstr(rendering->text, "unknown");
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

	if (!item->optional || item->kind == EXPRESSION_LOCAL)
		return false;
	return item->number ? (long)item->number > count : !rb_block_given_p();
}

static VALUE binding_of(const struct rendering *rendering)
{
	if (NIL_P(*rendering->binding))
		*rendering->binding = rb_tracearg_binding(rendering->call->trace_arg);
	return *rendering->binding;
}

/* A line may be reached by code around the block that has the variable, too. */
static bool is_absent(const struct rendering *rendering)
{
	return rendering->item->optional && !NIL_P(binding_of(rendering)) &&
	       !RTEST(builtin_call1(BUILTIN_BINDING_LOCAL_VARIABLE_DEFINED_P, *rendering->binding, ID2SYM(rendering->item->id)));
}

/* A parameter as the frame has it; Qundef: it has to be asked for. */
static VALUE local_in_frame(const struct rendering *rendering)
{
	struct expression *item = rendering->item;
	const struct seen_call *call = rendering->call;
	uintptr_t frame;

	if (!call->trace_arg || call->event != RUBY_EVENT_CALL || item->is_block || !frame_locals_are_known())
		return Qundef;
	frame = frame_direct_frame(call->trace_arg);
	if (item->in_code != frame_locals_code(frame)) {
		item->place = frame_locals_place(frame, item->id);
		item->in_code = frame_locals_code(frame);
	}
	return item->place ? frame_locals_read(frame, item->place) : Qundef;
}

static VALUE local_variable(const struct rendering *rendering, VALUE name)
{
	if (!rendering->call->trace_arg)
		return argument_of(rendering->call, expression_argument_number(name));
	if (NIL_P(binding_of(rendering)))
		return Qnil;
	return builtin_call1(BUILTIN_BINDING_LOCAL_VARIABLE_GET, *rendering->binding, name);
}

/* While nothing of ours has a frame yet. Calls no method. */
static VALUE count_callers(VALUE argument)
{
	struct rendering *rendering = (struct rendering *)argument;
	const struct seen_call *call = rendering->call;
	bool has_frame = !call->trace_arg || call->event != RUBY_EVENT_C_CALL;

	rendering->callers = RARRAY_LEN(rb_make_backtrace()) - has_frame;
	return Qnil;
}

/* The outermost frames, which are those of the callers. */
static VALUE callers_of(const struct rendering *rendering, VALUE name)
{
	VALUE frames, level = INT2FIX(0);
	long count;

	if (name == ID2SYM(rb_intern("caller")))
		frames = rb_make_backtrace();
	else
		frames = builtin_call(BUILTIN_KERNEL_CALLER_LOCATIONS, rb_cObject, 1, &level);
	if (!RB_TYPE_P(frames, T_ARRAY))
		return rb_ary_new();
	count = RARRAY_LEN(frames) < rendering->callers ? RARRAY_LEN(frames) : rendering->callers;
	return rb_ary_subseq(frames, RARRAY_LEN(frames) - count, count);
}

static VALUE outcome_of(const struct call_outcome *outcome, const char *name)
{
	if (strcmp(name, "result") == 0)
		return outcome->result;
	return strcmp(name, "error") == 0 ? outcome->error : DBL2NUM(outcome->elapsed);
}

/* What stands for no parameter. */
static VALUE own_value(const struct rendering *rendering, VALUE name)
{
	const char *bytes = rb_id2name(rb_sym2id(name));

	if (rendering->call->outcome && strncmp(bytes, "caller", strlen("caller")) != 0)
		return outcome_of(rendering->call->outcome, bytes);
	return callers_of(rendering, name);
}

static VALUE run_code(const struct rendering *rendering)
{
	const struct expression *item = rendering->item;
	long count = RARRAY_LEN(item->names);
	VALUE arguments[VALUES_MAX + 1];

	if (count > (long)VALUES_MAX)
		count = VALUES_MAX;
	arguments[0] = receiver_of(rendering->call);
	for (long i = 0; i < count; i++) {
		VALUE name = rb_ary_entry(item->names, i);
		bool own = i >= RARRAY_LEN(item->names) - item->own_names;

		arguments[i + 1] = own ? own_value(rendering, name) : local_variable(rendering, name);
	}
	return rb_method_call_with_block((int)count + 1, arguments, item->code, Qnil);
}

/* What to show; Qundef: that is shown already. */
static VALUE value_of(struct rendering *rendering)
{
	VALUE value = rendering->value;

	if (rendering->item) {
		switch (rendering->item->kind) {
		case EXPRESSION_SOURCE:
			render_source(rendering);
			return Qundef;
		case EXPRESSION_SELF:
			value = receiver_of(rendering->call);
			break;
		case EXPRESSION_IVAR:
			value = rb_attr_get(receiver_of(rendering->call), rendering->item->id);
			break;
		case EXPRESSION_LOCAL:
			rendering->absent = is_absent(rendering);
			if (rendering->absent)
				return Qundef;
			value = local_in_frame(rendering);
			if (value == Qundef)
				value = local_variable(rendering, ID2SYM(rendering->item->id));
			break;
		case EXPRESSION_ARGUMENT:
			/* Nobody asked for it by name: then no Proc is made of it, which would cost the application something. */
			if (rendering->item->number == 0 && rendering->item->optional) {
				text_append_cstr(rendering->text, "#<Proc>");
				return Qundef;
			}
			value = argument_of(rendering->call, rendering->item->number);
			break;
		case EXPRESSION_REST:
			value = rest_of(rendering->call, rendering->item->number);
			break;
		case EXPRESSION_COMPILED:
			value = run_code(rendering);
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

/* To show these, nothing is called that could raise or allocate. */
static bool is_simple(VALUE value)
{
	return RB_FIXNUM_P(value) || value == Qnil || value == Qtrue || value == Qfalse ||
	       (!RB_SPECIAL_CONST_P(value) && RB_BUILTIN_TYPE(value) == RUBY_T_STRING);
}

/* Shows what is plain, and leaves the rest for rendering_run(). For what finds its value without calling a method. */
static VALUE rendering_try(VALUE argument)
{
	struct rendering *rendering = (struct rendering *)argument;

	rendering->value = value_of(rendering);
	rendering->item = NULL;
	if (rendering->value != Qundef && !is_plain(rendering->value))
		return Qnil;
	if (rendering->value != Qundef)
		capture_value(rendering->text, rendering->value, rendering->options);
	rendering->value = Qundef;
	return Qnil;
}

static VALUE rendering_run(VALUE argument)
{
	struct rendering *rendering = (struct rendering *)argument;
	VALUE value = value_of(rendering);

	if (value == Qundef)
		return Qnil;
	if (rendering->options->flags & TRACE_INSPECT)
		capture_inspect(rendering->text, value, rendering->options);
	else
		capture_value(rendering->text, value, rendering->options);
	RB_GC_GUARD(value);
	return Qnil;
}

static VALUE describe_exception(VALUE argument)
{
	const struct rendering *rendering = (const struct rendering *)argument;

	text_append_cstr(rendering->text, "#<");
	class_name_add(rendering->text, rb_obj_class(rendering->value));
	text_append_cstr(rendering->text, ": ");
	capture_message(rendering->text, rendering->value, rendering->options);
	text_append_cstr(rendering->text, ">");
	return Qnil;
}

/*
 * Runs a part of a rendering, under the time limit where it may be Ruby code that runs. That has frames of its own, among which
 * the place of the call, or its block, would be looked for.
 *
 * Any call of a method, of Ruby's own, too, is a place where the VM raises what other threads have sent to this one: so where one
 * is called, that is held back meanwhile. It sets *jump.
 */
static enum evaluation_outcome run(VALUE (*part)(VALUE), struct rendering *rendering, VALUE *value, int *jump)
{
	const struct expression *item = rendering->item;
	enum evaluation_outcome outcome;
	bool is_at_hand = true;

	if (item && item->kind == EXPRESSION_SOURCE)
		return evaluate_quickly(part, (VALUE)rendering, value);
	if ((rendering->options->flags & TRACE_INSPECT) || (item && item->kind == EXPRESSION_COMPILED))
		return evaluate(part, (VALUE)rendering, rendering->options, rendering->options->expression_timeout_ms, value,
		                jump);
	if (item && item->kind == EXPRESSION_LOCAL && rendering->call->trace_arg) {
		VALUE local = local_in_frame(rendering);

		is_at_hand = local != Qundef;
		if (is_simple(local)) {
			capture_value(rendering->text, local, rendering->options);
			return EVALUATION_DONE;
		}
	}
	if (part == rendering_run && is_at_hand) {
		outcome = evaluate_quickly(rendering_try, (VALUE)rendering, value);
		if (outcome != EVALUATION_DONE || rendering->value == Qundef)
			return outcome;
	}
	return evaluate_undisturbed(part, (VALUE)rendering, value, jump);
}

static void restart(struct text *text)
{
	text->used = 0;
	text->cut = false;
}

/* Writes one rendering into its text; what is raised on the way becomes the text. */
static void render(struct rendering *rendering, int *jump)
{
	struct expression *item = rendering->item;
	VALUE value;

	if (item && item->own_names)
		evaluate_quickly(count_callers, (VALUE)rendering, &value);
	switch (run(rendering_run, rendering, &value, jump)) {
	case EVALUATION_DONE:
		break;
	case EVALUATION_RAISED:
		restart(rendering->text);
		rendering->value = value;
		if (!*jump)
			evaluate_undisturbed(describe_exception, (VALUE)rendering, &value, jump);
		break;
	case EVALUATION_TIMED_OUT:
		restart(rendering->text);
		text_printf(rendering->text, "#<timed out after %u ms>", rendering->options->expression_timeout_ms);
		if (item)
			item->switched_off = true;
		break;
	case EVALUATION_ENDED:
		restart(rendering->text);
		text_append_cstr(rendering->text, TRACE_ENDED);
		rendering->ended = true;
		break;
	case EVALUATION_THREW:
		restart(rendering->text);
		text_append_cstr(rendering->text, "#<throw>");
		break;
	case EVALUATION_JUMPED:
		restart(rendering->text);
		text_append_cstr(rendering->text, "#<interrupted>");
		break;
	}
	RB_GC_GUARD(value);
}

size_t expression_list_render(struct expression_list *list, const struct seen_call *call, const struct trace_options *options,
                              char *buffer, size_t size, int *jump)
{
	struct value_texts values, shown;
	VALUE binding = Qnil;
	bool ended = false;

	value_texts_begin(&values, buffer, size);
	shown = values;
	for (uint32_t i = 0; i < list->count; i++) {
		struct text text;
		struct rendering rendering = {.item = &list->items[i],
		                              .value = Qnil,
		                              .call = call,
		                              .options = options,
		                              .text = &text,
		                              .binding = &binding};

		if (is_left_out(&list->items[i], call)) {
			value_texts_leave_out(&values);
			continue;
		}
		if (!value_texts_open(&values, &text))
			break;
		if (list->items[i].switched_off)
			text_append_cstr(&text, "#<switched off: it timed out>");
		else if (*jump)
			text_append_cstr(&text, "#<interrupted>");
		else if (ended)
			text_append_cstr(&text, TRACE_ENDED);
		else
			render(&rendering, jump);
		ended = ended || rendering.ended;
		if (rendering.absent)
			value_texts_leave_out(&values);
		else
			value_texts_close(&values, &text);
		shown = values;
	}
	RB_GC_GUARD(binding);
	return value_texts_end(&shown);
}

struct test {
	struct rendering rendering;
	bool met;
};

static VALUE test_run(VALUE argument)
{
	struct test *test = (struct test *)argument;

	test->met = RTEST(value_of(&test->rendering));
	return Qnil;
}

enum expression_truth expression_test(struct expression_list *condition, const struct seen_call *call,
                                      const struct trace_options *options, struct text *why, int *jump)
{
	struct expression *item = &condition->items[0];
	VALUE binding = Qnil, value = Qnil;
	struct test test = {
		.rendering = {.item = item, .value = Qnil, .call = call, .options = options, .text = why, .binding = &binding}};

	if (item->switched_off)
		return EXPRESSION_FAILED;
	if (*jump)
		return EXPRESSION_FALSE;
	evaluate_quickly(count_callers, (VALUE)&test.rendering, &value);
	switch (evaluate(test_run, (VALUE)&test, options, options->expression_timeout_ms, &value, jump)) {
	case EVALUATION_DONE:
		return test.met ? EXPRESSION_TRUE : EXPRESSION_FALSE;
	case EVALUATION_RAISED:
		test.rendering.value = value;
		if (!*jump)
			evaluate_undisturbed(describe_exception, (VALUE)&test.rendering, &value, jump);
		return EXPRESSION_FAILED;
	case EVALUATION_TIMED_OUT:
		text_printf(why, "#<timed out after %u ms>", options->expression_timeout_ms);
		item->switched_off = true;
		return EXPRESSION_FAILED;
	default:
		return EXPRESSION_FALSE;
	}
}

size_t expression_render_result(VALUE value, const struct trace_options *options, char *buffer, size_t size, int *jump)
{
	struct value_texts values;
	struct text text;
	struct rendering rendering = {.value = value, .options = options, .text = &text};

	value_texts_begin(&values, buffer, size);
	if (value_texts_open(&values, &text)) {
		render(&rendering, jump);
		value_texts_close(&values, &text);
	}
	return value_texts_end(&values);
}

static VALUE exception_class(VALUE argument)
{
	const struct rendering *rendering = (const struct rendering *)argument;

	class_name_add(rendering->text, rb_obj_class(rendering->value));
	return Qnil;
}

static VALUE exception_message(VALUE argument)
{
	const struct rendering *rendering = (const struct rendering *)argument;

	if (rendering->options->flags & TRACE_INSPECT) {
		VALUE message = rb_obj_as_string(builtin_ask(rendering->value, "message"));

		capture_escaped(rendering->text, RSTRING_PTR(message), (size_t)RSTRING_LEN(message), true);
		RB_GC_GUARD(message);
	} else {
		capture_message(rendering->text, rendering->value, rendering->options);
	}
	return Qnil;
}

size_t expression_render_exception(VALUE exception, const struct trace_options *options, char *buffer, size_t size, int *jump)
{
	static VALUE (*const parts[])(VALUE) = {exception_class, exception_message};
	struct value_texts values;
	struct text text;
	struct rendering rendering = {.value = exception, .options = options, .text = &text};

	value_texts_begin(&values, buffer, size);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && value_texts_open(&values, &text); i++) {
		VALUE unused;

		if (*jump)
			text_append_cstr(&text, "#<interrupted>");
		else
			run(parts[i], &rendering, &unused, jump);
		value_texts_close(&values, &text);
	}
	return value_texts_end(&values);
}
