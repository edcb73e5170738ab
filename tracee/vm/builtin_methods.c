/*
 * Ruby's own methods, whatever the application did to them. See builtin_methods.h.
 *
 * Each is kept as an UnboundMethod, together with that one's bind_call as a Method: rb_method_call_with_block() calls it without
 * looking anything up. (rb_method_call() will not do: it passes on the block of the frame that was interrupted.)
 *
 * builtin_find.c finds them, builtin_compile.c and builtin_helpers.c have what is built from them.
 */

#include "tracee/vm/builtin_methods.h"

#include "tracee/vm/builtin_find.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/own.h"

#include <stdio.h>
#include <string.h>

static const struct {
	const char *class_name;
	const char *method_name;
	unsigned flags;
} builtin_names[BUILTIN_COUNT] = {
#define BUILTIN_ENTRY(name, class_name, method_name, flags) [BUILTIN_##name] = {class_name, method_name, flags},
	BUILTIN_TABLE(BUILTIN_ENTRY)
#undef BUILTIN_ENTRY
};

enum state {
	UNKNOWN,
	FOUND,
	ABSENT,
	TAKEN, /* by the application */
};

/* Under the GVL. */
static struct {
	enum state state;
	bool is_there; /* Ruby's own, be there a way to call it or not */
	VALUE method;  /* an UnboundMethod: Ruby's; where it is taken, the application's, or Qnil: undefined */
	VALUE caller;  /* its bind_call, a Method */
} core[BUILTIN_COUNT];

/*
 * A frame of ours. instance_method and super_method obey the refinements of the nearest Ruby frame, which in a job is whatever
 * was interrupted. Where that says `using`, String.instance_method(:upcase) is the refinement's, and super_method of a refined
 * method is the same method, for ever (2.7 to 4.0). Code that is compiled at the top level has no refinements: what is called
 * from it finds the class's own method. For module_eval that frame is the scope of the code.
 */
static const char frame_source[] = "->(__rbprobe_frame, __rbprobe_call) { __rbprobe_frame.run(__rbprobe_call) }";

/* The same with a block. */
static const char iterator_source[] = "->(__rbprobe_frame, __rbprobe_call) { __rbprobe_frame.iterate(__rbprobe_call) "
				      "{ |__rbprobe_item| __rbprobe_frame.item(__rbprobe_call, __rbprobe_item) } }";

static struct {
	VALUE lambda, iterator, object;
	char missing[512]; /* why there is no lambda */
} frame = {.missing = "rbprobe is not ready to call Ruby's methods"};

struct framed_call {
	VALUE (*run)(VALUE);
	VALUE argument;
};

/* The pointer comes as a Fixnum: it is even. */
static VALUE frame_run(VALUE self, VALUE pointer)
{
	const struct framed_call *call = (const struct framed_call *)(pointer & ~(VALUE)RUBY_FIXNUM_FLAG);

	(void)self;
	return call->run(call->argument);
}

static VALUE in_own_frame(VALUE (*run)(VALUE), VALUE argument)
{
	const struct framed_call call = {run, argument};
	VALUE arguments[] = {frame.object, (VALUE)&call | RUBY_FIXNUM_FLAG};

	if (!RTEST(frame.lambda))
		rb_exc_raise(builtin_exception(rb_eRuntimeError, frame.missing));
	return rb_proc_call_with_block(frame.lambda, 2, arguments, Qnil);
}

static VALUE frame_iterate(VALUE self, VALUE pointer);
static VALUE frame_item(VALUE self, VALUE pointer, VALUE item);

static VALUE frame_build(VALUE unused)
{
	(void)unused;
	frame.object = builtin_scratch_module();
	rb_define_singleton_method(frame.object, "run", frame_run, 1);
	rb_define_singleton_method(frame.object, "iterate", frame_iterate, 1);
	rb_define_singleton_method(frame.object, "item", frame_item, 2);
	frame.iterator = builtin_lambda(iterator_source);
	frame.lambda = builtin_lambda(frame_source);
	return Qnil;
}

/* --- Taking them */

/* Where the method's class or module is; Qnil: this Ruby has none, or the application has something else there. */
static VALUE owner_of(enum builtin_method method)
{
	const char *path = builtin_names[method].class_name;
	VALUE module = rb_cObject;

	while (path) {
		const char *colon = strstr(path, "::");
		ID id = rb_intern2(path, colon ? colon - path : (long)strlen(path));

		if (!NIL_P(rb_autoload_p(module, id)) || !rb_const_defined_at(module, id))
			return Qnil;
		module = rb_const_get_at(module, id);
		if (!RB_TYPE_P(module, T_CLASS) && !RB_TYPE_P(module, T_MODULE))
			return Qnil;
		path = colon ? colon + 2 : NULL;
	}
	return builtin_names[method].flags & BUILTIN_SINGLETON ? rb_singleton_class(module) : module;
}

/* Asked of a class, always: see is_rubys_own(). */
static bool is_bound(VALUE owner, ID name)
{
	return RB_TYPE_P(owner, T_CLASS) && rb_method_boundp(owner, name, 0);
}

/* By then the application may have overridden what builtin_find() needs, but not what is held here. */
static VALUE take_from_library(enum builtin_method method, VALUE owner)
{
	VALUE found;

	/* Without an exception: with $DEBUG the VM prints each, also one that is rescued. */
	if (!is_bound(owner, rb_intern(builtin_names[method].method_name)))
		return Qnil;
	found = builtin_find_method(owner, builtin_names[method].method_name);
	core[method].method = found;
	if (NIL_P(builtin_call0(BUILTIN_UNBOUND_METHOD_SOURCE_LOCATION, found)))
		core[method].caller = builtin_caller(found);
	return Qnil;
}

static VALUE take(VALUE number)
{
	enum builtin_method method = (enum builtin_method)number;
	VALUE owner = owner_of(method), found, taken;

	if (NIL_P(owner))
		return Qnil;
	if (builtin_names[method].flags & BUILTIN_LIBRARY)
		return take_from_library(method, owner);
	found = builtin_find(owner, ID2SYM(rb_intern(builtin_names[method].method_name)), &taken);
	core[method].method = NIL_P(found) ? taken : found;
	core[method].is_there = !NIL_P(found);
	if (core[method].is_there)
		core[method].caller = builtin_find_bound(found, "bind_call");
	return Qnil;
}

static void take_one(enum builtin_method method)
{
	VALUE error = rb_errinfo();
	bool lacked = false;
	int failed = 0;

	if (core[method].state == UNKNOWN && !core[method].caller) {
		core[method].method = core[method].caller = Qnil;
		/* First: registering allocates, and may collect what is not known yet. */
		own_register(&core[method].method);
		own_register(&core[method].caller);
	}
	builtin_find_lacked();
	rb_protect(take, (VALUE)method, &failed);
	lacked = builtin_find_lacked();
	if (failed) {
		lacked = lacked || builtin_find_is_lack(rb_errinfo());
		exception_drop(error);
	}
	if (!NIL_P(core[method].caller))
		core[method].state = FOUND;
	else if (lacked)
		core[method].state = UNKNOWN; /* which says nothing about the method: it is looked for again */
	else if (NIL_P(core[method].method) && builtin_names[method].flags & (BUILTIN_NOT_EVERYWHERE | BUILTIN_LIBRARY))
		core[method].state = builtin_names[method].flags & BUILTIN_LIBRARY ? UNKNOWN : ABSENT;
	else
		core[method].state = TAKEN;
}

/* What the others are found with: without these, those count as taken, too. */
static const enum builtin_method tools[] = {BUILTIN_MODULE_INSTANCE_METHOD,         BUILTIN_UNBOUND_METHOD_BIND_CALL,
                                            BUILTIN_UNBOUND_METHOD_SOURCE_LOCATION, BUILTIN_UNBOUND_METHOD_OWNER,
                                            BUILTIN_UNBOUND_METHOD_SUPER_METHOD,    BUILTIN_UNBOUND_METHOD_ORIGINAL_NAME};

void builtin_begin(void)
{
	static const enum builtin_method first[] = {BUILTIN_THREAD_PENDING_INTERRUPT_P, BUILTIN_THREAD_HANDLE_INTERRUPT,
	                                            BUILTIN_ISEQ_COMPILE, BUILTIN_ISEQ_EVAL};

	for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++)
		if (core[tools[i]].state == UNKNOWN)
			take_one(tools[i]);

	for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++)
		if (core[first[i]].state == UNKNOWN)
			take_one(first[i]);
}

static VALUE take_all(VALUE unused)
{
	(void)unused;
	for (enum builtin_method method = 0; method < BUILTIN_COUNT; method++)
		if (core[method].state == UNKNOWN)
			take_one(method);
	return Qnil;
}

static VALUE take_all_in_own_frame(VALUE unused)
{
	return in_own_frame(take_all, unused);
}

void builtin_init(void)
{
	VALUE error = rb_errinfo();
	int failed = 0;

	builtin_begin();
	frame.lambda = frame.iterator = frame.object = Qnil;
	own_register(&frame.lambda);
	own_register(&frame.iterator);
	own_register(&frame.object);
	rb_protect(frame_build, Qnil, &failed);
	if (failed) {
		builtin_describe(rb_errinfo(), frame.missing, sizeof(frame.missing));
		frame.lambda = frame.iterator = Qnil;
		take_all(Qnil); /* without a frame to call them in, those that need one say so */
	} else {
		rb_protect(take_all_in_own_frame, Qnil, &failed);
	}
	exception_drop(error);
}

bool builtin_has(enum builtin_method method)
{
	if (core[method].state == UNKNOWN)
		take_one(method);
	return core[method].state == FOUND || core[method].state == TAKEN;
}

bool builtin_is_found(enum builtin_method method)
{
	return builtin_has(method) && core[method].state == FOUND;
}

struct place_text {
	VALUE method;
	char *text;
	size_t size;
};

static VALUE describe_place(VALUE argument)
{
	const struct place_text *place = (const struct place_text *)argument;
	VALUE location = builtin_find_ask(place->method, "source_location"), file;

	if (NIL_P(location))
		return Qnil;
	file = rb_ary_entry(location, 0);
	snprintf(place->text, place->size, " (%s:%d)", StringValueCStr(file), NUM2INT(rb_ary_entry(location, 1)));
	return Qnil;
}

static VALUE is_defined(VALUE number)
{
	VALUE owner = owner_of((enum builtin_method)number);

	return is_bound(owner, rb_intern(builtin_names[number].method_name)) ? Qtrue : Qfalse;
}

/* No method was found where it was removed, and where the methods that find one are not Ruby's either: then it may be there. */
static const char *what_was_done(enum builtin_method method)
{
	VALUE error = rb_errinfo();
	int failed = 0;
	bool removed = NIL_P(core[method].method) && !RTEST(rb_protect(is_defined, (VALUE)method, &failed));

	exception_drop(error);
	return removed ? "has removed" : "has overridden";
}

const char builtin_lack_text[] = "the thread had no stack or memory left for a command; try again";

const char *builtin_missing(enum builtin_method method)
{
	static char text[512];
	bool singleton = builtin_names[method].flags & BUILTIN_SINGLETON;
	char where[300] = "";
	struct place_text place = {core[method].method, where, sizeof(where)};
	VALUE error = rb_errinfo();
	int failed = 0;
	const char *what;

	if (builtin_has(method) && core[method].state == FOUND)
		return !(builtin_names[method].flags & BUILTIN_OWN_FRAME) || RTEST(frame.lambda) ? NULL : frame.missing;
	for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]) && core[method].state == TAKEN; i++)
		if (core[tools[i]].state == TAKEN && !core[tools[i]].is_there) {
			method = tools[i];
			break;
		}
	place.method = core[method].method;
	singleton = builtin_names[method].flags & BUILTIN_SINGLETON;
	if (core[method].state == UNKNOWN && !(builtin_names[method].flags & BUILTIN_LIBRARY))
		return builtin_lack_text;
	what = core[method].state == TAKEN ? what_was_done(method) : "has no";
	if (core[method].state == TAKEN && !NIL_P(place.method))
		rb_protect(describe_place, (VALUE)&place, &failed);
	exception_drop(error);
	snprintf(text, sizeof(text), "%s %s %s%s%s%s%s", core[method].state == TAKEN ? "the application" : "this Ruby", what,
	         builtin_names[method].class_name, singleton ? "." : "#", builtin_names[method].method_name, where,
	         core[method].state == TAKEN ? ", and rbprobe, which came later, needs Ruby's own" : "");
	return text;
}

/* --- Calling them */

struct call {
	VALUE caller;
	int argc;
	const VALUE *argv;
	VALUE block;
	bool keywords;
};

static VALUE call_now(VALUE argument)
{
	const struct call *call = (const struct call *)argument;

	if (call->keywords)
		return rb_method_call_with_block_kw(call->argc, call->argv, call->caller, call->block, RB_PASS_KEYWORDS);
	return rb_method_call_with_block(call->argc, call->argv, call->caller, call->block);
}

static char missed[512];

static void check(enum builtin_method method)
{
	const char *why = builtin_missing(method);

	if (!why)
		return;
	if (!missed[0])
		snprintf(missed, sizeof(missed), "%s", why);
	rb_exc_raise(builtin_exception(rb_eRuntimeError, why));
}

const char *builtin_missed(void)
{
	return missed[0] ? missed : NULL;
}

static VALUE call_method(enum builtin_method method, VALUE receiver, int argc, const VALUE *argv, VALUE block, bool keywords)
{
	VALUE *arguments = ALLOCA_N(VALUE, argc + 1);
	struct call call = {.argc = argc + 1, .argv = arguments, .block = block, .keywords = keywords};
	VALUE result;

	check(method);
	call.caller = core[method].caller;
	arguments[0] = receiver;
	for (int i = 0; i < argc; i++)
		arguments[i + 1] = argv[i];
	if (builtin_names[method].flags & BUILTIN_OWN_FRAME)
		result = in_own_frame(call_now, (VALUE)&call);
	else
		result = call_now((VALUE)&call);
	RB_GC_GUARD(block);
	return result;
}

VALUE builtin_call(enum builtin_method method, VALUE receiver, int argc, const VALUE *argv)
{
	return call_method(method, receiver, argc, argv, Qnil, false);
}

VALUE builtin_call0(enum builtin_method method, VALUE receiver)
{
	return builtin_call(method, receiver, 0, NULL);
}

VALUE builtin_call1(enum builtin_method method, VALUE receiver, VALUE argument)
{
	return builtin_call(method, receiver, 1, &argument);
}

/* Asked of a class, always: a module would get an entry in a table that GC.compact does not update (4.0). */
static bool is_rubys_own(VALUE receiver, ID name)
{
	return RB_TYPE_P(rb_class_of(receiver), T_CLASS) && rb_method_basic_definition_p(rb_class_of(receiver), name);
}

VALUE builtin_call_with(enum builtin_method method, VALUE receiver, int argc, const VALUE *argv, VALUE block)
{
	ID name = rb_intern(builtin_names[method].method_name);
	VALUE result;

	/*
	 * That has no frame besides the method's own, which expressions would find in `caller`. While it looks for the method,
	 * and in Module#module_exec, the VM has a pointer into the Proc's variables alone: a collection freed them.
	 */
	if (!(builtin_names[method].flags & BUILTIN_OWN_FRAME) && !NIL_P(block) && is_rubys_own(receiver, name))
		result = rb_funcall_with_block(receiver, name, argc, argv, block);
	else
		result = call_method(method, receiver, argc, argv, block, false);
	RB_GC_GUARD(block);
	return result;
}

/*
 * With a block. rb_proc_new() will not do in a job: up to 3.1 the Proc takes the method that was interrupted for its outer scope,
 * moves that method's variables to the heap, and crashes the VM later (see builtin_run()). rb_block_call() makes no Proc. Where
 * the application has overridden the method, so that it has to be called as a Method, which takes a Proc, that is made in a frame
 * of ours.
 */
struct iteration {
	enum builtin_method method;
	VALUE receiver;
	int argc;
	const VALUE *argv;
	rb_block_call_func_t function;
	VALUE data;
};

static struct iteration *iteration_of(VALUE pointer)
{
	return (struct iteration *)(pointer & ~(VALUE)RUBY_FIXNUM_FLAG);
}

static VALUE frame_iterate(VALUE self, VALUE pointer)
{
	const struct iteration *iteration = iteration_of(pointer);

	(void)self;
	return call_method(iteration->method, iteration->receiver, iteration->argc, iteration->argv, rb_block_proc(), false);
}

static VALUE make_block(VALUE function)
{
	return rb_proc_new((rb_block_call_func_t)function, Qnil);
}

VALUE builtin_block(rb_block_call_func_t function)
{
	return !RTEST(frame.lambda) ? Qnil : in_own_frame(make_block, (VALUE)function);
}

static VALUE frame_item(VALUE self, VALUE pointer, VALUE item)
{
	const struct iteration *iteration = iteration_of(pointer);

	(void)self;
	return iteration->function(item, iteration->data, 1, &item, Qnil);
}

VALUE builtin_iterate(enum builtin_method method, VALUE receiver, int argc, const VALUE *argv, rb_block_call_func_t function,
                      VALUE data)
{
	struct iteration iteration = {method, receiver, argc, argv, function, data};
	VALUE arguments[] = {frame.object, (VALUE)&iteration | RUBY_FIXNUM_FLAG};
	ID name = rb_intern(builtin_names[method].method_name);

	if (is_rubys_own(receiver, name))
		return rb_block_call(receiver, name, argc, argv, function, data);
	if (!RTEST(frame.iterator))
		return call_method(method, receiver, argc, argv, rb_proc_new(function, data), false);
	return rb_proc_call_with_block(frame.iterator, 2, arguments, Qnil);
}

VALUE builtin_call_keywords(enum builtin_method method, VALUE receiver, int argc, const VALUE *argv)
{
	return call_method(method, receiver, argc, argv, Qnil, true);
}

VALUE builtin_method(enum builtin_method method)
{
	check(method);
	return core[method].method;
}

VALUE builtin_bind(enum builtin_method method, VALUE receiver)
{
	return builtin_call1(BUILTIN_UNBOUND_METHOD_BIND, builtin_method(method), receiver);
}

VALUE builtin_caller(VALUE unbound_method)
{
	return builtin_call1(BUILTIN_UNBOUND_METHOD_BIND, builtin_method(BUILTIN_UNBOUND_METHOD_BIND_CALL), unbound_method);
}

VALUE builtin_ask(VALUE object, const char *name)
{
	return rb_funcall(object, rb_intern(name), 0);
}

VALUE builtin_ask_keywords(VALUE object, const char *name, VALUE keywords)
{
	return rb_funcallv_kw(object, rb_intern(name), 1, &keywords, RB_PASS_KEYWORDS);
}

bool builtin_is_answered(VALUE object, const char *name)
{
	return rb_respond_to(object, rb_intern(name));
}
