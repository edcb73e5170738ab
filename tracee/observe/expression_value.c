/* Finding the value of an expression. See expression_parts.h. Context: event, GVL held; what may raise runs under evaluate(). */

#include "tracee/observe/expression_parts.h"

#include "tracee/frame/frame_locals.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/capture.h"

#include <string.h>

#define FRAMES_LOOKED_AT 16

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

static VALUE binding_of(const struct rendering *rendering)
{
	if (NIL_P(*rendering->binding))
		*rendering->binding = rb_tracearg_binding(rendering->call->trace_arg);
	return *rendering->binding;
}

/* A line may be reached by code around the block that has the variable, too. */
static bool is_absent(const struct rendering *rendering)
{
	if (rendering->item->is_nameless) {
		VALUE local = expression_local_in_frame(rendering->item, rendering->call);

		return local == Qundef;
	}
	return rendering->item->optional && !NIL_P(binding_of(rendering)) &&
	       !RTEST(builtin_call1(BUILTIN_BINDING_LOCAL_VARIABLE_DEFINED_P, *rendering->binding, ID2SYM(rendering->item->id)));
}

static VALUE collection_or_undefined(VALUE value)
{
	return RB_TYPE_P(value, T_ARRAY) || RB_TYPE_P(value, T_HASH) ? value : Qundef;
}

VALUE expression_local_in_frame(struct expression *item, const struct seen_call *call)
{
	uintptr_t frame;

	if (!call->trace_arg || !(call->event == RUBY_EVENT_CALL || call->ends_in_frame) || item->is_block ||
	    !frame_locals_are_known())
		return Qundef;
	frame = frame_direct_frame(call->trace_arg);
	if (item->in_code != frame_locals_code(frame)) {
		item->place = frame_locals_place(frame, item->id);
		if (!item->place && item->position)
			item->place = frame_locals_nameless_place(frame, item->position - 1);
		item->in_code = frame_locals_code(frame);
	}
	if (!item->place)
		return Qundef;
	return item->is_nameless ? collection_or_undefined(frame_locals_read(frame, item->place))
	                         : frame_locals_read(frame, item->place);
}

VALUE expression_value_at_hand(struct expression *item, const struct seen_call *call)
{
	switch (item->kind) {
	case EXPRESSION_SELF:
		return receiver_of(call);
	case EXPRESSION_LOCAL:
		return item->is_nameless ? Qundef : expression_local_in_frame(item, call);
	case EXPRESSION_ARGUMENT:
		return call->arity >= -1 && item->number && (long)item->number <= call->argc ? call->argv[item->number - 1]
		                                                                             : Qundef;
	default:
		return Qundef;
	}
}

static VALUE local_variable(const struct rendering *rendering, VALUE name)
{
	if (!rendering->call->trace_arg)
		return argument_of(rendering->call, expression_argument_number(name));
	if (NIL_P(binding_of(rendering)))
		return Qnil;
	return builtin_call1(BUILTIN_BINDING_LOCAL_VARIABLE_GET, *rendering->binding, name);
}

VALUE expression_count_callers(VALUE argument)
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

VALUE expression_value_of(struct rendering *rendering)
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
			value = expression_local_in_frame(rendering->item, rendering->call);
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
