/*
 * Methods whose function the VM does not call. See patch.h. Context: job.
 *
 * These lists are from the sources of 2.7.4, 3.1.2, 3.3.8, 3.4, 4.0 and 4.1-dev, all versions together: where one of them is not
 * special on the Ruby at hand, it is left to another engine without need. What is special on a future Ruby,
 * tests/live/patch_test.rb looks for.
 */

#include "tracee/engine/patch.h"

#include <string.h>

struct bypass {
	const VALUE *owner;
	const char *names;       /* between spaces */
	const char *instruction; /* where this Ruby has it; NULL: everywhere */
};

/*
 * vm.c, vm_init_redefined_flag(): an instruction does it as long as nobody redefines it. And what `new` and literal arrays have
 * instructions for.
 */
static const struct bypass inlined[] = {
	{&rb_cInteger, " + - * / % == === < <= > >= <=> & | << >> [] succ ", NULL},
	{&rb_cFloat, " + - * / % == === < <= > >= <=> ", NULL},
	{&rb_cString, " + == === << =~ <=> length size empty? succ freeze -@ ", NULL},
	{&rb_cSymbol, " == === ", NULL},
	{&rb_cNilClass, " === nil? ", NULL},
	{&rb_cTrueClass, " === ", NULL},
	{&rb_cFalseClass, " === ", NULL},
	{&rb_cArray, " + << [] []= length size empty? freeze max min hash include? ", NULL},
	{&rb_cArray, " pack ", "opt_newarray_send"},
	{&rb_cHash, " [] []= length size empty? freeze default ", NULL},
	{&rb_cRegexp, " =~ ", NULL},
	{&rb_cProc, " call ", NULL},
	{&rb_cTime, " succ ", NULL},
	{&rb_cClass, " new ", "opt_new"},
};

/* yjit_reg_method() in YJIT's codegen: the compiler has code for them. */
static const struct bypass compiled_specially[] = {
	{&rb_cBasicObject, " ! == != equal? ", NULL},
	{&rb_mKernel, " nil? is_a? kind_of? instance_of? eql? respond_to? block_given? dup ", NULL},
	{&rb_cModule, " == === name ", NULL},
	{&rb_cClass, " superclass ", NULL},
	{&rb_cInteger, " pred ^ ", NULL},
	{&rb_cString, " +@ bytesize byteslice dup getbyte setbyte [] slice to_s to_str ", NULL},
};

/* Those that stand for calls are among them; each of these names has been looked at. */
static const char known_instructions[] =
	" opt_and opt_aref opt_aref_with opt_ary_freeze opt_aset opt_aset_with opt_call_c_function opt_case_dispatch opt_div "
	"opt_duparray_send "
	"opt_empty_p opt_eq opt_ge opt_getconstant_path opt_getinlinecache opt_gt opt_hash_freeze opt_invokebuiltin_delegate "
	"opt_invokebuiltin_delegate_leave opt_le opt_length opt_lt opt_ltlt opt_minus opt_mod opt_mult opt_neq opt_new "
	"opt_newarray_max "
	"opt_newarray_min opt_newarray_send opt_nil_p opt_not opt_or opt_plus opt_regexpmatch2 opt_reverse "
	"opt_send_without_block "
	"opt_setinlinecache opt_size opt_str_freeze opt_str_uminus opt_succ ";

static bool is_among(const char *names, const char *name, size_t size)
{
	const char *at = names;

	while ((at = strchr(at, ' ')) != NULL) {
		at++;
		if (strncmp(at, name, size) == 0 && at[size] == ' ')
			return true;
	}
	return false;
}

static VALUE instruction_names(void)
{
	return rb_const_get(rb_const_get(rb_cObject, rb_intern("RubyVM")), rb_intern("INSTRUCTION_NAMES"));
}

static bool has_instruction(const char *name)
{
	VALUE names = instruction_names();

	for (long i = 0; i < RARRAY_LEN(names); i++)
		if (strcmp(RSTRING_PTR(RARRAY_AREF(names, i)), name) == 0)
			return true;
	return false;
}

void patch_unknown_instructions(struct text *unknown)
{
	VALUE names = instruction_names();

	for (long i = 0; i < RARRAY_LEN(names); i++) {
		VALUE name = RARRAY_AREF(names, i);
		const char *bytes = StringValueCStr(name);

		if (strncmp(bytes, "opt_", 4) == 0 && !is_among(known_instructions, bytes, strlen(bytes)))
			text_printf(unknown, "%s%s", unknown->used ? ", " : "", bytes);
	}
}

static bool is_listed(const struct bypass *list, size_t count, VALUE owner, VALUE name)
{
	for (size_t i = 0; i < count; i++)
		if (*list[i].owner == owner && is_among(list[i].names, RSTRING_PTR(name), (size_t)RSTRING_LEN(name)) &&
		    (!list[i].instruction || has_instruction(list[i].instruction)))
			return true;
	return false;
}

#define LISTED(list, owner, name) is_listed(list, sizeof(list) / sizeof((list)[0]), owner, name)

const char *patch_bypassed(VALUE owner, VALUE name, bool compiled)
{
	VALUE string = rb_sym2str(name);

	if (LISTED(inlined, owner, string))
		return "the VM has an instruction of its own for it and does not call it";
	if (compiled && (LISTED(compiled_specially, owner, string) ||
	                 (owner == rb_singleton_class(rb_cThread) &&
	                  is_among(" current ", RSTRING_PTR(string), (size_t)RSTRING_LEN(string)))))
		return "YJIT has code of its own for it and does not call it";
	return NULL;
}
