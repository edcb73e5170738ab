/*
 * The module Rbprobe. See api.h. Context: the application's threads, GVL held; each of these may raise, as Ruby's methods do. The
 * comments at the definitions are YARD's.
 */

#include "tracee/api/api.h"

#include "proto/names.h"
#include "tracee/api/on_attach.h"
#include "tracee/session/bell.h"
#include "tracee/session/permissions.h"
#include "tracee/vm/compat.h"

#include <ruby.h>
#include <string.h>

static void must_be_main_ractor(void)
{
	if (!compat_in_main_ractor())
		rb_raise(rb_eRuntimeError, "only the main Ractor can say what rbprobe may do");
}

static VALUE names_of(uint32_t mask)
{
	VALUE names = rb_ary_new();

	for (unsigned i = 0; i < PERMISSION_COUNT; i++)
		if (mask & (1u << i))
			rb_ary_push(names, ID2SYM(rb_intern(permission_name(i))));
	return names;
}

static uint32_t permission_named(VALUE name)
{
	VALUE known;

	if (!RB_SYMBOL_P(name))
		rb_raise(rb_eTypeError, "Rbprobe.allow takes Symbols, not %" PRIsVALUE, rb_obj_class(name));
	for (unsigned i = 0; i < PERMISSION_COUNT; i++)
		if (name == ID2SYM(rb_intern(permission_name(i))))
			return 1u << i;
	known = rb_ary_join(names_of(PERMISSIONS_ALL), rb_str_new_cstr(", "));
	rb_raise(rb_eArgError, "Rbprobe.allow knows no %" PRIsVALUE ", but: %" PRIsVALUE, rb_sym2str(name), known);
}

/*
 * The version of the extension in this process.
 *
 * @overload version
 *   @return [String] such as "0.1.0"
 */
static VALUE api_version(VALUE self)
{
	(void)self;
	return rb_usascii_str_new_cstr(RBPROBE_VERSION);
}

/*
 * What rbprobe may do in this process. Everything ({ALL}) until the application says otherwise.
 *
 * @overload allow
 *   @return [Array<Symbol>] some of {ALL}
 */
static VALUE api_allow(VALUE self)
{
	(void)self;
	return names_of(permissions());
}

/*
 * Restricts what rbprobe may do in this process, whoever attaches, root included. What is under way and not allowed any more
 * is ended. Forked children have the same restriction; it can be changed in each of them.
 *
 * Without `:eval` no code of a client's runs in the process, so nobody but the application can allow more again. Who may trace
 * the process with a debugger can do everything all the same.
 *
 * @example Calls and backtraces, but no code and no dumps
 *   Rbprobe.allow = [:trace, :backtrace]
 * @example Nothing at all
 *   Rbprobe.allow = []
 *
 * @overload allow=(kinds)
 *   @param kinds [Array<Symbol>] some of {ALL}: `:trace` (calls, their arguments and results: trace, stat, top, methods), `:eval`
 *     (code that a client has run: eval, console, expressions and conditions of a trace that are more than a variable, and
 *     `--inspect`), `:backtrace`, `:heap` (dumps), `:memory` (figures), `:fork` (a frozen copy), `:selftest`
 *   @raise [ArgumentError] if there is no such kind
 *   @raise [TypeError] if it is no Array of Symbols
 *   @raise [RuntimeError] outside of the main Ractor
 *   @return [Array<Symbol>] what was given
 */
static VALUE api_allow_set(VALUE self, VALUE kinds)
{
	VALUE array = rb_check_array_type(kinds);
	uint32_t mask = 0;

	(void)self;
	must_be_main_ractor();
	if (NIL_P(array))
		rb_raise(rb_eTypeError, "Rbprobe.allow takes an Array of Symbols, not %" PRIsVALUE, rb_obj_class(kinds));
	for (long i = 0; i < RARRAY_LEN(array); i++)
		mask |= permission_named(rb_ary_entry(array, i));
	permissions_set(mask);
	/* A job looks what is under way. */
	bell_trigger();
	return kinds;
}

/*
 * Calls the block each time that a client attaches to this process, in a thread of its own, one client after the other, while the
 * client goes on. So it is a note and no veto; {allow=} forbids. It may take as long as it wants. What it raises ends the block
 * alone; `rbprobe -v` shows it. Further blocks are called as well. A forked child calls it for clients that attach to the child.
 *
 * @example Leave a trace of who looks
 *   Rbprobe.on_attach do |who|
 *     Rails.logger.warn "rbprobe: process #{who.pid} of user #{who.uid}: #{who.command}"
 *   end
 *
 * @overload on_attach
 *   @yieldparam who [Client] pid: as this process sees it, or nil where it does not; uid: as the kernel says; command: the
 *     client's command line, as the client says, or nil
 *   @raise [ArgumentError] without a block
 *   @raise [RuntimeError] outside of the main Ractor
 *   @return [nil]
 */
static VALUE api_on_attach(VALUE self)
{
	(void)self;
	must_be_main_ractor();
	if (!rb_block_given_p())
		rb_raise(rb_eArgError, "Rbprobe.on_attach takes a block");
	on_attach_add(rb_block_proc());
	return Qnil;
}

void api_define(void)
{
	static bool defined;
	VALUE module, client;

	if (defined)
		return;
	/*
	 * Document-module: Rbprobe
	 * What the application can say to rbprobe, which attaches to Ruby processes and shows what they do.
	 */
	module = rb_define_module("Rbprobe");
	defined = true;
	/* The version of the extension. */
	rb_define_const(module, "VERSION", rb_obj_freeze(rb_usascii_str_new_cstr(RBPROBE_VERSION)));
	/* Everything that {allow=} takes. */
	rb_define_const(module, "ALL", rb_obj_freeze(names_of(PERMISSIONS_ALL)));
	rb_define_singleton_method(module, "version", api_version, 0);
	rb_define_singleton_method(module, "allow", api_allow, 0);
	rb_define_singleton_method(module, "allow=", api_allow_set, 1);
	rb_define_singleton_method(module, "on_attach", api_on_attach, 0);
	/* Who has attached: its pid, its uid and its command line. */
	client = rb_struct_define_under(module, "Client", "pid", "uid", "command", NULL);
	on_attach_init(client);
}

void api_fork_child(void)
{
	on_attach_fork_child();
}
