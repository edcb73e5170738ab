/* Scratch methods of engine patch's self-test. See patch_trial.h. Context: job, GVL held; what runs may raise. */

#include "tracee/engine/patch_trial.h"

#include "tracee/base/safe_read.h"
#include "tracee/engine/patch.h"
#include "tracee/engine/patch_stubs.h"
#include "tracee/engine/patch_watch.h"
#include "tracee/frame/frame.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/method_definition.h"

#include <string.h>

#define ARITY_MIN (-2)
#define ENDINGS_MAX 16

/* What the running trial has seen: the scratch functions have no argument for it. Under the GVL. */
static struct {
	unsigned calls; /* of stubs */
	unsigned named; /* of these, with a frame that names the method */
	VALUE module;
	VALUE object;
	VALUE value; /* of the first ending */
	enum frame_ending endings[ENDINGS_MAX];
	unsigned ending_count;
} seen;

/* What each function returns: a number that no other arguments give. */
static VALUE digest(int count, const VALUE *arguments)
{
	long sum = count;

	for (int i = 0; i < count; i++)
		sum = sum * 3 + NUM2LONG(arguments[i]);
	return LONG2NUM(sum);
}

#define V VALUE
#define FUNCTION(name, parameters, ...)                                                                                          \
	static VALUE name parameters                                                                                             \
	{                                                                                                                        \
		const VALUE arguments[] = {Qnil, ##__VA_ARGS__};                                                                 \
		(void)self;                                                                                                      \
		return digest((int)(sizeof(arguments) / sizeof(arguments[0])) - 1, arguments + 1);                               \
	}

static VALUE arity_m2(VALUE self, VALUE arguments)
{
	(void)self;
	return digest((int)RARRAY_LEN(arguments), RARRAY_CONST_PTR(arguments));
}

static VALUE arity_m1(int argc, const VALUE *argv, VALUE self)
{
	(void)self;
	return digest(argc, argv);
}

FUNCTION(arity_0, (V self))
FUNCTION(arity_1, (V self, V a), a)
FUNCTION(arity_2, (V self, V a, V b), a, b)
FUNCTION(arity_3, (V self, V a, V b, V c), a, b, c)
FUNCTION(arity_4, (V self, V a, V b, V c, V d), a, b, c, d)
FUNCTION(arity_5, (V self, V a, V b, V c, V d, V e), a, b, c, d, e)
FUNCTION(arity_6, (V self, V a, V b, V c, V d, V e, V f), a, b, c, d, e, f)
FUNCTION(arity_7, (V self, V a, V b, V c, V d, V e, V f, V g), a, b, c, d, e, f, g)
FUNCTION(arity_8, (V self, V a, V b, V c, V d, V e, V f, V g, V h), a, b, c, d, e, f, g, h)
FUNCTION(arity_9, (V self, V a, V b, V c, V d, V e, V f, V g, V h, V i), a, b, c, d, e, f, g, h, i)
#define TEN V a, V b, V c, V d, V e, V f, V g, V h, V i, V j
FUNCTION(arity_10, (V self, TEN), a, b, c, d, e, f, g, h, i, j)
FUNCTION(arity_11, (V self, TEN, V k), a, b, c, d, e, f, g, h, i, j, k)
FUNCTION(arity_12, (V self, TEN, V k, V l), a, b, c, d, e, f, g, h, i, j, k, l)
FUNCTION(arity_13, (V self, TEN, V k, V l, V m), a, b, c, d, e, f, g, h, i, j, k, l, m)
FUNCTION(arity_14, (V self, TEN, V k, V l, V m, V n), a, b, c, d, e, f, g, h, i, j, k, l, m, n)
FUNCTION(arity_15, (V self, TEN, V k, V l, V m, V n, V o), a, b, c, d, e, f, g, h, i, j, k, l, m, n, o)

static const patch_function functions[TRIAL_ARITIES] = {
	(patch_function)arity_m2, (patch_function)arity_m1, (patch_function)arity_0,  (patch_function)arity_1,
	(patch_function)arity_2,  (patch_function)arity_3,  (patch_function)arity_4,  (patch_function)arity_5,
	(patch_function)arity_6,  (patch_function)arity_7,  (patch_function)arity_8,  (patch_function)arity_9,
	(patch_function)arity_10, (patch_function)arity_11, (patch_function)arity_12, (patch_function)arity_13,
	(patch_function)arity_14, (patch_function)arity_15,
};

static VALUE yielder(VALUE self)
{
	(void)self;
	return rb_yield(Qnil);
}

/* Methods that are no C functions, of every kind that can be made without naming a constant; and the yielder's callers. */
static const char others_source[] = "-> do\n"
				    "  def written; end\n"
				    "  def relay; yielder { yield }; end\n"
				    "  alias aliased yielder\n"
				    "  -> { }\n"
				    "end\n";

static const char *const others[] = {"attribute", "attribute=", "written", "relay", "block", "aliased"};

#define WRITTEN 2 /* in others */

/* The object of each jump holds o. */
static const char endings_source[] = "->(o) {\n"
				     "  o.yielder { break o }\n"
				     "  o.relay { break o }\n"
				     "  catch(o) { o.yielder { throw o } }\n"
				     "  -> { o.yielder { return o } }.call\n"
				     "  o.yielder { }\n"
				     "}\n";

static ID name_of(int index)
{
	char name[16];

	snprintf(name, sizeof(name), "arity_%d", index);
	return rb_intern(name);
}

void trial_begin(struct trial *trial)
{
	const struct scratch *scratch = &trial->scratch;

	memset(&seen, 0, sizeof(seen));
	scratch_make(&trial->scratch);
	for (int i = 0; i < TRIAL_ARITIES; i++) {
		scratch_define_c(scratch, rb_id2name(name_of(i)), (VALUE(*)(VALUE))functions[i], i + ARITY_MIN);
		trial->methods[i] = scratch_method(scratch, rb_id2name(name_of(i)));
	}
	scratch_define_c(scratch, "yielder", yielder, 0);
	trial->yielder = scratch_method(scratch, "yielder");
	rb_define_attr(scratch->module, "attribute", true, true);
	scratch_define_block(scratch, "block", scratch_run(scratch, others_source));
	trial->others = rb_ary_new();
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		rb_ary_push(trial->others, scratch_method(scratch, others[i]));
	rb_ary_push(trial->others, builtin_find_method(rb_cBasicObject, "__send__"));
	seen.module = scratch->module;
}

size_t trial_samples(const struct trial *trial, struct method_sample *samples)
{
	size_t count = 0;

	for (int i = 0; i < TRIAL_ARITIES; i++)
		samples[count++] = (struct method_sample){.object = (uintptr_t)compat_data(trial->methods[i]),
		                                          .c_function = true,
		                                          .function = (uintptr_t)functions[i],
		                                          .arity = i + ARITY_MIN};
	samples[count++] = (struct method_sample){
		.object = (uintptr_t)compat_data(trial->yielder), .c_function = true, .function = (uintptr_t)yielder, .arity = 0};
	for (long i = 0; i < RARRAY_LEN(trial->others) && count < TRIAL_SAMPLES_MAX; i++)
		samples[count++] = (struct method_sample){.object = (uintptr_t)compat_data(rb_ary_entry(trial->others, i))};
	return count;
}

static VALUE call_written(VALUE scratch)
{
	return scratch_call((const struct scratch *)scratch, "written", 0, NULL);
}

void trial_event(struct trial *trial, void (*event)(VALUE tracepoint, void *nothing))
{
	scratch_watch(&(struct scratch_watch){.events = RUBY_EVENT_CALL,
	                                      .event = event,
	                                      .targets = {rb_ary_entry(trial->others, WRITTEN)},
	                                      .run = call_written,
	                                      .argument = (VALUE)&trial->scratch,
	                                      .data = trial});
}

/* The slots, and how their functions are called when nobody is looking. */

static struct {
	struct patch_slot *slot;
	struct method_target target;
	VALUE (*call)(patch_function function, VALUE receiver, int argc, const VALUE *argv);
} patched[TRIAL_ARITIES + 1];

#define YIELDER TRIAL_ARITIES

static uintptr_t innermost_frame(void)
{
	const uintptr_t *place = patch_frame_place(rb_fiber_current());

	return place ? *place : 0;
}

static bool frame_names(VALUE module, ID name)
{
	ID id = 0, callee = 0;
	VALUE owner = Qundef, owner_too = Qundef;

	return rb_frame_method_id_and_class(&id, &owner) && id == name && owner == module &&
	       patch_frame_method(innermost_frame(), &callee, &owner_too) && callee == name && owner_too == module;
}

static VALUE call_noting(patch_function function, VALUE receiver, int argc, const VALUE *argv)
{
	int i = 0;

	while (i < TRIAL_ARITIES && functions[i] != function)
		i++;
	seen.calls++;
	if (i == TRIAL_ARITIES)
		return Qnil;
	if (frame_names(seen.module, name_of(i)))
		seen.named++;
	if (!patch_names_known)
		patch_names_try(innermost_frame(), name_of(i), seen.module);
	return patched[i].call(function, receiver, argc, argv);
}

struct noting {
	struct patch_watch watch;
	patch_function function;
	VALUE receiver;
};

static VALUE yield_body(VALUE argument)
{
	struct noting *noting = (struct noting *)argument;
	VALUE value;

	patch_watch_begin(&noting->watch);
	value = patched[YIELDER].call(noting->function, noting->receiver, 0, NULL);
	noting->watch.returned = true;
	return value;
}

static void yield_over(struct patch_watch *watch, VALUE unwinder)
{
	struct frame_end end = {.frame = innermost_frame(), .ending = FRAME_RETURNED};

	(void)watch;
	if (unwinder != Qundef)
		frame_of_unwinder(unwinder, &end);
	/* The first is the break with a value. */
	if (seen.ending_count == 0)
		seen.value = end.value;
	if (seen.ending_count < ENDINGS_MAX)
		seen.endings[seen.ending_count++] = end.ending;
}

static VALUE yield_noting(patch_function function, VALUE receiver, int argc, const VALUE *argv)
{
	struct noting noting = {.watch = {.over = yield_over, .frame_place = patch_frame_place(rb_fiber_current())},
	                        .function = function,
	                        .receiver = receiver};

	(void)argc;
	(void)argv;
	return patch_watch(yield_body, &noting.watch);
}

static bool replace(int i, VALUE method, patch_function function)
{
	if (!method_definition_function(method, &patched[i].target) || patched[i].target.function != (uintptr_t)function)
		return false;
	patched[i].slot = patch_slot_of((uintptr_t)function, patched[i].target.arity);
	if (!patched[i].slot)
		return false;
	patched[i].call = patched[i].slot->call;
	patched[i].slot->call = i == YIELDER ? yield_noting : call_noting;
	patch_put(&patched[i].target, patch_stub_of(patched[i].slot));
	return true;
}

/* One call of each method, as the interpreter makes it. */
static VALUE calls_source(void)
{
	VALUE source = rb_str_new_cstr("->(o) { [");

	for (int i = 0; i < TRIAL_ARITIES; i++) {
		rb_str_catf(source, "%so.arity_%d(", i ? ", " : "", i);
		for (int a = 0; a < (i < 2 ? 3 : i + ARITY_MIN); a++)
			rb_str_catf(source, "%s%d", a ? ", " : "", a + 2);
		rb_str_cat_cstr(source, ")");
	}
	return rb_str_cat_cstr(source, "] }");
}

static VALUE run_calls(struct trial *trial)
{
	return rb_proc_call_with_block(trial->calls, 1, &trial->scratch.object, Qnil);
}

static bool same(VALUE one, VALUE other)
{
	for (long i = 0; i < TRIAL_ARITIES; i++)
		if (rb_ary_entry(one, i) != rb_ary_entry(other, i))
			return false;
	return true;
}

bool trial_calls(struct trial *trial)
{
	VALUE source = calls_source();
	VALUE expected;

	trial->calls = builtin_lambda(StringValueCStr(source));
	expected = run_calls(trial);
	for (int i = 0; i < TRIAL_ARITIES; i++)
		if (!replace(i, trial->methods[i], functions[i]))
			return false;
	if (!same(expected, run_calls(trial)))
		return false;
	/* Once more, now that what the frames have shown is relied on. */
	patch_names_tried();
	if (!same(expected, run_calls(trial)))
		return false;
	return seen.calls == 2 * TRIAL_ARITIES && seen.named == 2 * TRIAL_ARITIES;
}

/* What a jump of the endings' has: an internal object that holds theirs. */
static bool is_jump(uintptr_t word)
{
	uintptr_t words[SLOT_WORDS];

	if (RB_SPECIAL_CONST_P(word) || word % sizeof(uintptr_t) != 0 || !safe_read(word, words, sizeof(words)) ||
	    (words[0] & RUBY_T_MASK) != RUBY_T_IMEMO)
		return false;
	for (int i = 1; i < SLOT_WORDS; i++)
		if (words[i] == seen.object)
			return true;
	return false;
}

bool trial_endings(struct trial *trial)
{
	static const enum frame_ending expected[] = {
		FRAME_RETURNED, /* break of its own block */
		FRAME_THROWN,   /* break of the block of the method that called it */
		FRAME_THROWN,   /* throw */
		FRAME_THROWN,   /* return in its block */
		FRAME_RETURNED,
	};
	VALUE endings;

	if (!replace(YIELDER, trial->yielder, (patch_function)yielder))
		return false;
	endings = builtin_lambda(endings_source);
	seen.object = trial->scratch.object;
	patch_watch_learn(is_jump);
	rb_proc_call_with_block(endings, 1, &trial->scratch.object, Qnil);
	if (!patch_watch_learn(NULL))
		return false;
	seen.ending_count = 0;
	rb_proc_call_with_block(endings, 1, &trial->scratch.object, Qnil);
	if (seen.ending_count != sizeof(expected) / sizeof(expected[0]))
		return false;
	if (seen.value != trial->scratch.object)
		return false;
	for (unsigned i = 0; i < seen.ending_count; i++)
		if (seen.endings[i] != expected[i])
			return false;
	return true;
}

bool trial_restores(struct trial *trial)
{
	unsigned calls = seen.calls;
	VALUE expected = run_calls(trial);

	for (int i = 0; i < TRIAL_ARITIES; i++)
		patch_put(&patched[i].target, (uintptr_t)functions[i]);
	return seen.calls == calls + TRIAL_ARITIES && same(expected, run_calls(trial)) && seen.calls == calls + TRIAL_ARITIES;
}

void trial_end(struct trial *trial)
{
	for (int i = 0; i <= YIELDER; i++) {
		if (!patched[i].slot)
			continue;
		patch_put(&patched[i].target, (uintptr_t)patched[i].slot->function);
		patched[i].slot->call = patched[i].call;
	}
	memset(&patched, 0, sizeof(patched));
	memset(&seen, 0, sizeof(seen));
	RB_GC_GUARD(trial->scratch.object);
	RB_GC_GUARD(trial->scratch.module);
	RB_GC_GUARD(trial->yielder);
	RB_GC_GUARD(trial->others);
	RB_GC_GUARD(trial->calls);
}
