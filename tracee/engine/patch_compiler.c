/*
 * Methods that are patched, and compilers of Ruby. See patch.h. Context: job.
 *
 * Code that YJIT has compiled holds the function's address; changing the method's visibility makes it forget that one method, on
 * 3.4, 4.0 and 4.1-dev. This cannot be tried in the process: in a job an interrupt is pending, and compiled code leaves each C
 * call to the interpreter then. tests/live/patch_test.rb tries it. Of other compilers nothing is known.
 */

#include "tracee/engine/patch.h"

#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/refinements.h"

const char patch_compiler_other[] = "a compiler is at work that may call C functions in ways of its own";
/* Telling it changes the method's visibility there and back, and another Ractor might call the method in between. */
const char patch_compiler_ractors[] = "YJIT cannot be told while several Ractors run";

const char *patch_refused_by_compiler(void)
{
	enum compat_compiler compiler = compat_compiler();

	if (compiler == COMPAT_COMPILER_OTHER)
		return patch_compiler_other;
	return compiler == COMPAT_COMPILER_YJIT && !compat_is_only_ractor() ? patch_compiler_ractors : NULL;
}

struct method_name {
	VALUE owner, name;
};

static VALUE renew_compiled(VALUE argument)
{
	VALUE owner = ((const struct method_name *)argument)->owner;
	VALUE name = ((const struct method_name *)argument)->name;
	enum builtin_method now = BUILTIN_MODULE_PUBLIC;
	enum builtin_method other = BUILTIN_MODULE_PRIVATE;

	/* Refined since: rather calls that go through a stub which records nothing than one that finds a private method. */
	if (refinements_have(owner, name))
		return Qnil;
	if (RTEST(builtin_call(BUILTIN_MODULE_PRIVATE_METHOD_DEFINED, owner, 1, &name))) {
		now = BUILTIN_MODULE_PRIVATE;
		other = BUILTIN_MODULE_PUBLIC;
	} else if (RTEST(builtin_call(BUILTIN_MODULE_PROTECTED_METHOD_DEFINED, owner, 1, &name))) {
		now = BUILTIN_MODULE_PROTECTED;
	}
	builtin_call(other, owner, 1, &name);
	builtin_call(now, owner, 1, &name);
	return Qnil;
}

static bool untold;

bool patch_compiler_untold(void)
{
	return untold;
}

bool patch_compiler_starts_anew(void)
{
	if (!compat_is_only_ractor())
		return false;
	untold = false;
	return true;
}

void patch_tell_compiler(VALUE owner, VALUE name)
{
	struct method_name method = {owner, name};
	int failed = 0;

	if (compat_compiler() == COMPAT_COMPILER_NONE)
		return;
	/*
	 * With Ractors that have come since: rather calls that go through a stub which records nothing, while these run, than one
	 * that finds no method.
	 */
	if (!compat_is_only_ractor()) {
		untold = true;
		return;
	}
	rb_protect(renew_compiled, (VALUE)&method, &failed);
	if (failed)
		exception_drop(Qnil);
}
