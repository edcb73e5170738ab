/*
 * Engine "patch": the C function pointer in a method's definition is replaced by a stub that records the call and calls the
 * original. Costs nothing elsewhere, and nothing once the pointer is back. For methods written in C. Contexts: job (arm, disarm);
 * the calls are patch_call.c's.
 *
 * A definition is shared by the method's aliases, and by copies in other classes; so it is patched once for all probes that need
 * it, and each call is compared with the names and owners that they have selected. The method object that led to it is kept alive
 * as long, and with it the definition, which a redefinition of the method would otherwise free.
 */

#include "tracee/engine/engine.h"

#include "tracee/engine/match.h"
#include "tracee/engine/patch.h"
#include "tracee/engine/patch_stubs.h"
#include "tracee/observe/probe.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/method_definition.h"
#include "tracee/vm/own.h"
#include "tracee/vm/refinements.h"

#include <errno.h>
#include <ruby/st.h>
#include <stdlib.h>
#include <string.h>

/* A definition that is patched. */
struct patched {
	struct method_target target;
	struct patch_slot *slot;
	VALUE method; /* an UnboundMethod that leads to it */
	uint32_t links;
};

/* A probe's. */
struct engine_patch_link {
	struct patched *patched; /* NULL once the pointer is back */
	struct patch_slot *slot;
	uint32_t foreign_before;
	struct engine_patch_link *next;
};

static st_table *definitions; /* address -> struct patched; under the GVL */

static bool refuse(struct text *reason, const char *why)
{
	text_printf(reason, "%s%s", reason->used ? "; " : "", why);
	return false;
}

static bool patch_can(const struct match *match, struct text *reason)
{
	struct method_target target;
	enum compat_compiler compiler = compat_compiler();
	const char *why;

	if (!NIL_P(method_definition_instructions(match->method)))
		return refuse(reason, "written in Ruby");
	/* First: what patching stands on could not be tried, either. */
	if (compiler == COMPAT_COMPILER_YJIT && !compat_is_only_ractor())
		return refuse(reason, patch_compiler_ractors);
	why = patch_unready();
	if (why)
		return refuse(reason, why);
	if (!method_definition_function(match->method, &target))
		return refuse(reason, NIL_P(builtin_call0(BUILTIN_UNBOUND_METHOD_SOURCE_LOCATION, match->method))
		                              ? "no C function of its own: an alias in a module, or what the VM does itself"
		                              : "an attribute");
	if (NUM2INT(builtin_call0(BUILTIN_UNBOUND_METHOD_ARITY, match->method)) != (target.arity < 0 ? -1 : target.arity))
		return refuse(reason, "its definition does not have the arity that it says");
	if (!patch_slot_of(target.function, target.arity))
		return refuse(reason, "all stubs are in use");
	if (compiler == COMPAT_COMPILER_OTHER)
		return refuse(reason, patch_compiler_other);
	why = patch_bypassed(match->owner, match->name, compiler == COMPAT_COMPILER_YJIT);
	if (why)
		return refuse(reason, why);
	if (compiler == COMPAT_COMPILER_YJIT && OBJ_FROZEN(match->owner))
		return refuse(reason, "its class is frozen, so that YJIT cannot be told");
	if (compiler == COMPAT_COMPILER_YJIT && refinements_have(match->owner, match->name))
		return refuse(reason, "a refinement has it, too, so that YJIT cannot be told");
	return true;
}

/* The record of a definition, made at the first need; without links yet it belongs to nobody. */
static struct patched *patched_of(VALUE method)
{
	struct method_target target;
	struct patched *patched;
	st_data_t found;

	if (!method_definition_function(method, &target))
		return NULL;
	if (!definitions)
		definitions = st_init_numtable();
	if (st_lookup(definitions, target.definition, &found))
		return (struct patched *)found;
	patched = calloc(1, sizeof(*patched));
	if (!patched)
		return NULL;
	patched->slot = patch_slot_of(target.function, target.arity);
	patched->target = target;
	patched->method = method;
	if (!patched->slot) {
		free(patched);
		return NULL;
	}
	st_insert(definitions, target.definition, (st_data_t)patched);
	return patched;
}

static void patched_free(struct patched *patched)
{
	st_data_t key = patched->target.definition;

	st_delete(definitions, &key, NULL);
	free(patched);
}

/*
 * Method objects are compared, and hashed, by the functions they lead to. So the methods that do that are patched, too, as long
 * as any is: they see the original functions.
 */

static struct shield {
	const VALUE *class;
	const char *name;
	VALUE method;
	struct patched *patched; /* NULL: not up */
	/*
	 * Set once: a slot whose calls go through shield_call() does so for good, since calls may be under way in other Ractors.
	 */
	struct patch_slot *slot;
	VALUE (*call)(patch_function function, VALUE receiver, int argc, const VALUE *argv); /* the slot's own */
} shields[] = {
	{.class = &rb_cMethod, .name = "hash"},      {.class = &rb_cMethod, .name = "=="},
	{.class = &rb_cMethod, .name = "eql?"},      {.class = &rb_cUnboundMethod, .name = "hash"},
	{.class = &rb_cUnboundMethod, .name = "=="}, {.class = &rb_cUnboundMethod, .name = "eql?"},
};

#define SHIELDS (sizeof(shields) / sizeof(shields[0]))

static uint32_t probe_links; /* the shields are up while there are any */

static struct patched *patched_behind(VALUE object)
{
	struct method_target target;
	st_data_t found;

	if (!RTEST(rb_obj_is_kind_of(object, rb_cMethod)) && !RTEST(rb_obj_is_kind_of(object, rb_cUnboundMethod)))
		return NULL;
	return method_definition_function(object, &target) && st_lookup(definitions, target.definition, &found)
	               ? (struct patched *)found
	               : NULL;
}

/* Instead of a slot's own. The functions that it calls run no Ruby code and raise nothing. */
static VALUE shield_call(patch_function function, VALUE receiver, int argc, const VALUE *argv)
{
	struct patched *behind[2] = {NULL, NULL};
	size_t i = 0;
	VALUE value;

	while (!shields[i].slot || shields[i].slot->function != function)
		i++;
	if (compat_in_main_ractor()) {
		behind[0] = patched_behind(receiver);
		behind[1] = argc > 0 ? patched_behind(argv[0]) : NULL;
	}
	for (int b = 0; b < 2; b++)
		if (behind[b])
			patch_put(&behind[b]->target, (uintptr_t)behind[b]->slot->function);
	value = shields[i].call(function, receiver, argc, argv);
	for (int b = 0; b < 2; b++)
		if (behind[b])
			patch_put(&behind[b]->target, patch_stub_of(behind[b]->slot));
	return value;
}

static void unlink_patched(struct patched *patched);

static void shield_up(struct shield *shield)
{
	VALUE class = *shield->class;
	VALUE name = ID2SYM(rb_intern(shield->name)), method;
	struct patched *patched;

	if (!shield->method)
		own_register(&shield->method);
	method = builtin_call(BUILTIN_MODULE_INSTANCE_METHOD, class, 1, &name);
	/* That may have run Ruby code. */
	patched = shield->patched || probe_links == 0 ? NULL : patched_of(method);
	if (!patched)
		return;
	shield->method = method;
	patched->links++;
	shield->patched = patched;
	if (patched->slot->call != shield_call) {
		shield->call = patched->slot->call;
		shield->slot = patched->slot;
		patched->slot->call = shield_call;
	}
	patch_put(&patched->target, patch_stub_of(patched->slot));
	patch_tell_compiler(class, name);
}

static void shield_down(struct shield *shield)
{
	unlink_patched(shield->patched);
	shield->patched = NULL;
	patch_tell_compiler(*shield->class, ID2SYM(rb_intern(shield->name)));
}

/*
 * Puts them up or takes them down, as is right for each at the time when it is looked at: another thread may change that on the
 * way.
 */
static void shields_adjust(void)
{
	for (size_t i = 0; i < SHIELDS; i++) {
		if (probe_links > 0 && !shields[i].patched)
			shield_up(&shields[i]);
		else if (probe_links == 0 && shields[i].patched)
			shield_down(&shields[i]);
	}
}

static bool patch_serves(const struct probe *probe, VALUE method)
{
	struct method_target target;

	for (const struct engine_patch_link *link = probe->patches; link; link = link->next)
		if (link->patched && method_definition_function(method, &target) &&
		    link->patched->target.definition == target.definition)
			return true;
	return false;
}

static int patch_arm(struct probe *probe, VALUE method, struct error *err)
{
	struct engine_patch_link *link = calloc(1, sizeof(*link));
	struct patched *patched = link ? patched_of(method) : NULL;

	if (!patched || !probe_set_add(&patched->slot->probes, probe)) {
		if (patched && patched->links == 0)
			patched_free(patched);
		free(link); // NOLINT(clang-analyzer-unix.Malloc): what is not freed is in the table
		return error_set(err, -ENOMEM, "no memory for a probe");
	}
	patched->links++;
	probe_links++;
	link->patched = patched;
	link->slot = patched->slot;
	link->foreign_before = atomic_load_explicit(&patched->slot->foreign_calls, memory_order_relaxed);
	link->next = probe->patches;
	probe->patches = link;
	probe->armed = true;
	/* From here on the probe can be disarmed, and may be so on the way. */
	if (probe_links == 1)
		shields_adjust();
	if (!link->patched)
		return 0;
	patch_put(&patched->target, patch_stub_of(patched->slot));
	patch_tell_compiler(probe->owner, probe->callee);
	return 0;
}

/* The last probe of a definition puts the function back, unless somebody else has put another one there. */
static void unlink_patched(struct patched *patched)
{
	if (--patched->links > 0)
		return;
	if (*patched->target.function_place == patch_stub_of(patched->slot))
		patch_put(&patched->target, (uintptr_t)patched->slot->function);
	patched_free(patched);
}

static void patch_disarm(struct probe *probe)
{
	bool changed = false;

	for (struct engine_patch_link *link = probe->patches; link; link = link->next) {
		if (!link->patched)
			continue;
		probe_set_remove(&link->slot->probes, probe);
		unlink_patched(link->patched);
		link->patched = NULL;
		probe_links--;
		changed = true;
	}
	if (!changed)
		return;
	if (probe_links == 0)
		shields_adjust();
	patch_tell_compiler(probe->owner, probe->callee);
}

static void patch_release(struct probe *probe)
{
	while (probe->patches) {
		struct engine_patch_link *link = probe->patches;

		probe->patches = link->next;
		free(link);
	}
}

uint64_t engine_patch_foreign_calls(const struct probe *probe)
{
	uint64_t calls = 0;

	for (const struct engine_patch_link *link = probe->patches; link; link = link->next)
		calls += atomic_load_explicit(&link->slot->foreign_calls, memory_order_relaxed) - link->foreign_before;
	return calls;
}

static int mark_patched(st_data_t definition, st_data_t patched, st_data_t unused)
{
	(void)definition;
	(void)unused;
	rb_gc_mark(((const struct patched *)patched)->method);
	return ST_CONTINUE;
}

/* Whoever had it patched first may have left before the others. */
void engine_patch_mark_all(void)
{
	if (definitions)
		st_foreach(definitions, mark_patched, 0);
}

const struct engine engine_patch = {
	.id = ENGINE_PATCH,
	.can = patch_can,
	.serves = patch_serves,
	.arm = patch_arm,
	.disarm = patch_disarm,
	.release = patch_release,
};
