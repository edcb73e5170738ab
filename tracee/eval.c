/*
 * The eval request: runs a piece of the user's Ruby in a thread of its own and sends what it returned. Context: job (begin, cancel), and the Ruby
 * thread that runs the code; GVL held in both.
 */

#include "request.h"

#include <errno.h>
#include <ruby.h>

struct eval {
	struct request *request;
	VALUE code;
};

static VALUE run_code(VALUE code)
{
	return rb_inspect(rb_funcall(rb_const_get(rb_cObject, rb_intern("TOPLEVEL_BINDING")), rb_intern("eval"), 1, code));
}

static void pack_pair(msgpack_packer *packer, const char *key, VALUE text)
{
	msgpack_pack_str(packer, strlen(key));
	msgpack_pack_str_body(packer, key, strlen(key));
	msgpack_pack_str(packer, (size_t)RSTRING_LEN(text));
	msgpack_pack_str_body(packer, RSTRING_PTR(text), (size_t)RSTRING_LEN(text));
}

static VALUE thread_main(void *argument)
{
	struct request *request = argument;
	struct eval *eval = request->state;
	msgpack_sbuffer packed;
	msgpack_packer packer;
	int failed = 0;
	VALUE text = rb_protect(run_code, eval->code, &failed);

	rb_gc_unregister_address(&eval->code);
	free(eval);
	if (failed) {
		rb_set_errinfo(Qnil);
		request_finish(request, ECANCELED, "it raised");
		return Qnil;
	}
	msgpack_sbuffer_init(&packed);
	msgpack_packer_init(&packer, &packed, msgpack_sbuffer_write);
	msgpack_pack_map(&packer, 1);
	pack_pair(&packer, "text", text);
	request_data(request, &packed);
	msgpack_sbuffer_destroy(&packed);
	request_finish(request, 0, "%s", "");
	return Qnil;
}

static void begin(struct request *request, const struct command *command)
{
	struct eval *eval = calloc(1, sizeof(*eval));

	if (!eval) {
		request_finish(request, ENOMEM, "no memory");
		return;
	}
	request->state = eval;
	eval->code = rb_utf8_str_new(command->request.text.bytes, (long)command->request.text.size);
	rb_gc_register_address(&eval->code);
	rb_thread_create(thread_main, request);
}

const struct request_kind request_eval = {.name = "eval", .begin = begin};
