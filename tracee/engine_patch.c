/*
 * Engine "patch": the C function pointer in a method's definition is replaced by a stub that records the call and calls the original. Costs nothing
 * elsewhere, and nothing once the pointer is back. For methods written in C. Contexts: job (arm, disarm); the calls are patch_call.c's.
 *
 * A definition is shared by the method's aliases, and by copies in other classes; so it is patched once for all probes that need it, and each call is
 * compared with the names and owners that they have selected. The method object that led to it is kept alive as long, and with it the definition,
 * which a redefinition of the method would otherwise free.
 */

#include "engine.h"

#include "compat.h"
#include "core.h"
#include "definition.h"
#include "patch.h"
#include "patch_stubs.h"
#include "selection.h"
#include "selector.h"

#include <errno.h>
#include <ruby/st.h>
#include <stdlib.h>
#include <string.h>

/* A definition that is patched. */
struct patched {
	struct patch_target target;
	struct patch_slot *slot;
	VALUE method; /* an UnboundMethod that leads to it */
	uint32_t links;
};

/* A probe's: one for each definition that its method has had while we were attached. */
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
	struct patch_target target;
	enum compat_compiler compiler = compat_compiler();
	const char *why;

	if (!NIL_P(definition_instructions(match->method)))
		return refuse(reason, "written in Ruby");
	why = patch_unready();
	if (why)
		return refuse(reason, why);
	if (!patch_follow(match->method, &target))
		return refuse(reason, NIL_P(rb_funcall(match->method, rb_intern("source_location"), 0))
		                              ? "no C function of its own: an alias in a module, or what the VM does itself"
		                              : "an attribute");
	if (NUM2INT(rb_funcall(match->method, rb_intern("arity"), 0)) != (target.arity < 0 ? -1 : target.arity))
		return refuse(reason, "its definition does not have the arity that it says");
	if (!patch_slot_of(target.function, target.arity))
		return refuse(reason, "all stubs are in use");
	if (compiler == COMPAT_COMPILER_OTHER)
		return refuse(reason, "a compiler is at work that may call C functions in ways of its own");
	why = patch_bypassed(match->owner, match->name, compiler == COMPAT_COMPILER_YJIT);
	if (why)
		return refuse(reason, why);
	if (compiler == COMPAT_COMPILER_YJIT && OBJ_FROZEN(match->owner))
		return refuse(reason, "its class is frozen, so that YJIT cannot be told");
	return true;
}

static uint32_t position(const struct patch_slot *slot, const struct probe *probe)
{
	uint32_t i = 0;

	while (i < slot->probe_count && slot->probes[i] != probe)
		i++;
	return i;
}

static bool slot_add(struct patch_slot *slot, struct probe *probe)
{
	struct probe **probes;

	if (position(slot, probe) < slot->probe_count)
		return true;
	probes = realloc(slot->probes, (slot->probe_count + 1) * sizeof(*probes));
	if (!probes)
		return false;
	slot->probes = probes;
	slot->probes[slot->probe_count++] = probe;
	return true;
}

static void slot_remove(struct patch_slot *slot, const struct probe *probe)
{
	uint32_t at = position(slot, probe);

	if (at == slot->probe_count)
		return;
	slot->probes[at] = slot->probes[--slot->probe_count];
	if (slot->probe_count == 0) {
		free(slot->probes);
		slot->probes = NULL;
	}
}

/* Code that YJIT has compiled holds the function's address; changing the method's visibility makes it forget that one method. */
static VALUE renew_compiled(VALUE argument)
{
	const struct probe *probe = (const struct probe *)argument;
	VALUE name = probe->callee;
	enum core_method now = CORE_MODULE_PUBLIC;
	enum core_method other = CORE_MODULE_PRIVATE;

	if (RTEST(core_call(CORE_MODULE_PRIVATE_METHOD_DEFINED, probe->owner, 1, &name))) {
		now = CORE_MODULE_PRIVATE;
		other = CORE_MODULE_PUBLIC;
	} else if (RTEST(core_call(CORE_MODULE_PROTECTED_METHOD_DEFINED, probe->owner, 1, &name))) {
		now = CORE_MODULE_PROTECTED;
	}
	core_call(other, probe->owner, 1, &name);
	core_call(now, probe->owner, 1, &name);
	return Qnil;
}

static void tell_compiler(const struct probe *probe)
{
	int failed = 0;

	if (compat_compiler() == COMPAT_COMPILER_NONE)
		return;
	rb_protect(renew_compiled, (VALUE)probe, &failed);
	if (failed)
		rb_set_errinfo(Qnil);
}

/* The record of a definition, made at the first need; without links yet it belongs to nobody. */
static struct patched *patched_of(VALUE method)
{
	struct patch_target target;
	struct patched *patched;
	st_data_t found;

	if (!patch_follow(method, &target))
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

static int patch_arm(struct probe *probe, VALUE method, struct error *err)
{
	struct engine_patch_link *link = calloc(1, sizeof(*link));
	struct patched *patched = link ? patched_of(method) : NULL;

	if (!patched || !slot_add(patched->slot, probe)) {
		if (patched && patched->links == 0)
			patched_free(patched);
		free(link); // NOLINT(clang-analyzer-unix.Malloc): what is not freed is in the table
		return error_set(err, -ENOMEM, "no memory for a probe");
	}
	patched->links++;
	link->patched = patched;
	link->slot = patched->slot;
	link->foreign_before = atomic_load_explicit(&patched->slot->foreign_calls, memory_order_relaxed);
	link->next = probe->patches;
	probe->patches = link;
	probe->armed = true;
	patch_put(&patched->target, patch_stub_of(patched->slot));
	tell_compiler(probe);
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
		slot_remove(link->slot, probe);
		unlink_patched(link->patched);
		link->patched = NULL;
		changed = true;
	}
	if (changed)
		tell_compiler(probe);
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

void engine_patch_mark(const struct probe *probe)
{
	for (const struct engine_patch_link *link = probe->patches; link; link = link->next)
		if (link->patched)
			rb_gc_mark(link->patched->method);
}

const struct engine engine_patch = {
	.id = ENGINE_PATCH,
	.can = patch_can,
	.arm = patch_arm,
	.disarm = patch_disarm,
	.release = patch_release,
};
