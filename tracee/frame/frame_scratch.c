/*
 * The scratch methods, and the scenarios that run them. Job context.
 *
 * Exceptions are made to unwind by rb_jump_tag, without being raised: so there is no RAISE event, no backtrace to
 * collect, nothing printed under $DEBUG. A thread being killed is not among the scenarios: it is told by the kind of
 * value (a small integer) in the place that the other endings establish.
 */

#include "tracee/frame/frame_scratch.h"

#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/exception_drop.h"

/*
 * `x` is the value to give back, the tag to throw, or a proc that unwinds like an exception. The rescue in
 * `reraise` never matches: it makes the VM throw the exception on by another instruction. All methods are in one
 * proc because enable(target:) covers every method defined inside its target.
 */
static const char scratch_source[] = "-> do\n"
				     "  def leave(x) x end\n"
				     "  alias leave_again leave\n"
				     "  def leave_early(x)\n"
				     "    return x if x\n"
				     "    1\n"
				     "  end\n"
				     "  def jump(x) x.call end\n"
				     "  def reraise(x)\n"
				     "    x.call\n"
				     "  rescue NoMemoryError\n"
				     "    nil\n"
				     "  end\n"
				     "  def through(_) yield end\n"
				     "  def deep(x) through(x) { yield } end\n"
				     "  def return_from_block(x) through(x) { return x } end\n"
				     "  def break_out(x) through(x) { break x } end\n"
				     "  def break_deep(x) deep(x) { break x } end\n"
				     "  def throw_through(x) through(x) { throw x } end\n"
				     "  def catcher(x) catch(x) { throw_through(x) } end\n"
				     "  def relay(name, *rest) __send__(name, *rest) end\n"
				     "  def block_catcher(x) catch(x) { block_method(x, 4) } end\n"
				     "  def c_plain(x) c_leave(x) end\n"
				     "  def c_splat(x) c_leave(*[x]) end\n"
				     "  def c_block(x) c_leave(x) { nil } end\n"
				     "  def c_block_splat(x) c_leave(*[x]) { nil } end\n"
				     "  def c_return(x) c_through(x) { return x } end\n"
				     "  def c_break(x) c_through(x) { break x } end\n"
				     "  def c_throw_through(x) c_through(x) { throw x } end\n"
				     "  def c_catcher(x) catch(x) { c_throw_through(x) } end\n"
				     "  def c_protect_catcher(x) catch(x) { c_protect_throw(x) } end\n"
				     "  def read_attribute(_) attribute end\n"
				     "  ->(x, how) do\n"
				     "    case how\n"
				     "    when 0 then x\n"
				     "    when 1 then x.call\n"
				     "    when 2 then return x\n"
				     "    when 3 then through(x) { return x }\n"
				     "    when 4 then through(x) { throw x }\n"
				     "    when 5 then begin x.call; rescue NoMemoryError; nil end\n"
				     "    end\n"
				     "  end\n"
				     "end\n";

const struct frame_scratch_method frame_scratch_methods[METHODS] = {
	[LEAVE] = {.name = "leave"},
	[LEAVE_AGAIN] = {.name = "leave_again"},
	[LEAVE_EARLY] = {.name = "leave_early"},
	[JUMP] = {.name = "jump"},
	[RERAISE] = {.name = "reraise"},
	[THROUGH] = {.name = "through"},
	[DEEP] = {.name = "deep"},
	[RETURN_FROM_BLOCK] = {.name = "return_from_block"},
	[BREAK_OUT] = {.name = "break_out"},
	[BREAK_DEEP] = {.name = "break_deep"},
	[THROW_THROUGH] = {.name = "throw_through", .indirect = true},
	[CATCHER] = {.name = "catcher"},
	[RELAY] = {.name = "relay"},
	[BLOCK_METHOD] = {.name = "block_method"},
	[BLOCK_CATCHER] = {.name = "block_catcher"},
	[C_PLAIN] = {.name = "c_plain"},
	[C_SPLAT] = {.name = "c_splat"},
	[C_BLOCK] = {.name = "c_block"},
	[C_BLOCK_SPLAT] = {.name = "c_block_splat"},
	[C_RETURN] = {.name = "c_return"},
	[C_BREAK] = {.name = "c_break"},
	[C_THROW_THROUGH] = {.name = "c_throw_through", .indirect = true},
	[C_CATCHER] = {.name = "c_catcher"},
	[C_PROTECT_CATCHER] = {.name = "c_protect_catcher"},
	[READ_ATTRIBUTE] = {.name = "read_attribute"},
	[ATTRIBUTE] = {.name = "attribute", .c_method = true},
	[C_LEAVE] = {.name = "c_leave", .c_method = true},
	[C_JUMP] = {.name = "c_jump", .c_method = true},
	[C_THROUGH] = {.name = "c_through", .c_method = true},
	[C_THROW] = {.name = "c_throw", .c_method = true},
	[C_PROTECT_JUMP] = {.name = "c_protect_jump", .c_method = true},
	[C_PROTECT_THROW] = {.name = "c_protect_throw", .c_method = true, .indirect = true},
};

#define THROWN_RETURN .truth = SAMPLE_THROWN, .state = TAG_STATE_RETURN, .from_home = true
#define THROWN_BREAK .truth = SAMPLE_THROWN, .state = TAG_STATE_BREAK, .from_home = true
#define THROWN_THROW .truth = SAMPLE_THROWN, .state = TAG_STATE_THROW
#define OWN_JUMP .truth = SAMPLE_OWN_JUMP

static const struct scenario scenarios[] = {
	{.entry = LEAVE, .how = -1},
	{.entry = LEAVE_AGAIN, .how = -1}, /* its events are those of `leave`, but for the name that was called */
	{.entry = LEAVE_EARLY, .how = -1},
	{.entry = JUMP, .how = -1, .raises = true},
	{.entry = JUMP, .how = -1, .raises = true},
	{.entry = RERAISE, .how = -1, .raises = true},
	{.entry = RETURN_FROM_BLOCK, .how = -1, .expect = {{RETURN_FROM_BLOCK, OWN_JUMP}, {THROUGH, THROWN_RETURN}}},
	{.entry = BREAK_OUT, .how = -1, .expect = {{THROUGH, OWN_JUMP}}},
	{.entry = BREAK_DEEP, .how = -1, .expect = {{DEEP, OWN_JUMP}, {THROUGH, THROWN_BREAK}}},
	{.entry = CATCHER, .how = -1, .expect = {{THROW_THROUGH, THROWN_THROW}, {THROUGH, THROWN_THROW}}},
	{.entry = BLOCK_METHOD, .how = 0},
	{.entry = BLOCK_METHOD, .how = 1, .raises = true},
	{.entry = BLOCK_METHOD, .how = 1, .raises = true},
	{.entry = BLOCK_METHOD, .how = 5, .raises = true},
	{.entry = BLOCK_METHOD, .how = 2, .expect = {{BLOCK_METHOD, OWN_JUMP}}},
	{.entry = BLOCK_METHOD, .how = 3, .expect = {{BLOCK_METHOD, OWN_JUMP}, {THROUGH, THROWN_RETURN}}},
	{.entry = BLOCK_CATCHER, .how = -1, .expect = {{BLOCK_METHOD, THROWN_THROW}, {THROUGH, THROWN_THROW}}},
	{.entry = READ_ATTRIBUTE, .how = -1, .global = true},
	{.entry = C_LEAVE, .how = -1, .global = true},
	{.entry = C_PLAIN, .how = -1, .global = true},
	{.entry = C_SPLAT, .how = -1, .global = true},
	{.entry = C_BLOCK, .how = -1, .global = true},
	{.entry = C_BLOCK_SPLAT, .how = -1, .global = true},
	{.entry = C_JUMP, .how = -1, .global = true, .raises = true},
	{.entry = C_JUMP, .how = -1, .global = true, .raises = true},
	{.entry = C_PROTECT_JUMP, .how = -1, .global = true, .raises = true},
	{.entry = C_RETURN, .how = -1, .global = true, .expect = {{C_RETURN, OWN_JUMP}, {C_THROUGH, THROWN_RETURN}}},
	{.entry = C_BREAK, .how = -1, .global = true, .expect = {{C_THROUGH, OWN_JUMP}}},
	{.entry = C_CATCHER, .how = -1, .global = true, .expect = {{C_THROW_THROUGH, THROWN_THROW}, {C_THROUGH, THROWN_THROW}}},
	{.entry = C_PROTECT_CATCHER,
         .how = -1,
         .global = true,
         .expect = {{C_PROTECT_THROW, THROWN_THROW}, {C_THROW, THROWN_THROW}}},
};

/* The C methods have nowhere else to keep it. Set during frame_scratch_run, under the GVL. */
static struct frame_scratch *active;

/* Someone might find the module later, in ObjectSpace. */
static struct frame_scratch *scratch_active(void)
{
	if (active == NULL)
		rb_raise(rb_eNotImpError, "rbprobe's trial of methods is over");
	return active;
}

NORETURN(static void unwind_like_an_exception(void));

static void unwind_like_an_exception(void)
{
	rb_set_errinfo(scratch_active()->error);
	rb_jump_tag(TAG_STATE_RAISE);
}

static VALUE unwinder_call(RB_BLOCK_CALL_FUNC_ARGLIST(arg, data))
{
	(void)arg, (void)data, (void)argc, (void)argv, (void)blockarg;
	unwind_like_an_exception();
}

static VALUE c_leave(VALUE self, VALUE x)
{
	(void)self;
	return x;
}

static VALUE c_jump(VALUE self, VALUE x)
{
	(void)self, (void)x;
	unwind_like_an_exception();
}

static VALUE c_through(VALUE self, VALUE x)
{
	(void)self;
	return rb_yield(x);
}

static VALUE c_throw(VALUE self, VALUE x)
{
	(void)self;
	rb_throw_obj(x, Qnil);
}

static VALUE call_c_jump(VALUE self)
{
	return rb_funcall(self, scratch_active()->ids[C_JUMP], 1, Qnil);
}

static VALUE call_c_throw(VALUE self)
{
	return rb_funcall(self, scratch_active()->ids[C_THROW], 1, active->value);
}

/* rb_protect ends the frames of C methods from a place of its own. */
static VALUE c_protect_jump(VALUE self, VALUE x)
{
	int state = 0;

	(void)x;
	rb_protect(call_c_jump, self, &state);
	rb_jump_tag(state);
}

static VALUE c_protect_throw(VALUE self, VALUE x)
{
	int state = 0;

	(void)x;
	rb_protect(call_c_throw, self, &state);
	rb_jump_tag(state);
}

/* The VM ends a frame elsewhere when it was called from C, and fires C events from copies of its calling code. */
enum calling {
	CALL_FROM_C,
	CALL_FROM_RUBY,
	CALL_CHECKED, /* rb_check_funcall, which the VM uses a lot itself; for a C method's return only */
	CALLINGS,
};

struct run {
	struct frame_scratch *scratch;
	enum calling calling;
};

static VALUE scenario_call(VALUE data)
{
	struct run *run = (struct run *)data;
	struct frame_scratch *scratch = run->scratch;
	const struct scenario *scenario = scratch->scenario;
	VALUE arguments[3] = {ID2SYM(scratch->ids[scenario->entry])};
	int count = 1;

	arguments[count++] = scenario->raises ? scratch->unwinder : scratch->value;
	if (scenario->how >= 0)
		arguments[count++] = INT2FIX(scenario->how);

	if (run->calling == CALL_FROM_RUBY)
		return rb_funcallv(scratch->methods.object, scratch->ids[RELAY], count, arguments);
	if (run->calling == CALL_CHECKED)
		return rb_check_funcall(scratch->methods.object, scratch->ids[scenario->entry], count - 1, arguments + 1);
	return rb_funcallv(scratch->methods.object, scratch->ids[scenario->entry], count - 1, arguments + 1);
}

/* An interrupt that arrives right here for this thread would unwind a scenario that should not be. */
static bool scenario_run(struct frame_scratch *scratch, const struct scenario *scenario, enum calling calling)
{
	struct run run = {.scratch = scratch, .calling = calling};
	int state = 0;
	bool as_told;

	scratch->error = rb_class_new_instance(0, NULL, rb_eStandardError);
	scratch->value = rb_str_new(NULL, 0);
	scratch->scenario = scenario;
	scratch->scenarios_run++;
	rb_ary_push(scratch->errors, scratch->error); /* alive, so that no two have one address */
	rb_protect(scenario_call, (VALUE)&run, &state);
	scratch->scenario = NULL;

	as_told = scenario->raises ? state == TAG_STATE_RAISE && rb_errinfo() == scratch->error : state == 0;
	exception_drop(Qnil);
	return as_told;
}

void frame_scratch_build(struct frame_scratch *scratch)
{
	for (int i = 0; i < METHODS; i++)
		scratch->ids[i] = rb_intern(frame_scratch_methods[i].name);
	scratch->methods_proc = builtin_lambda(scratch_source);
	scratch->errors = rb_ary_new();
	scratch->unwinder = rb_proc_new(unwinder_call, Qnil);
	scratch_make(&scratch->methods);
	scratch_define_block(&scratch->methods, "block_method", scratch_exec(&scratch->methods, scratch->methods_proc));
	rb_define_attr(scratch->methods.module, "attribute", true, false);
	rb_define_method(scratch->methods.module, "c_leave", c_leave, 1);
	rb_define_method(scratch->methods.module, "c_jump", c_jump, 1);
	rb_define_method(scratch->methods.module, "c_through", c_through, 1);
	rb_define_method(scratch->methods.module, "c_throw", c_throw, 1);
	rb_define_method(scratch->methods.module, "c_protect_jump", c_protect_jump, 1);
	rb_define_method(scratch->methods.module, "c_protect_throw", c_protect_throw, 1);
}

void frame_scratch_targets(const struct frame_scratch *scratch, VALUE targets[SCRATCH_TARGETS])
{
	targets[0] = scratch->methods_proc;
	/* A method made by define_method has hooks of its own, apart from its block's. */
	targets[1] = scratch_method(&scratch->methods, frame_scratch_methods[BLOCK_METHOD].name);
}

bool frame_scratch_run(struct frame_scratch *scratch, bool c_methods)
{
	bool as_told = true;

	active = scratch;
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(*scenarios) && as_told; i++) {
		if (scenarios[i].global && !c_methods)
			continue;
		for (enum calling calling = 0; calling < CALLINGS && as_told; calling++) {
			if (calling != CALL_CHECKED || scenarios[i].entry == C_LEAVE)
				as_told = scenario_run(scratch, &scenarios[i], calling);
		}
	}
	active = NULL;
	return as_told;
}
