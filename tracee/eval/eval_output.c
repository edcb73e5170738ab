/*
 * What evaluated code writes to $stdout and $stderr goes to its client. See eval.h.
 *
 * Both are global. So while any evaluation runs a proxy stands in each: what a thread of an evaluation writes goes to the client,
 * everything else to the object that was there before, which answers for the proxy in all things but identity. A proxy that the
 * application has kept goes on doing that for ever. The proxy is no IO for Ruby's C code, which therefore calls its methods, or
 * asks for its to_io.
 *
 * Context: any Ruby thread of the main Ractor, GVL held.
 */

#include "tracee/eval/eval.h"

#include "tracee/vm/compat.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/own.h"

#include <unistd.h>

#define WAIT_US 2000     /* between two looks whether the client has read */
#define PART (64u << 10) /* bytes that are sent without looking */

static struct {
	VALUE class;
	ID original; /* the proxy's hidden instance variables */
	ID stream;
	ID write;
	unsigned active; /* evaluations */
	pid_t pid;       /* of the process that counts them */
} outputs;

static const struct {
	const char *variable;
	enum output_stream stream;
} variables[] = {{"$stdout", OUTPUT_STDOUT}, {"$stderr", OUTPUT_STDERR}};

#define VARIABLES (sizeof(variables) / sizeof(*variables))

static bool is_proxy(VALUE object)
{
	return !RB_SPECIAL_CONST_P(object) && rb_obj_class(object) == outputs.class;
}

static VALUE original_of(VALUE proxy)
{
	return rb_ivar_get(proxy, outputs.original);
}

static VALUE install(VALUE unused)
{
	(void)unused;
	for (size_t i = 0; i < VARIABLES; i++) {
		VALUE now = rb_gv_get(variables[i].variable), proxy;

		if (is_proxy(now))
			continue;
		proxy = rb_obj_alloc(outputs.class);
		rb_ivar_set(proxy, outputs.original, now);
		rb_ivar_set(proxy, outputs.stream, INT2FIX(variables[i].stream));
		rb_gv_set(variables[i].variable, proxy);
	}
	return Qnil;
}

/* What the application has put there meanwhile is left alone. */
static VALUE uninstall(VALUE unused)
{
	(void)unused;
	for (size_t i = 0; i < VARIABLES; i++) {
		VALUE now = rb_gv_get(variables[i].variable);

		if (is_proxy(now))
			rb_gv_set(variables[i].variable, original_of(now));
	}
	return Qnil;
}

static void try(VALUE (*function)(VALUE))
{
	int failed = 0;

	rb_protect(function, Qnil, &failed);
	if (failed)
		exception_drop(Qnil);
}

void eval_output_begin(void)
{
	if (outputs.pid != getpid())
		outputs.active = 0;
	outputs.pid = getpid();
	outputs.active++;
	try(install);
}

void eval_output_end(void)
{
	/* In a forked child there is nobody to count. */
	if (outputs.pid == getpid() && --outputs.active > 0)
		return;
	try(uninstall);
}

bool eval_output_send(enum output_stream stream, const char *bytes, size_t size)
{
	while (size > 0) {
		struct eval *eval = eval_current();
		size_t part = size < PART ? size : PART;

		if (!eval)
			return false;
		if (!request_may_send(eval->request)) {
			struct timeval pause = {.tv_usec = WAIT_US};

			rb_thread_wait_for(pause);
			continue;
		}
		request_output(eval->request, stream, bytes, part);
		bytes += part;
		size -= part;
	}
	return true;
}

/* Whether the running thread belongs to an evaluation: then the proxy answers itself. */
static bool is_ours(VALUE proxy)
{
	(void)proxy;
	if (!compat_in_main_ractor())
		return false;
	if (outputs.pid != getpid() && outputs.active) {
		/* A forked child: its parent's evaluations are none of its. */
		outputs.active = 0;
		outputs.pid = getpid();
		try(uninstall);
	}
	return outputs.active && eval_current() != NULL;
}

static VALUE pass_on(VALUE proxy, ID method, int argc, const VALUE *argv)
{
	return rb_funcall_passing_block_kw(original_of(proxy), method, argc, argv, RB_PASS_CALLED_KEYWORDS);
}

static VALUE proxy_missing(int argc, VALUE *argv, VALUE proxy)
{
	return pass_on(proxy, rb_sym2id(argv[0]), argc - 1, argv + 1);
}

static VALUE proxy_write(int argc, VALUE *argv, VALUE proxy)
{
	size_t written = 0;

	if (!is_ours(proxy))
		return pass_on(proxy, outputs.write, argc, argv);
	for (int i = 0; i < argc; i++) {
		VALUE string = rb_str_new_frozen(rb_obj_as_string(argv[i]));
		enum output_stream stream = (enum output_stream)FIX2INT(rb_ivar_get(proxy, outputs.stream));

		/* It was cut short by the end of the evaluation: the rest is for nobody. */
		eval_output_send(stream, RSTRING_PTR(string), (size_t)RSTRING_LEN(string));
		written += (size_t)RSTRING_LEN(string);
		RB_GC_GUARD(string);
	}
	return ULL2NUM(written);
}

static VALUE write_one(VALUE proxy, VALUE object)
{
	return proxy_write(1, &object, proxy);
}

/* write_nonblock(string, exception: ...), syswrite, write with options */
static VALUE own_syswrite(int argc, VALUE *argv, VALUE proxy)
{
	return argc > 0 ? write_one(proxy, argv[0]) : INT2FIX(0);
}

static VALUE own_puts(int argc, VALUE *argv, VALUE proxy)
{
	return rb_io_puts(argc, argv, proxy);
}

static VALUE own_print(int argc, VALUE *argv, VALUE proxy)
{
	return rb_io_print(argc, argv, proxy);
}

static VALUE own_printf(int argc, VALUE *argv, VALUE proxy)
{
	return rb_io_printf(argc, argv, proxy);
}

static VALUE own_append(int argc, VALUE *argv, VALUE proxy)
{
	if (argc > 0)
		write_one(proxy, argv[0]);
	return proxy;
}

static VALUE own_putc(int argc, VALUE *argv, VALUE proxy)
{
	VALUE character = argc > 0 ? argv[0] : Qnil;

	if (RB_TYPE_P(character, T_STRING)) {
		write_one(proxy, rb_str_substr(character, 0, 1));
	} else {
		char byte = NUM2CHR(character);

		write_one(proxy, rb_str_new(&byte, 1));
	}
	return character;
}

static VALUE own_self(int argc, VALUE *argv, VALUE proxy)
{
	(void)argc;
	(void)argv;
	return proxy;
}

static VALUE own_nil(int argc, VALUE *argv, VALUE proxy)
{
	(void)argc;
	(void)argv;
	(void)proxy;
	return Qnil;
}

static VALUE own_zero(int argc, VALUE *argv, VALUE proxy)
{
	(void)argc;
	(void)argv;
	(void)proxy;
	return INT2FIX(0);
}

static VALUE own_true(int argc, VALUE *argv, VALUE proxy)
{
	(void)argc;
	(void)argv;
	(void)proxy;
	return Qtrue;
}

static VALUE own_false(int argc, VALUE *argv, VALUE proxy)
{
	(void)argc;
	(void)argv;
	(void)proxy;
	return Qfalse;
}

/* First argument: what is assigned. */
static VALUE own_assignment(int argc, VALUE *argv, VALUE proxy)
{
	(void)proxy;
	return argc > 0 ? argv[0] : Qnil;
}

/* What the proxy answers in the threads of an evaluation; all else, and in all other threads, is passed on. */
static const struct own_method {
	const char *name;
	VALUE (*function)(int argc, VALUE *argv, VALUE proxy);
} own_methods[] = {
	{"puts", own_puts},
	{"print", own_print},
	{"printf", own_printf},
	{"<<", own_append},
	{"putc", own_putc},
	{"syswrite", own_syswrite},
	{"write_nonblock", own_syswrite},
	{"flush", own_self},
	{"fsync", own_zero},
	{"fdatasync", own_zero},
	{"sync", own_true},
	{"sync=", own_assignment},
	{"tty?", own_false},
	{"isatty", own_false},
	/* The application goes on writing to it. */
	{"close", own_nil},
	{"close_write", own_nil},
};

#define OWN_METHODS (sizeof(own_methods) / sizeof(*own_methods))

static ID own_ids[OWN_METHODS];

static VALUE proxy_own(int argc, VALUE *argv, VALUE proxy)
{
	ID called = rb_frame_this_func();

	if (is_ours(proxy))
		for (size_t i = 0; i < OWN_METHODS; i++)
			if (own_ids[i] == called)
				return own_methods[i].function(argc, argv, proxy);
	return pass_on(proxy, called, argc, argv);
}

/* What BasicObject and the VM would otherwise answer for the proxy itself. */
static VALUE proxy_pass_on(int argc, VALUE *argv, VALUE proxy)
{
	return pass_on(proxy, rb_frame_this_func(), argc, argv);
}

static VALUE proxy_equal(VALUE proxy, VALUE other)
{
	return proxy == other ? Qtrue : rb_equal(original_of(proxy), is_proxy(other) ? original_of(other) : other);
}

static VALUE proxy_not_equal(VALUE proxy, VALUE other)
{
	return RTEST(proxy_equal(proxy, other)) ? Qfalse : Qtrue;
}

static VALUE proxy_same(VALUE proxy, VALUE other)
{
	return proxy == other || original_of(proxy) == other ? Qtrue : Qfalse;
}

static const char *const passed_on[] = {"respond_to?", "to_io", "class", "is_a?",  "kind_of?",      "instance_of?",  "inspect",
                                        "to_s",        "hash",  "eql?",  "reopen", "instance_eval", "instance_exec", "object_id"};

void eval_output_init(void)
{
	own_register(&outputs.class); /* first: it allocates, and may collect */
	outputs.class = own_class_new(rb_cBasicObject);
	outputs.original = rb_intern("original");
	outputs.stream = rb_intern("stream");
	outputs.write = rb_intern("write");
	rb_define_method(outputs.class, "method_missing", proxy_missing, -1);
	rb_define_method(outputs.class, "write", proxy_write, -1);
	for (size_t i = 0; i < OWN_METHODS; i++) {
		own_ids[i] = rb_intern(own_methods[i].name);
		rb_define_method(outputs.class, own_methods[i].name, proxy_own, -1);
	}
	for (size_t i = 0; i < sizeof(passed_on) / sizeof(*passed_on); i++)
		rb_define_method(outputs.class, passed_on[i], proxy_pass_on, -1);
	rb_define_method(outputs.class, "==", proxy_equal, 1);
	rb_define_method(outputs.class, "!=", proxy_not_equal, 1);
	rb_define_method(outputs.class, "equal?", proxy_same, 1);
}
