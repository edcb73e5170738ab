/*
 * Finds where frames have their local variables. See frame_locals.h. Contexts: job; event in a trial run.
 *
 * Scratch methods whose names and numbers of variables are known are called. What leads from each one's frame to the names is the
 * place of the names, and what is the number in all of them is the place of the number. Then every parameter is read from the
 * frame, before and after a Binding has moved its environment to the heap, and compared with what the Binding says.
 */

#include "tracee/frame/frame_locals.h"

#include "tracee/base/safe_read.h"
#include "tracee/frame/frame_context.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/foreign_hooks.h"
#include "tracee/vm/instruction_data.h"
#include "tracee/vm/method_definition.h"
#include "tracee/vm/scratch.h"

#include <string.h>

#define FRAME_WORDS 16
#define BODY_WORDS 64
#define LOCALS_MAX 32
#define ENVIRONMENT_LAST 3 /* words from the last variable to what the environment points to */

enum { FEW, ALL, DEFAULTS, BLOCK, METHODS };

/* The values of one method are such that no two are the same. */
static const struct {
	const char *name;
	const char *source; /* of a lambda that defines it, or is its body */
	const char *call;   /* of one that calls it on its argument */
} methods[METHODS] = {
	[FEW] = {"few", "-> { def few(one, two); three = 1; three; end }", "->(o) { o.few(:a1, :a2) }"},
	[ALL] = {"all",
                 "-> { def all(a, (b, c), d = :d1, e = :e1, *f, g, h:, i: :i1, j: [h].size, **k, &l); m = [a]; n = m; "
                 "o = -> { [n, a] }; o; end }",
                 "->(o) { o.all(:a2, [:b2, :c2], :d2, :e2, :f2, :g2, h: :h2, j: :j2, z: :k2) { 1 } }"},
	[DEFAULTS] = {"defaults",
                      "-> { def defaults(a, b = -> { a }, c = [a, :c1], d: :d1, e: -> { b }); x = 1; y = [x]; z = [y]; z; end }",
                      "->(o) { o.defaults(:a3) }"},
	[BLOCK] = {"block", "->(a, b, *c) { d = 1; e = [d]; f = [e]; g = [f]; [a, b, c, g, -> { a }] }",
                   "->(o) { o.block(:a4, :b4, :c4, :d4) }"},
};

/* From a frame to the names of its variables: word by word. */
struct route {
	unsigned frame_word, code_word, body_word;
};

struct trial {
	struct scratch scratch;
	VALUE locals[METHODS]; /* the names of the variables, in the VM's own listing */
	const int *running;    /* those of the methods that run, two */
	bool is_sampling;
	bool sampled[METHODS];
	uintptr_t frames[METHODS][FRAME_WORDS];
	unsigned compared, wrong;
};

static const int sampled_methods[] = {FEW, ALL}, other_methods[] = {DEFAULTS, BLOCK};

static bool has_name(VALUE local)
{
	const char *text = RB_SYMBOL_P(local) ? RSTRING_PTR(rb_sym2str(local)) : "";

	return text[0] >= 'a' && text[0] <= 'z';
}

/* --- Analysis */

static bool are_names(VALUE locals, uintptr_t table)
{
	uintptr_t ids[LOCALS_MAX];
	long count = instruction_length(locals);
	long named = 0;

	if (!safe_read_words(table, ids, (size_t)count))
		return false;
	for (long i = 0; i < count; i++) {
		VALUE local = instruction_element(locals, i);

		if (!has_name(local))
			continue;
		if (ids[i] != rb_sym2id(local))
			return false;
		named++;
	}
	return named >= 3;
}

static bool read_body(const uintptr_t *frame, const struct route *route, uintptr_t body[BODY_WORDS])
{
	uintptr_t code[SLOT_WORDS];

	memset(body, 0, BODY_WORDS * sizeof(*body));
	return safe_read_words(frame[route->frame_word], code, SLOT_WORDS) && (code[0] & RUBY_T_MASK) == RUBY_T_IMEMO &&
	       safe_read_some(code[route->code_word], body, BODY_WORDS) > 0;
}

static bool leads_to_names(const struct trial *trial, int method, const struct route *route)
{
	uintptr_t body[BODY_WORDS];

	return read_body(trial->frames[method], route, body) && are_names(trial->locals[method], body[route->body_word]);
}

/*
 * The only one in all that was sampled. A body is smaller than what is read, and behind it is whatever the allocator has put
 * there: that may look the same. So of a body's words the first one counts.
 */
static bool find_route(const struct trial *trial, struct route *found)
{
	struct route route;
	unsigned routes = 0;

	for (route.frame_word = 0; route.frame_word < FRAME_WORDS; route.frame_word++) {
		for (route.code_word = 1; route.code_word < SLOT_WORDS; route.code_word++) {
			uintptr_t body[BODY_WORDS];

			if (!read_body(trial->frames[FEW], &route, body))
				continue;
			for (route.body_word = 0; route.body_word < BODY_WORDS; route.body_word++) {
				if (!body[route.body_word] || !are_names(trial->locals[FEW], body[route.body_word]) ||
				    !leads_to_names(trial, ALL, &route))
					continue;
				*found = route;
				routes++;
				break;
			}
		}
	}
	return routes == 1;
}

/* The first number of 32 bits in both bodies that is how many variables there are. */
static bool find_count(const struct trial *trial, const struct route *route, size_t *offset)
{
	uint32_t few[2 * BODY_WORDS], all[2 * BODY_WORDS];
	uintptr_t body[BODY_WORDS];

	if (!read_body(trial->frames[FEW], route, body))
		return false;
	memcpy(few, body, sizeof(few));
	if (!read_body(trial->frames[ALL], route, body))
		return false;
	memcpy(all, body, sizeof(all));
	for (size_t i = 0; i < 2 * BODY_WORDS; i++) {
		if (few[i] != instruction_length(trial->locals[FEW]) || all[i] != instruction_length(trial->locals[ALL]))
			continue;
		*offset = i * sizeof(uint32_t);
		return true;
	}
	return false;
}

static bool analyse(const struct trial *trial)
{
	struct route route;
	size_t offset;

	return trial->sampled[FEW] && trial->sampled[ALL] && find_route(trial, &route) && find_count(trial, &route, &offset) &&
	       layout_found(LAYOUT_FRAME_CODE, route.frame_word) && layout_found(LAYOUT_CODE_BODY, route.code_word) &&
	       layout_found(LAYOUT_BODY_LOCALS, route.body_word) && layout_found(LAYOUT_BODY_LOCAL_COUNT, offset);
}

/* --- Events of the scratch methods */

static void sample(struct trial *trial, int method, uintptr_t frame)
{
	size_t words = layout_value(LAYOUT_FRAME_SIZE) / sizeof(uintptr_t);

	memset(trial->frames[method], 0, sizeof(trial->frames[method]));
	trial->sampled[method] = safe_read_words(frame, trial->frames[method], words < FRAME_WORDS ? words : FRAME_WORDS);
}

/* Reads all variables but that of a block before and after there is a Binding. */
static void verify(struct trial *trial, int method, rb_trace_arg_t *trace_arg, uintptr_t frame)
{
	VALUE before[LOCALS_MAX], binding;
	long count = instruction_length(trial->locals[method]);

	for (int again = 0; again < 2; again++) {
		for (long i = 0; i < count; i++) {
			VALUE local = instruction_element(trial->locals[method], i);
			unsigned place;

			if (!has_name(local) || (method == ALL && local == ID2SYM(rb_intern("l"))))
				continue;
			place = frame_locals_place(frame, rb_sym2id(local));
			trial->compared++;
			if (place && !again)
				before[i] = frame_locals_read(frame, place);
			else if (!place || before[i] != frame_locals_read(frame, place) ||
			         before[i] != builtin_call1(BUILTIN_BINDING_LOCAL_VARIABLE_GET, binding, local))
				trial->wrong++;
		}
		binding = rb_tracearg_binding(trace_arg);
	}
	RB_GC_GUARD(binding);
}

static void on_call(VALUE tracepoint, void *nothing)
{
	struct trial *trial = scratch_watched(tracepoint);
	rb_trace_arg_t *trace_arg;
	VALUE name;

	(void)nothing;
	if (!trial)
		return;
	trace_arg = rb_tracearg_from_tracepoint(tracepoint);
	name = rb_tracearg_method_id(trace_arg);
	for (int i = 0; i < 2; i++) {
		int method = trial->running[i];

		if (name != ID2SYM(rb_intern(methods[method].name)))
			continue;
		frame_context_find(frame_direct_context(trace_arg), frame_direct_frame(trace_arg));
		if (trial->is_sampling)
			sample(trial, method, frame_direct_frame(trace_arg));
		else
			verify(trial, method, trace_arg, frame_direct_frame(trace_arg));
	}
}

/* --- The trial */

static VALUE call_both(VALUE argument)
{
	const struct trial *trial = (const struct trial *)argument;

	for (int i = 0; i < 2; i++)
		rb_proc_call_with_block(builtin_lambda(methods[trial->running[i]].call), 1, &trial->scratch.object, Qnil);
	return Qnil;
}

static void watch(struct trial *trial, const int *running)
{
	trial->running = running;
	scratch_watch(&(struct scratch_watch){.events = RUBY_EVENT_CALL,
	                                      .event = on_call,
	                                      .targets = {scratch_method(&trial->scratch, methods[running[0]].name),
	                                                  scratch_method(&trial->scratch, methods[running[1]].name)},
	                                      .run = call_both,
	                                      .argument = (VALUE)trial,
	                                      .data = trial});
}

static VALUE try(VALUE argument)
{
	struct trial *trial = (struct trial *)argument;

	scratch_make(&trial->scratch);
	for (int i = 0; i < METHODS; i++) {
		VALUE iseq;

		if (i == BLOCK)
			scratch_define_block(&trial->scratch, methods[i].name, builtin_lambda(methods[i].source));
		else
			scratch_run(&trial->scratch, methods[i].source);
		iseq = method_definition_instructions(scratch_method(&trial->scratch, methods[i].name));
		if (NIL_P(iseq))
			return Qnil;
		trial->locals[i] = instruction_element(builtin_call0(BUILTIN_ISEQ_TO_A, iseq), INSTRUCTION_DATA_LOCALS);
		if (instruction_length(trial->locals[i]) > LOCALS_MAX)
			return Qnil;
	}
	trial->is_sampling = true;
	watch(trial, sampled_methods);
	trial->is_sampling = false;
	if (!analyse(trial))
		return Qnil;
	watch(trial, sampled_methods);
	watch(trial, other_methods);
	if (trial->wrong == 0 && trial->compared > 50)
		layout_found(LAYOUT_ENVIRONMENT_LOCALS, ENVIRONMENT_LAST);
	return Qnil;
}

void frame_locals_find(void)
{
	static bool tried;
	VALUE *verbose = rb_ruby_verbose_ptr(), saved_verbose = *verbose, saved_error = rb_errinfo();
	struct trial trial = {.compared = 0};
	int failed = 0;

	if (tried || !frame_direct_is_known() || !foreign_hooks_known() || foreign_hooks_on(FOREIGN_HOOKS_TRIAL))
		return;
	/* First of all: defining a scratch method may lead here again. */
	tried = true;
	*verbose = Qnil;
	rb_protect(try, (VALUE)&trial, &failed);
	*verbose = saved_verbose;
	exception_drop(RTEST(rb_obj_is_kind_of(saved_error, rb_eException)) ? saved_error : Qnil);
	for (enum layout_row row = LAYOUT_FRAME_CODE; row <= LAYOUT_BODY_LOCAL_COUNT; row++)
		layout_not_found(row, "no words led from all frames to the names and number of their variables");
	frame_context_not_found();
	layout_not_found(LAYOUT_ENVIRONMENT_LOCALS, "variables that were read there were not those of a Binding");
}

/* The names of the frame's variables. */
static const ID *names_of(uintptr_t frame, uint32_t *count)
{
	const uintptr_t *body = (const uintptr_t *)((const uintptr_t *)frame_locals_code(frame))[layout_value(LAYOUT_CODE_BODY)];

	*count = *(const uint32_t *)((const char *)body + layout_value(LAYOUT_BODY_LOCAL_COUNT));
	return (const ID *)body[layout_value(LAYOUT_BODY_LOCALS)];
}

unsigned frame_locals_place(uintptr_t frame, ID name)
{
	uint32_t count;
	const ID *names = names_of(frame, &count);

	for (uint32_t i = 0; i < count; i++)
		if (names[i] == name)
			return count - i - 1 + ENVIRONMENT_LAST;
	return 0;
}

unsigned frame_locals_nameless_place(uintptr_t frame, unsigned index)
{
	uint32_t count;
	const ID *names = names_of(frame, &count);

	return index < count && !rb_is_local_id(names[index]) ? count - index - 1 + ENVIRONMENT_LAST : 0;
}
