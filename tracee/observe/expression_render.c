/* The values of an event, rendered. See expression.h. Context: event, GVL held; what may raise runs under evaluate(). */

#include "tracee/observe/expression_parts.h"

#include "tracee/base/value_texts.h"
#include "tracee/observe/missing_reason.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/capture.h"
#include "tracee/vm/class_name.h"
#include "tracee/vm/evaluation.h"

#define TRACE_ENDED "#<the trace has ended>"

#define LOCALS_SIZE_MIN 64 /* less room is none: the message of an exception may have taken it */

/* To show these, no method is called. */
static bool is_plain(VALUE value)
{
	return RB_SPECIAL_CONST_P(value) || RB_BUILTIN_TYPE(value) == RUBY_T_STRING || RB_BUILTIN_TYPE(value) == RUBY_T_FLOAT ||
	       RB_BUILTIN_TYPE(value) == RUBY_T_BIGNUM;
}

/* Shows what is plain, and leaves the rest for rendering_run(). For what finds its value without calling a method. */
static VALUE rendering_try(VALUE argument)
{
	struct rendering *rendering = (struct rendering *)argument;

	rendering->value = expression_value_of(rendering);
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
	VALUE value = expression_value_of(rendering);

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
	if (item && item->kind == EXPRESSION_LOCAL && !item->is_nameless && rendering->call->trace_arg) {
		VALUE local = expression_local_in_frame(rendering->item, rendering->call);

		is_at_hand = local != Qundef;
		if (expression_is_simple(local)) {
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
		evaluate_quickly(expression_count_callers, (VALUE)rendering, &value);
	switch (run(rendering_run, rendering, &value, jump)) {
	case EVALUATION_DONE:
		break;
	case EVALUATION_RAISED:
		restart(rendering->text);
		rendering->value = value;
		missing_reason_reset(value);
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

static bool is_left_out(const struct expression *item, const struct seen_call *call)
{
	long count = call->arity == -2 ? RARRAY_LEN(call->argv[0]) : call->argc;

	if (!item->optional || item->kind == EXPRESSION_LOCAL)
		return false;
	return item->number ? (long)item->number > count : !rb_block_given_p();
}

size_t expression_list_render(struct expression_list *list, const struct seen_call *call, const struct trace_options *options,
                              char *buffer, size_t size, int *jump)
{
	struct value_texts values, shown;
	VALUE binding = call->binding ? call->binding : Qnil;
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

size_t expression_append_ends(struct expression_list *list, const struct seen_call *call, const struct trace_options *options,
                              char *buffer, size_t used, size_t size, int *jump)
{
	if (used == 0) {
		struct value_texts none;

		value_texts_begin(&none, buffer, size);
		used = value_texts_end(&none);
	}
	if (size - used < LOCALS_SIZE_MIN)
		return used;
	used += expression_list_render(list, call, options, buffer + used, size - used, jump);
	buffer[2]++; /* an outcome has two texts at most */
	return used;
}

struct test {
	struct rendering rendering;
	bool met;
};

static VALUE test_run(VALUE argument)
{
	struct test *test = (struct test *)argument;

	test->met = RTEST(expression_value_of(&test->rendering));
	return Qnil;
}

enum expression_truth expression_test(struct expression_list *condition, const struct seen_call *call,
                                      const struct trace_options *options, struct text *why, int *jump)
{
	struct expression *item = &condition->items[0];
	VALUE binding = call->binding ? call->binding : Qnil, value = Qnil;
	struct test test = {
		.rendering = {.item = item, .value = Qnil, .call = call, .options = options, .text = why, .binding = &binding}};

	if (item->switched_off)
		return EXPRESSION_FAILED;
	if (*jump)
		return EXPRESSION_FALSE;
	evaluate_quickly(expression_count_callers, (VALUE)&test.rendering, &value);
	switch (evaluate(test_run, (VALUE)&test, options, options->expression_timeout_ms, &value, jump)) {
	case EVALUATION_DONE:
		return test.met ? EXPRESSION_TRUE : EXPRESSION_FALSE;
	case EVALUATION_RAISED:
		test.rendering.value = value;
		missing_reason_reset(value);
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

static VALUE key_of_error(VALUE argument)
{
	const struct rendering *rendering = (const struct rendering *)argument;

	text_append_cstr(rendering->text, "(error: ");
	class_name_add(rendering->text, rb_obj_class(rendering->value));
	text_append_cstr(rendering->text, ")");
	return Qnil;
}

bool expression_key(struct expression_list *list, const struct seen_call *call, const struct trace_options *options,
                    struct text *name, struct text *why, int *jump)
{
	struct expression *item = &list->items[0];
	VALUE binding = Qnil, value = Qnil;
	struct rendering rendering = {
		.item = item, .value = Qnil, .call = call, .options = options, .text = name, .binding = &binding};
	bool in_time = true;

	if (item->switched_off) {
		text_append_cstr(name, "(switched off: it timed out)");
		return true;
	}
	if (item->own_names)
		evaluate_quickly(expression_count_callers, (VALUE)&rendering, &value);
	switch (run(rendering_run, &rendering, &value, jump)) {
	case EVALUATION_DONE:
		break;
	case EVALUATION_RAISED:
		restart(name);
		rendering.value = value;
		missing_reason_reset(value);
		if (!*jump)
			evaluate_undisturbed(key_of_error, (VALUE)&rendering, &value, jump);
		rendering.text = why;
		if (why && !*jump)
			evaluate_undisturbed(describe_exception, (VALUE)&rendering, &value, jump);
		break;
	case EVALUATION_TIMED_OUT:
		restart(name);
		text_append_cstr(name, "(timed out)");
		item->switched_off = true;
		in_time = false;
		break;
	case EVALUATION_THREW:
		restart(name);
		text_append_cstr(name, "(throw)");
		break;
	case EVALUATION_ENDED:
	case EVALUATION_JUMPED:
		restart(name);
		break;
	}
	RB_GC_GUARD(binding);
	RB_GC_GUARD(rendering.value);
	RB_GC_GUARD(value);
	return in_time;
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
