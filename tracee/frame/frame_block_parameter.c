/*
 * Finds where a body of instructions says which variable is its block parameter. See frame_block_parameter.h. Context: job.
 *
 * Lambdas with every kind of parameter in front of the block parameter, and without one, are compiled and not called. The only
 * small number that is the block parameter's in all that have one is its place. The only bit near it that just these have set
 * says that there is one.
 */

#include "tracee/frame/frame_block_parameter.h"

#include "tracee/base/safe_read.h"
#include "tracee/frame/frame_direct.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/code_around.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/method_definition.h"

#include <string.h>

#define BODY_HALVES 128      /* numbers of 32 bits that are looked at */
#define NEAR_HALVES 16       /* the bit is so close to the number */
#define FLAGS_LIMIT 0x100000 /* a number with flags is smaller; halves of addresses are not */
#define VARIABLES_MAX 16

static const struct {
	const char *source;
	bool has_block; /* named `z` */
	bool inner;     /* the code that is written in it is looked at */
} lambdas[] = {
	{"->(&z) { z }", true, false},
	{"->(a, &z) { [a, z] }", true, false},
	{"->(a, b, &z) { [a, b, z] }", true, false},
	{"->(a, b = 1, *c, &z) { [a, b, c, z] }", true, false},
	{"->(a, b = 1, *c, d, &z) { [a, b, c, d, z] }", true, false},
	{"->(a:, &z) { [a, z] }", true, false},
	{"->(a, b:, c: 1, **d, &z) { [a, b, c, d, z] }", true, false},
	{"->() { 1 }", false, false},
	{"->(z) { z }", false, false},
	{"->(a, z) { [a, z] }", false, false},
	{"->(a, b = 1) { [a, b] }", false, false},
	{"->(a, b = 1, *c) { [a, b, c] }", false, false},
	{"->(a, b = 1, *c, d) { [a, b, c, d] }", false, false},
	{"->(a:) { a }", false, false},
	{"->(a:, b: 2) { [a, b] }", false, false},
	{"->(a, b:, c: 1, **d) { [a, b, c, d] }", false, false},
	/* A block may also be used without a parameter. */
	{"-> { def yields(a); yield a; end }", false, true},
};

#define LAMBDAS (sizeof(lambdas) / sizeof(*lambdas))

struct body {
	uint32_t halves[BODY_HALVES];
	uint32_t place; /* of `z` among the variables */
};

/* Which of the variables has that name. */
static bool find_variable(const uintptr_t *body, ID name, uint32_t *place)
{
	uint32_t count = *(const uint32_t *)((const char *)body + layout_value(LAYOUT_BODY_LOCAL_COUNT));
	uintptr_t names[VARIABLES_MAX];

	if (count > VARIABLES_MAX || !safe_read_words(body[layout_value(LAYOUT_BODY_LOCALS)], names, count))
		return false;
	for (*place = 0; *place < count; ++*place)
		if (names[*place] == name)
			return true;
	return false;
}

static bool body_read(uintptr_t code, bool has_block, struct body *body)
{
	uintptr_t words[sizeof(body->halves) / sizeof(uintptr_t)], address;

	memset(words, 0, sizeof(words));
	if (!safe_read_words(code + layout_value(LAYOUT_CODE_BODY) * sizeof(address), &address, 1) ||
	    safe_read_some(address, words, sizeof(words) / sizeof(*words)) == 0)
		return false;
	memcpy(body->halves, words, sizeof(words));
	return !has_block || find_variable(words, rb_intern("z"), &body->place);
}

static bool is_place(const struct body *bodies, size_t half)
{
	for (size_t i = 0; i < LAMBDAS; i++)
		if (lambdas[i].has_block && bodies[i].halves[half] != bodies[i].place)
			return false;
	return true;
}

static bool is_bit(const struct body *bodies, size_t half, unsigned bit)
{
	for (size_t i = 0; i < LAMBDAS; i++)
		if (bodies[i].halves[half] >= FLAGS_LIMIT || (bodies[i].halves[half] >> bit & 1) != lambdas[i].has_block)
			return false;
	return true;
}

static bool find_bit(const struct body *bodies, size_t place)
{
	size_t found = 0, count = 0;

	for (size_t half = place > NEAR_HALVES ? place - NEAR_HALVES : 0; half < place; half++) {
		for (unsigned bit = 0; bit < 32; bit++) {
			if (!is_bit(bodies, half, bit))
				continue;
			found = half * 32 + bit;
			count++;
		}
	}
	return count == 1 && layout_found(LAYOUT_BODY_HAS_BLOCK, found);
}

/* The first: behind a body is whatever the allocator has put there, which may look the same. */
static bool find_place(const struct body *bodies)
{
	for (size_t half = 0; half < BODY_HALVES; half++)
		if (is_place(bodies, half))
			return find_bit(bodies, half) && layout_found(LAYOUT_BODY_BLOCK, half * sizeof(uint32_t));
	return false;
}

static VALUE code_of(size_t i)
{
	VALUE code = method_definition_instructions(builtin_lambda(lambdas[i].source));

	return lambdas[i].inner && !NIL_P(code) ? code_around_child(code) : code;
}

static VALUE find(VALUE argument)
{
	struct body bodies[LAMBDAS];
	uintptr_t flags = 0;

	(void)argument;
	for (size_t i = 0; i < LAMBDAS; i++) {
		VALUE object = code_of(i);
		uintptr_t code = NIL_P(object) ? 0 : code_around_address(object), word;

		if (!code || !safe_read_words(code, &word, 1) || !body_read(code, lambdas[i].has_block, &bodies[i]))
			return Qnil;
		if (flags && flags != (word & FRAME_ENTRY_MASK))
			return Qnil;
		flags = word & FRAME_ENTRY_MASK;
		RB_GC_GUARD(object);
	}
	if (find_place(bodies))
		layout_found(LAYOUT_CODE_FLAGS, flags);
	return Qnil;
}

void frame_block_parameter_find(void)
{
	static bool tried;
	int failed = 0;

	if (tried || !layout_is_known(LAYOUT_BODY_LOCAL_COUNT))
		return;
	tried = true;
	rb_protect(find, Qnil, &failed);
	if (failed)
		exception_drop(Qnil);
	for (enum layout_row row = LAYOUT_CODE_FLAGS; row <= LAYOUT_BODY_HAS_BLOCK; row++)
		layout_not_found(row, "no number of lambdas' bodies was that of their block parameters");
}

int frame_block_parameter(uintptr_t code)
{
	const uint32_t *body = (const uint32_t *)((const uintptr_t *)code)[layout_value(LAYOUT_CODE_BODY)];
	size_t bit = layout_value(LAYOUT_BODY_HAS_BLOCK);

	if (!(body[bit / 32] >> bit % 32 & 1))
		return -1;
	return *(const int *)((const char *)body + layout_value(LAYOUT_BODY_BLOCK));
}
