/* What came of an evaluation, for the client. See eval.h. Context: the thread that ran it, GVL held. */

#define _GNU_SOURCE
#include "tracee/eval/eval.h"

#include "tracee/base/msgpack_builder.h"
#include "tracee/session/ruby_msgpack.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/quiet.h"

#include <ruby/encoding.h>

#define FRAMES_MAX 100u         /* of one backtrace; of a longer one both ends are shown */
#define FRAME_TEXT_MAX 512u     /* bytes */
#define MESSAGE_MAX (96u << 10) /* bytes; all of a DATA record have to fit into FRAME_SIZE_MAX */
#define CAUSE_MESSAGE_MAX (4u << 10)
#define RAW_PART (64u << 10)

/* As UTF-8 where that can be done: what the client shows. */
static VALUE to_utf8(VALUE string)
{
	return rb_str_conv_enc(string, rb_enc_get(string), rb_utf8_encoding());
}

/* The bytes up to limit that are whole characters. */
static size_t cut_at(VALUE string, uint64_t limit)
{
	const char *bytes = RSTRING_PTR(string);
	size_t size = (size_t)RSTRING_LEN(string);

	if (size <= limit)
		return size;
	size = (size_t)limit;
	for (unsigned i = 0; i < 3 && size > 0 && ((unsigned char)bytes[size] & 0xc0) == 0x80; i++)
		size--;
	return size;
}

static VALUE name_of_class(VALUE class)
{
	return builtin_call0(BUILTIN_MODULE_TO_S, class);
}

static VALUE call_message(VALUE error)
{
	return rb_obj_as_string(builtin_ask(error, "message"));
}

/*
 * A SyntaxError has no detail of its own; but from 3.2 on syntax_suggest adds some. To do so it loads itself, which in a busy
 * process takes the GVL hundreds of times, 100 ms and more each.
 */
static VALUE call_detail(VALUE error)
{
	VALUE options;

	if (RTEST(rb_obj_is_kind_of(error, rb_eSyntaxError)) || !builtin_is_answered(error, "detailed_message"))
		return Qnil;
	options = rb_hash_new();
	rb_hash_aset(options, ID2SYM(rb_intern("highlight")), Qfalse);
	return rb_obj_as_string(builtin_ask_keywords(error, "detailed_message", options));
}

static VALUE call_backtrace(VALUE error)
{
	return builtin_ask(error, "backtrace");
}

static VALUE call_cause(VALUE error)
{
	return builtin_ask(error, "cause");
}

/* Calls a method of the application's; nil, and the exception, where it raises. What cancels or kills us goes on. */
static VALUE ask(const struct eval *eval, VALUE (*function)(VALUE), VALUE object, VALUE *error)
{
	/* It is heard, as the code was. */
	struct quiet heard = quiet_pause();
	int failed = 0;
	VALUE answer = rb_protect(function, object, &failed);

	quiet_end(heard);
	if (!failed)
		return answer;
	if (!builtin_is_exception(rb_errinfo()) || rb_errinfo() == eval->exception)
		rb_jump_tag(failed);
	if (error)
		*error = rb_errinfo();
	exception_drop(Qnil);
	return Qnil;
}

static VALUE call_inspect(VALUE object)
{
	/* A BasicObject has no such method; it is no mistake to look at one. */
	if (!RTEST(rb_obj_is_kind_of(object, rb_mKernel)) && !builtin_is_answered(object, "inspect"))
		return rb_any_to_s(object);
	return builtin_ask(object, "inspect");
}

/* A result whose inspect fails is a result all the same. */
static VALUE inspect(const struct eval *eval, VALUE object)
{
	VALUE error = Qnil, message;
	VALUE text = ask(eval, call_inspect, object, &error);

	if (NIL_P(error) && RB_TYPE_P(text, T_STRING))
		return text;
	if (NIL_P(error))
		return rb_sprintf("#<%" PRIsVALUE ": its inspect returned no String but a %" PRIsVALUE ">", eval->class_name,
		                  name_of_class(rb_obj_class(text)));
	message = ask(eval, call_message, error, NULL);
	text = rb_sprintf("#<%" PRIsVALUE ": its inspect raised %" PRIsVALUE, eval->class_name,
	                  name_of_class(rb_obj_class(error)));
	if (!NIL_P(message))
		rb_str_catf(text, ": %" PRIsVALUE, message);
	return rb_str_cat_cstr(text, ">");
}

/* Waits for the client where it does not keep up. May raise. */
static void send_raw(struct eval *eval, VALUE string)
{
	eval->text_size = (uint64_t)RSTRING_LEN(string);
	for (long at = 0; at < RSTRING_LEN(string); at += RAW_PART) {
		long part = RSTRING_LEN(string) - at < (long)RAW_PART ? RSTRING_LEN(string) - at : (long)RAW_PART;

		if (!eval_output_send(OUTPUT_RESULT, RSTRING_PTR(string) + at, (size_t)part))
			return;
	}
}

void eval_result_returned(struct eval *eval, VALUE result)
{
	eval->class_name = name_of_class(rb_obj_class(result));
	if (eval->flags & EVAL_SUBJECT)
		return;
	if ((eval->flags & EVAL_RAW) && RB_TYPE_P(result, T_STRING)) {
		/* The application may go on changing it meanwhile. */
		send_raw(eval, rb_str_new_frozen(result));
	} else {
		VALUE text = to_utf8(inspect(eval, result));
		size_t size = cut_at(text, eval->limit);

		eval->text_size = (uint64_t)RSTRING_LEN(text);
		eval->cut = size < eval->text_size;
		eval->text = eval->cut ? rb_str_subseq(text, 0, (long)size) : text;
	}
	RB_GC_GUARD(result);
}

static VALUE shorten(VALUE string, uint64_t limit)
{
	if (NIL_P(string))
		return Qnil;
	string = to_utf8(string);
	return rb_str_subseq(string, 0, (long)cut_at(string, limit));
}

static VALUE shorten_frames(VALUE frames)
{
	VALUE short_frames = rb_ary_new();
	long count;

	if (!RB_TYPE_P(frames, T_ARRAY))
		return Qnil;
	count = RARRAY_LEN(frames);
	for (long i = 0; i < RARRAY_LEN(frames); i++) {
		if (count > (long)FRAMES_MAX && i == (long)FRAMES_MAX / 2) {
			long left_out = count - (long)FRAMES_MAX;

			rb_ary_push(short_frames, rb_sprintf("... %ld more ...", left_out));
			i += left_out;
		}
		rb_ary_push(short_frames, shorten(rb_obj_as_string(rb_ary_entry(frames, i)), FRAME_TEXT_MAX));
	}
	return short_frames;
}

static void describe(struct eval *eval, VALUE error)
{
	struct eval_exception *exception = &eval->raised[eval->raised_count];
	uint64_t limit = eval->raised_count ? CAUSE_MESSAGE_MAX : MESSAGE_MAX;

	exception->class_name = exception->message = exception->detail = exception->backtrace = Qnil;
	eval->raised_count++;
	exception->class_name = name_of_class(rb_obj_class(error));
	exception->backtrace = shorten_frames(eval_own_frames(eval, ask(eval, call_backtrace, error, NULL)));
	exception->message = shorten(ask(eval, call_message, error, NULL), limit);
	exception->detail = shorten(ask(eval, call_detail, error, NULL), limit);
}

void eval_result_raised(struct eval *eval, VALUE error)
{
	eval->raised_count = 0;
	for (;;) {
		describe(eval, error);
		error = ask(eval, call_cause, error, NULL);
		/* The method is the application's: it may answer anything. */
		if (eval->raised_count > EVAL_CAUSES_MAX || !RTEST(rb_obj_is_kind_of(error, rb_eException)))
			return;
	}
}

void eval_result_thrown(struct eval *eval)
{
	eval->raised[0] = (struct eval_exception){Qnil, Qnil, Qnil, Qnil};
	eval->raised_count = 1;
	eval->raised[0].class_name = rb_str_new_cstr("UncaughtThrowError");
	eval->raised[0].message = rb_str_new_cstr("the code threw to a catch outside of it");
}

static void add_strings(struct msgpack_builder *answer, const char *key, VALUE strings)
{
	if (NIL_P(strings))
		return;
	builder_array(answer, key);
	for (long i = 0; i < RARRAY_LEN(strings); i++)
		ruby_msgpack_string(answer, NULL, RARRAY_AREF(strings, i));
	builder_end(answer);
}

static void add_exception(struct msgpack_builder *answer, const struct eval_exception *exception)
{
	ruby_msgpack_string(answer, "class", exception->class_name);
	ruby_msgpack_string(answer, "message", exception->message);
	ruby_msgpack_string(answer, "detail", exception->detail);
	add_strings(answer, "backtrace", exception->backtrace);
}

static void add_causes(struct msgpack_builder *answer, const struct eval *eval)
{
	if (eval->raised_count < 2)
		return;
	builder_array(answer, "causes");
	for (unsigned i = 1; i < eval->raised_count; i++) {
		builder_map(answer, NULL);
		add_exception(answer, &eval->raised[i]);
		builder_end(answer);
	}
	builder_end(answer);
}

static const char *const outcome_names[EVAL_OUTCOME_COUNT] = {
	[EVAL_RETURNED] = "returned",     [EVAL_RAISED] = "raised",       [EVAL_SYNTAX_ERROR] = "syntax_error",
	[EVAL_INCOMPLETE] = "incomplete", [EVAL_CANCELLED] = "cancelled", [EVAL_TIMED_OUT] = "timeout",
	[EVAL_KILLED] = "killed",
};

bool eval_result_send(struct eval *eval)
{
	struct msgpack_builder answer;
	bool sent;

	builder_init(&answer);
	builder_map(&answer, NULL);
	builder_cstr(&answer, "outcome", outcome_names[eval->outcome]);
	builder_uint(&answer, "duration_ns", eval->ended_ns - eval->began_ns);
	if (eval->outcome == EVAL_RETURNED) {
		ruby_msgpack_string(&answer, "class", eval->class_name);
		ruby_msgpack_string(&answer, "text", eval->text);
		builder_uint(&answer, "size", eval->text_size);
		if (eval->cut)
			builder_bool(&answer, "cut", true);
	} else if (eval->raised_count) {
		add_exception(&answer, &eval->raised[0]);
		add_causes(&answer, eval);
	}
	if (eval->line)
		builder_uint(&answer, "line", eval->line);
	if (eval->column)
		builder_uint(&answer, "column", eval->column);
	builder_end(&answer);
	sent = request_answer(eval->request, &answer);
	builder_free(&answer);
	return sent;
}
