/*
 * What a method is made of. See definition.h.
 *
 * The identity of a definition: a method object holds a pointer to its method entry, and that one to the definition, which copies of the method share. Where in
 * them these pointers are is private to the VM, so it is found out from three methods of a scratch module: a, b made from a, and c.
 * It is the word that a and b have in common and c has different, behind a word that differs in all three. Found so on 2.7.4 and 3.1.2: entry at
 * word 3 (4 on 3.3.8 and 4.0.5), definition at word 2. While searching, memory is read by a system call that does not fault.
 */

#define _GNU_SOURCE
#include "definition.h"

#include "compat.h"
#include "core.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define OBJECT_WORDS 6
#define ENTRY_WORDS 6

static struct {
	bool tried, found;
	size_t entry_word, definition_word;
} layout;

static bool read_words(uintptr_t from, uintptr_t *words, size_t count)
{
	struct iovec local = {words, count * sizeof(*words)};
	struct iovec remote = {(void *)from, count * sizeof(*words)};

	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)(count * sizeof(*words));
}

static bool try_word(uintptr_t objects[3][OBJECT_WORDS], size_t word)
{
	uintptr_t entries[3][ENTRY_WORDS];

	for (int i = 0; i < 3; i++) {
		if (objects[i][word] < 4096 || objects[i][word] % sizeof(uintptr_t) != 0 ||
		    !read_words(objects[i][word], entries[i], ENTRY_WORDS))
			return false;
	}
	for (size_t w = 1; w < ENTRY_WORDS; w++) {
		if (entries[0][w] == entries[1][w] && entries[0][w] != entries[2][w] && entries[0][w] > 4096) {
			layout.entry_word = word;
			layout.definition_word = w;
			return true;
		}
	}
	return false;
}

static void find_layout(void)
{
	uintptr_t objects[3][OBJECT_WORDS];
	VALUE module = core_scratch_module();
	VALUE methods = rb_ary_new();

	/* First of all: defining the scratch methods may lead here again. */
	layout.tried = true;
	core_define_method(module, "a", core_run("-> { }"));
	core_define_method(module, "b", core_find_method(module, "a"));
	core_define_method(module, "c", core_run("-> { }"));
	for (const char *name = "abc"; *name; name++)
		rb_ary_push(methods, core_find_method(module, (const char[]){*name, 0}));
	for (int i = 0; i < 3; i++)
		if (!read_words((uintptr_t)compat_data(rb_ary_entry(methods, i)), objects[i], OBJECT_WORDS))
			return;
	for (size_t word = 0; word < OBJECT_WORDS && !layout.found; word++)
		if (objects[0][word] != objects[1][word] && objects[1][word] != objects[2][word])
			layout.found = try_word(objects, word);
	RB_GC_GUARD(methods);
}

/* The first half of a definition's first word has its type and flags, the second counts references. */
static volatile uint32_t *flags_of(VALUE method)
{
	return definition_is_block_method(method) ? (volatile uint32_t *)definition_of(method) : NULL;
}

uint32_t definition_flags(VALUE method)
{
	const volatile uint32_t *flags = flags_of(method);

	return flags ? *flags : 0;
}

void definition_flags_keep(VALUE method, uint32_t flags)
{
	volatile uint32_t *now = flags_of(method);
	uint32_t added = now ? *now ^ flags : 0;

	/* One flag more, and nothing else. */
	if (added && !(added & (added - 1)) && (*now & added))
		*now = flags;
}

uintptr_t definition_of(VALUE method)
{
	uintptr_t entry, definition;

	if (!layout.tried)
		find_layout();
	if (!layout.found || !read_words((uintptr_t)compat_data(method) + layout.entry_word * sizeof(uintptr_t), &entry, 1) ||
	    !read_words(entry + layout.definition_word * sizeof(uintptr_t), &definition, 1))
		return 0;
	return definition;
}

VALUE definition_instructions(VALUE method)
{
	return core_call1(CORE_ISEQ_OF, core_instruction_sequence(), method);
}

/* Those that say Primitive.mandatory_only? in the sources of 3.1 to 4.1-dev. In some of these versions one or the other is written in C. */
static const struct {
	const VALUE *owner;
	bool singleton;
	const char *name;
} short_forms[] = {
	{&rb_cArray, false, "first"},    {&rb_cArray, false, "last"},   {&rb_cArray, false, "sample"},
	{&rb_mKernel, false, "Integer"}, {&rb_mKernel, false, "Float"}, {&rb_mKernel, true, "Integer"},
	{&rb_mKernel, true, "Float"},    {&rb_cTime, true, "at"},
};

static bool is_builtin(VALUE iseq)
{
	VALUE path = NIL_P(iseq) ? Qnil : core_call0(CORE_ISEQ_PATH, iseq);

	return RB_TYPE_P(path, T_STRING) && RSTRING_LEN(path) > 10 && memcmp(RSTRING_PTR(path), "<internal:", 10) == 0;
}

struct enclosing {
	const void *inner;
	bool found;
};

static VALUE look_into(RB_BLOCK_CALL_FUNC_ARGLIST(child, argument))
{
	struct enclosing *enclosing = (struct enclosing *)argument;

	(void)argc;
	(void)argv;
	(void)blockarg;
	if (!enclosing->found)
		enclosing->found = compat_data(child) == enclosing->inner;
	if (!enclosing->found)
		core_iterate(CORE_ISEQ_EACH_CHILD, child, 0, NULL, look_into, argument);
	return Qnil;
}

bool definition_encloses(VALUE code, VALUE inner)
{
	struct enclosing enclosing = {.inner = compat_data(inner)};

	core_iterate(CORE_ISEQ_EACH_CHILD, code, 0, NULL, look_into, (VALUE)&enclosing);
	return enclosing.found;
}

bool definition_has_short_form(VALUE method)
{
	VALUE owner = core_call0(CORE_UNBOUND_METHOD_OWNER, method);
	VALUE name = core_call0(CORE_UNBOUND_METHOD_ORIGINAL_NAME, method);

	for (size_t i = 0; i < sizeof(short_forms) / sizeof(short_forms[0]); i++) {
		VALUE holder = *short_forms[i].owner;

		if (short_forms[i].singleton)
			holder = rb_singleton_class(holder);
		if (owner == holder && name == ID2SYM(rb_intern(short_forms[i].name)))
			return is_builtin(definition_instructions(method));
	}
	return false;
}

bool definition_is_block_method(VALUE method)
{
	VALUE iseq = definition_instructions(method);
	VALUE label = NIL_P(iseq) ? Qnil : core_call0(CORE_ISEQ_LABEL, iseq);

	return RB_TYPE_P(label, T_STRING) && RSTRING_LEN(label) > 6 && memcmp(RSTRING_PTR(label), "block ", 6) == 0;
}
