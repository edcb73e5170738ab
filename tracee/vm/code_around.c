/*
 * The variables around a block, or around code that was given to eval: see code_around.h. Context: job; compiling code: event.
 * GVL held, under rb_protect.
 *
 * A Binding that is made in the block tells which there are, but nothing tells before it runs. The VM's compiler knows: the body
 * of instructions leads to those that they are written in, and to those in which all this ends, a method's, class's or file's.
 * Both places are found with three lambdas, one within the other, whose variables are known.
 */

#include "tracee/vm/code_around.h"

#include "tracee/base/safe_read.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/layout.h"
#include "tracee/vm/method_definition.h"

#include <string.h>

#define BODY_WORDS 64
#define DEPTH_MAX 100 /* of code within code */
#define NAMES_MAX 2000

enum { OUTER, MIDDLE, INNER, LAMBDAS };

static bool is_code(uintptr_t address)
{
	uintptr_t flags;

	return safe_read_words(address, &flags, 1) && (flags & RUBY_T_MASK) == RUBY_T_IMEMO;
}

/* Its data on 2.7; from 3.0 on they lead there. */
uintptr_t code_around_address(VALUE code)
{
	uintptr_t data = (uintptr_t)compat_data(code), address;

	if (is_code(data))
		return data;
	return safe_read_words(data, &address, 1) && is_code(address) ? address : 0;
}

static bool read_body(uintptr_t code, uintptr_t body[BODY_WORDS])
{
	uintptr_t words[SLOT_WORDS];

	memset(body, 0, BODY_WORDS * sizeof(*body));
	return layout_is_known(LAYOUT_CODE_BODY) && layout_value(LAYOUT_CODE_BODY) < SLOT_WORDS && is_code(code) &&
	       safe_read_words(code, words, SLOT_WORDS) &&
	       safe_read_some(words[layout_value(LAYOUT_CODE_BODY)], body, BODY_WORDS) > 0;
}

/* --- Finding the places */

static VALUE take_child(RB_BLOCK_CALL_FUNC_ARGLIST(child, argument))
{
	(void)argc;
	(void)argv;
	(void)blockarg;
	*(VALUE *)argument = child;
	return Qnil;
}

VALUE code_around_child(VALUE code)
{
	VALUE child = Qnil;

	builtin_iterate(BUILTIN_ISEQ_EACH_CHILD, code, 0, NULL, take_child, (VALUE)&child);
	return child;
}

/*
 * A body is smaller than what is read, and behind it is whatever the allocator has put there: that may look the same. So the
 * first word counts.
 */

/* That leads from each body to what its code is written in. */
static bool find_parent(uintptr_t bodies[LAMBDAS][BODY_WORDS], const uintptr_t codes[LAMBDAS])
{
	for (size_t i = 0; i < BODY_WORDS; i++)
		if (bodies[INNER][i] == codes[MIDDLE] && bodies[MIDDLE][i] == codes[OUTER])
			return layout_found(LAYOUT_BODY_PARENT, i);
	return false;
}

/* That leads from all of them to the same code, and from that to itself. */
static bool find_scope(uintptr_t bodies[LAMBDAS][BODY_WORDS])
{
	uintptr_t scope[BODY_WORDS];

	for (size_t i = 0; i < BODY_WORDS; i++) {
		uintptr_t code = bodies[INNER][i];

		if (bodies[MIDDLE][i] == code && bodies[OUTER][i] == code && read_body(code, scope) && scope[i] == code)
			return layout_found(LAYOUT_BODY_SCOPE, i);
	}
	return false;
}

static bool are(VALUE names, const char *first, const char *second)
{
	return RARRAY_LEN(names) == 2 && rb_ary_entry(names, 0) == ID2SYM(rb_intern(first)) &&
	       rb_ary_entry(names, 1) == ID2SYM(rb_intern(second));
}

static VALUE find(VALUE argument)
{
	VALUE lambda = builtin_lambda("->(a, b) { ->(c) { d = c; -> { [a, b, c, d] } } }");
	VALUE code[LAMBDAS] = {method_definition_instructions(lambda), Qnil, Qnil};
	uintptr_t bodies[LAMBDAS][BODY_WORDS], codes[LAMBDAS];

	for (int i = OUTER; i < INNER; i++)
		code[i + 1] = code_around_child(code[i]);
	for (int i = OUTER; i < LAMBDAS; i++) {
		codes[i] = NIL_P(code[i]) ? 0 : code_around_address(code[i]);
		if (!codes[i] || !read_body(codes[i], bodies[i]))
			return Qnil;
	}
	*(bool *)argument = find_parent(bodies, codes) && find_scope(bodies) && are(code_around_names(code[MIDDLE]), "a", "b") &&
	                    RARRAY_LEN(code_around_names(code[INNER])) == 4;
	RB_GC_GUARD(code[OUTER]);
	RB_GC_GUARD(code[MIDDLE]);
	RB_GC_GUARD(code[INNER]);
	return Qnil;
}

static bool places_known; /* tried, and right */

void code_around_find(void)
{
	static bool tried;
	bool right = false;
	int failed = 0;

	if (tried || !layout_is_known(LAYOUT_BODY_LOCAL_COUNT))
		return;
	tried = true;
	places_known = true; /* for the trial itself */
	rb_protect(find, (VALUE)&right, &failed);
	places_known = right && !failed;
	if (failed)
		exception_drop(Qnil);
	layout_not_found(LAYOUT_BODY_PARENT, "no word led from lambdas to what they are written in");
	layout_not_found(LAYOUT_BODY_SCOPE, "no word led from lambdas to the code around all of them");
}

/* --- Names */

/* Before those that are there. */
static VALUE names_of(const uintptr_t body[BODY_WORDS], VALUE inner)
{
	uintptr_t ids[NAMES_MAX];
	size_t count = *(const uint32_t *)((const char *)body + layout_value(LAYOUT_BODY_LOCAL_COUNT));
	VALUE names = rb_ary_new();

	if (count > NAMES_MAX || !safe_read_words(body[layout_value(LAYOUT_BODY_LOCALS)], ids, count))
		return inner;
	for (size_t i = 0; i < count; i++)
		/* The VM has variables of its own, whose names are none. */
		if (ids[i] && rb_id2str(ids[i]))
			rb_ary_push(names, ID2SYM(ids[i]));
	return rb_ary_concat(names, inner);
}

VALUE code_around_names(VALUE code)
{
	uintptr_t body[BODY_WORDS], address = places_known ? code_around_address(code) : 0;
	VALUE names = rb_ary_new();

	for (int depth = 0; depth < DEPTH_MAX && address && read_body(address, body); depth++) {
		if (depth > 0)
			names = names_of(body, names);
		address = body[layout_value(LAYOUT_BODY_SCOPE)] == address ? 0 : body[layout_value(LAYOUT_BODY_PARENT)];
	}
	RB_GC_GUARD(code);
	return names;
}
