/*
 * A session's selection: the table of its probes. See selection.h. Context: job, GVL held; selection_probe() also event.
 *
 * A probe is of one definition of a method, and lives as long as its selection: open calls refer to it. Where the method is defined anew, the new definition gets
 * a probe of its own, which stands before the former one in the table: calls of that may still be under way, or come through a Method object.
 */

#include "selection_parts.h"

#include "compat.h"
#include "compiler_watch.h"
#include "expression.h"
#include "own.h"
#include "refinements.h"
#include "session.h"
#include "turn.h"
#include "watch_modules.h"

#include <stdlib.h>
#include <string.h>

#define BUCKETS_MIN 64u

static struct {
	struct selection *first; /* all of them, for the GC */
	VALUE marker;
} selections;

/* --- The table */

static uint32_t bucket_of(const struct selection *selection, VALUE owner, VALUE name)
{
	uint64_t hash = ((uint64_t)owner >> 3) * UINT64_C(0x9e3779b97f4a7c15) + ((uint64_t)name >> 3);

	hash *= UINT64_C(0xff51afd7ed558ccd);
	return (uint32_t)(hash >> 40) & (selection->bucket_count - 1);
}

struct probe *selection_probe(const struct selection *selection, VALUE owner, VALUE name)
{
	struct probe *probe = selection ? selection->buckets[bucket_of(selection, owner, name)] : NULL;

	while (probe && (probe->owner != owner || probe->callee != name))
		probe = probe->next;
	return probe;
}

static void table_put(struct selection *selection, struct probe *probe)
{
	struct probe **bucket = &selection->buckets[bucket_of(selection, probe->owner, probe->callee)];

	probe->next = *bucket;
	*bucket = probe;
}

static void table_grow(struct selection *selection)
{
	uint32_t old_count = selection->bucket_count;
	struct probe **old = selection->buckets;
	struct probe **buckets = calloc(2u * old_count, sizeof(*buckets));

	if (!buckets)
		return;
	selection->buckets = buckets;
	selection->bucket_count = 2 * old_count;
	for (uint32_t i = 0; i < old_count; i++) {
		while (old[i]) {
			struct probe *probe = old[i];

			old[i] = probe->next;
			table_put(selection, probe);
		}
	}
	free(old);
}

struct probe *selection_add_probe(struct selection *selection, const struct match *match, uint32_t selector)
{
	struct probe *probe = aligned_alloc(_Alignof(struct probe), sizeof(*probe));

	if (!probe)
		rb_memerror();
	memset(probe, 0, sizeof(*probe));
	probe->session = selection->session;
	probe->ref = selection->probe_count++;
	probe->owner = match->owner;
	probe->callee = match->name;
	probe->callee_id = rb_sym2id(match->name);
	probe->only_kind_of = Qundef;
	probe->waiting = Qfalse;
	probe->selector = selector;
	*selection->last_made = probe;
	selection->last_made = &probe->next_made;
	if (selection->probe_count > selection->bucket_count)
		table_grow(selection);
	table_put(selection, probe);
	if (match->only_kind_of != Qundef)
		probe->only_kind_of = rb_ary_new_from_args(1, match->only_kind_of);
	return probe;
}

/* --- The GC */

static void mark(void *data)
{
	(void)data;
	engine_target_mark_left_over();
	engine_patch_mark_all();
	for (struct selection *selection = selections.first; selection; selection = selection->next) {
		rb_gc_mark(selection->hook.tracepoint);
		for (uint32_t i = 0; i < selection->selector_count; i++)
			rb_gc_mark(selection->modules[i]);
		for (const struct probe *probe = selection->first_made; probe; probe = probe->next_made) {
			/* Marked without being movable: the table is keyed by addresses. */
			rb_gc_mark(probe->owner);
			rb_gc_mark(probe->callee);
			engine_target_mark(probe);
			if (probe->only_kind_of != Qundef)
				rb_gc_mark(probe->only_kind_of);
			rb_gc_mark(probe->waiting);
			expression_list_mark(probe->expressions);
		}
	}
}

static const rb_data_type_t marker_type = {
	.wrap_struct_name = "rbprobe selections",
	.function = {.dmark = mark},
};

void selection_init(void)
{
	own_register(&selections.marker); /* first: it allocates, and may collect */
	selections.marker = TypedData_Wrap_Struct(rb_cObject, &marker_type, &selections);
}

/* --- Making and freeing */

static size_t text_size(const struct command *command)
{
	size_t size = 0;

	for (uint32_t i = 0; i < command->selector_count; i++) {
		const struct selector *selector = &command->selectors[i];

		size += selector->class_pattern.size + selector->method_pattern.size;
		for (uint32_t e = 0; e < selector->expression_count; e++)
			size += sizeof(struct slice) + selector->expressions[e].size;
	}
	return size;
}

static struct slice copy_text(char **to, struct slice text)
{
	struct slice copy = {*to, text.size};

	memcpy(*to, text.bytes, text.size);
	*to += text.size;
	return copy;
}

/* The command's memory goes when the job ends; the selectors are needed as long as methods may be defined. */
static struct selector *copy_selectors(const struct command *command)
{
	uint32_t count = command->selector_count;
	size_t expressions = 0;
	struct selector *selectors;
	struct slice *slices;
	char *text;

	for (uint32_t i = 0; i < count; i++)
		expressions += command->selectors[i].expression_count;
	selectors = malloc(count * sizeof(*selectors) + expressions * sizeof(*slices) + text_size(command) + 1);
	if (!selectors)
		return NULL;
	slices = (struct slice *)(selectors + count);
	text = (char *)(slices + expressions);
	for (uint32_t i = 0; i < count; i++) {
		const struct selector *from = &command->selectors[i];

		selectors[i] = *from;
		selectors[i].class_pattern = copy_text(&text, from->class_pattern);
		selectors[i].method_pattern = copy_text(&text, from->method_pattern);
		selectors[i].expressions = slices;
		for (uint32_t e = 0; e < from->expression_count; e++)
			*slices++ = copy_text(&text, from->expressions[e]);
	}
	return selectors;
}

static void free_parts(struct selection *selection)
{
	slice_set_free(&selection->constants);
	slice_set_free(&selection->methods);
	free(selection->buckets);
	free(selection->method_patterns);
	free(selection->modules);
	free(selection->selectors);
	free(selection->found);
	free(selection);
}

struct selection *selection_new(struct session *session, const struct command *command)
{
	struct selection *selection = calloc(1, sizeof(*selection));

	if (!selection)
		return NULL;
	selection->session = session;
	selection->hook.tracepoint = Qnil;
	selection->selectors = copy_selectors(command);
	selection->selector_count = command->selector_count;
	selection->found = calloc(command->selector_count + 1u, sizeof(*selection->found));
	selection->method_patterns = calloc(command->selector_count + 1u, sizeof(*selection->method_patterns));
	selection->modules = calloc(command->selector_count + 1u, sizeof(*selection->modules));
	selection->buckets = calloc(BUCKETS_MIN, sizeof(selection->buckets[0]));
	selection->bucket_count = BUCKETS_MIN;
	selection->last_made = &selection->first_made;
	if (!selection->selectors || !selection->found || !selection->method_patterns || !selection->modules ||
	    !selection->buckets || !selection_note_names(selection)) {
		free_parts(selection);
		return NULL;
	}
	for (uint32_t i = 0; i < selection->selector_count; i++)
		selection->modules[i] = Qnil;
	selection->next = selections.first;
	selections.first = selection;
	return selection;
}

static VALUE stop_hook(VALUE selection)
{
	engine_hook_stop(&((struct selection *)selection)->hook);
	return Qnil;
}

static VALUE disarm_probe(VALUE probe)
{
	engine_patch.disarm((struct probe *)probe);
	engine_target.disarm((struct probe *)probe);
	return Qnil;
}

static VALUE compile_anew(VALUE unused)
{
	compat_compile_anew();
	return unused;
}

static VALUE pass_turn(VALUE turn)
{
	turn_pass((struct turn *)turn);
	return Qnil;
}

/* Each step by itself: what one of them raises must not keep the others from being done. */
static void step(VALUE (*function)(VALUE), VALUE argument)
{
	int failed = 0;

	rb_protect(function, argument, &failed);
	if (failed)
		rb_set_errinfo(Qnil);
}

void selection_disarm_all(struct selection *selection)
{
	bool left_to_interpreter = !NIL_P(selection->hook.tracepoint);
	struct turn turn;

	turn_begin(&turn);
	refinements_forget();
	step(stop_hook, (VALUE)selection);
	for (struct probe *probe = selection->first_made; probe; probe = probe->next_made) {
		left_to_interpreter = left_to_interpreter || probe->sites;
		step(disarm_probe, (VALUE)probe);
		step(pass_turn, (VALUE)&turn);
	}
	if (left_to_interpreter)
		step(compile_anew, Qnil);
	refinements_forget();
}

bool selection_is_over(const struct selection *selection)
{
	return selection->disabled;
}

void selection_disable(struct selection *selection)
{
	if (selection->disabled)
		return;
	selection->disabled = true;
	selection_disarm_all(selection);
	if (selection_watches())
		return;
	compiler_watch_end();
	watch_modules_end();
}

void selection_free(struct selection *selection)
{
	struct selection **link = &selections.first;

	if (!selection)
		return;
	selection_disable(selection);
	while (*link != selection)
		link = &(*link)->next;
	*link = selection->next;
	while (selection->first_made) {
		struct probe *probe = selection->first_made;

		selection->first_made = probe->next_made;
		/* Not by probe->engine: redefining a method may have changed that. */
		engine_target.release(probe);
		engine_patch.release(probe);
		expression_list_free(probe->expressions);
		free(probe);
	}
	free_parts(selection);
}

uint64_t selection_foreign_calls(const struct selection *selection)
{
	uint64_t calls = 0;

	for (const struct probe *probe = selection->first_made; probe; probe = probe->next_made)
		calls += engine_target_foreign_calls(probe) + engine_patch_foreign_calls(probe);
	return calls;
}

bool selection_watches(void)
{
	for (const struct selection *selection = selections.first; selection; selection = selection->next)
		if (!selection->disabled && selection->selector_count > 0)
			return true;
	return false;
}

void selection_hook_start(struct selection *selection, bool whole)
{
	engine_hook_start(selection, &selection->hook, whole);
}

struct engine_hook_state *selection_hook(struct selection *selection)
{
	return &selection->hook;
}
