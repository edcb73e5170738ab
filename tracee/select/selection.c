/*
 * A session's selection: its selectors and its probes. See selection.h. Context: job, GVL held.
 */

#include "tracee/select/selection_parts.h"

#include "tracee/engine/engine_line.h"
#include "tracee/observe/callers.h"
#include "tracee/observe/decide.h"
#include "tracee/observe/expression.h"
#include "tracee/observe/marks.h"
#include "tracee/observe/observe.h"
#include "tracee/observe/statistics.h"
#include "tracee/observe/tally.h"
#include "tracee/observe/tally_keys.h"
#include "tracee/select/code_compiled.h"
#include "tracee/select/compile_anew.h"
#include "tracee/select/compiler_watch.h"
#include "tracee/select/module_changes.h"
#include "tracee/session/debug.h"
#include "tracee/session/queue.h"
#include "tracee/session/session.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/fiber.h"
#include "tracee/vm/gvl_slice.h"
#include "tracee/vm/oneshot_lines.h"
#include "tracee/vm/own.h"
#include "tracee/vm/refinements.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
	struct selection *first; /* all of them, for the GC */
	VALUE marker;
} selections;

uint8_t selection_outermost_of(const struct selection *selection, uint32_t selector)
{
	const struct selector *of = &selection->selectors[selector];

	return of->flags & SELECTOR_OUTERMOST ? (uint8_t)of->set : 0;
}

bool selection_always(const struct selection *selection, uint32_t selector)
{
	return selection->session->manner == CALLS_DECIDED && selection->selectors[selector].flags & SELECTOR_ALWAYS;
}

struct probe *selection_add_probe(struct selection *selection, const struct match *match, uint32_t selector)
{
	struct tally *tally = selection->session->tallies ? tally_new() : NULL;
	struct probe *probe = probe_table_add(&selection->probes, match->owner, match->name);

	if (!probe || (selection->session->tallies && !tally)) {
		free(tally);
		rb_memerror();
	}
	probe->tally = tally;
	probe->session = selection->session;
	probe->selector = selector;
	if (selector < selection->selector_count) {
		probe->roles = (uint8_t)(1u << selection->selectors[selector].role);
		probe->outermost_of = selection_outermost_of(selection, selector);
		probe->always = selection_always(selection, selector);
	}
	if (selection->session->options.flags & TRACE_FIREHOSE)
		probe->roles |= 1u << ROLE_SHOWN;
	if (match->only_kind_of != Qundef)
		probe->only_kind_of = rb_ary_new_from_args(1, match->only_kind_of);
	return probe;
}

/* --- The GC */

static void mark(void *data)
{
	(void)data;
	engine_target_mark_left_over();
	engine_line_mark_left_over();
	oneshot_lines_mark();
	engine_patch_mark_all();
	selection_works_mark();
	for (struct selection *selection = selections.first; selection; selection = selection->next) {
		rb_gc_mark(selection->hook.tracepoint);
		callers_mark(selection->session);
		marks_mark(selection->session);
		matches_mark(&selection->matches);
		if (selection->session->tallies)
			tally_keys_mark(selection->session->tallies->keys);
		lines_mark(selection);
		for (uint32_t i = 0; i < selection->selector_count; i++)
			rb_gc_mark(selection->modules[i]);
		for (const struct probe *probe = selection->probes.first_made; probe; probe = probe->next_made) {
			/* Marked without being movable: the table is keyed by addresses. */
			rb_gc_mark(probe->owner);
			rb_gc_mark(probe->callee);
			engine_target_mark(probe);
			engine_line_mark(probe);
			if (probe->only_kind_of != Qundef)
				rb_gc_mark(probe->only_kind_of);
			rb_gc_mark(probe->waiting);
			expression_list_mark(probe->expressions);
			expression_list_mark(probe->ends);
			expression_list_mark(probe->condition);
			expression_list_mark(probe->key);
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
	observe_register_names(selection_look_at_names);
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
	if (selection->left_out_known)
		st_free_table(selection->left_out_known);
	probe_table_free(&selection->probes);
	matches_free(&selection->matches);
	lines_free(selection);
	free(selection->method_patterns);
	free(selection->modules);
	free(selection->selectors);
	free(selection->results);
	free(selection);
}

struct selection *selection_new(struct session *session, const struct command *command)
{
	struct selection *selection = calloc(1, sizeof(*selection));

	if (!selection)
		return NULL;
	selection->session = session;
	selection->hook = (struct engine_hook_state){.tracepoint = Qnil, .find = selection_hook_probe, .owner = selection};
	selection->selectors = copy_selectors(command);
	selection->selector_count = command->selector_count;
	selection->results = calloc(command->selector_count + 1u, sizeof(*selection->results));
	selection->method_patterns = calloc(command->selector_count + 1u, sizeof(*selection->method_patterns));
	selection->modules = calloc(command->selector_count + 1u, sizeof(*selection->modules));
	if (!selection->selectors || !selection->results || !selection->method_patterns || !selection->modules ||
	    !probe_table_init(&selection->probes) || !selection_note_names(selection) || !lines_make(selection)) {
		free_parts(selection);
		return NULL;
	}
	for (uint32_t i = 0; i < selection->selector_count; i++) {
		selection->modules[i] = Qnil;
		selection->has_expressions |= selection->selectors[i].expression_count > 0;
	}
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
	engine_line_disarm((struct probe *)probe);
	return Qnil;
}

/* Each step by itself: what one of them raises must not keep the others from being done. */
static void step(VALUE (*function)(VALUE), VALUE argument)
{
	int failed = 0;

	rb_protect(function, argument, &failed);
	if (failed)
		exception_drop(Qnil);
}

static void disarm_one(struct selection *selection, struct probe *probe)
{
	selection->left_to_interpreter = selection->left_to_interpreter || probe->sites || probe->line;
	step(disarm_probe, (VALUE)probe);
}

static void end_disarming(struct selection *selection)
{
	selection->disarmed = true;
	if (selection->left_to_interpreter && session_is_parents(selection->session))
		compile_anew_later();
	else if (selection->left_to_interpreter)
		compile_anew();
	refinements_forget();
	if (!selection_watches_lines())
		code_compiled_end();
	if (selection_watches())
		return;
	compiler_watch_end();
	module_changes_end();
}

void selection_disarm_all(struct selection *selection)
{
	refinements_forget();
	selection->left_to_interpreter = selection->left_to_interpreter || !NIL_P(selection->hook.tracepoint);
	step(stop_hook, (VALUE)selection);
	for (struct probe *probe = selection->probes.first_made; probe; probe = probe->next_made)
		disarm_one(selection, probe);
	end_disarming(selection);
}

/* A part of it, if it is time for one. */
static void disarm_part(struct selection *selection)
{
	bool in_parts = queue_rings_itself();
	struct gvl_slice slice;

	if (in_parts && !gvl_part_is_due())
		return;
	gvl_slice_begin_for(&slice, NULL, 0);
	refinements_forget();
	while (selection->disarm_next && !(in_parts && gvl_slice_part_is_over(&slice))) {
		disarm_one(selection, selection->disarm_next);
		selection->disarm_next = selection->disarm_next->next_made;
	}
	gvl_slice_end();
	if (selection->disarm_next) {
		debug(selection->session, DEBUG_SELECT, "disarming goes on in another job");
		return;
	}
	end_disarming(selection);
}

void selection_disable(struct selection *selection)
{
	if (selection->disabled)
		return;
	selection->disabled = selection->hook.over = true;
	selection->left_to_interpreter = !NIL_P(selection->hook.tracepoint);
	step(stop_hook, (VALUE)selection);
	selection->disarm_next = selection->probes.first_made;
	disarm_part(selection);
}

bool selection_is_disarming(void)
{
	for (const struct selection *selection = selections.first; selection; selection = selection->next)
		if (selection->disabled && !selection->disarmed)
			return true;
	return false;
}

void selection_go_on_disarming(void)
{
	for (struct selection *selection = selections.first; selection; selection = selection->next)
		if (selection->disabled && !selection->disarmed)
			disarm_part(selection);
}

/* Nobody may hold its session. */
static void selection_free(struct selection *selection)
{
	struct selection **link = &selections.first;

	if (!selection->disarmed)
		selection_disarm_all(selection);
	while (*link != selection)
		link = &(*link)->next;
	*link = selection->next;
	for (struct probe *probe = selection->probes.first_made; probe; probe = probe->next_made) {
		/* Not by probe->engine: redefining a method may have changed that. */
		engine_target.release(probe);
		engine_line_release(probe);
		engine_patch.release(probe);
		expression_list_free(probe->expressions);
		expression_list_free(probe->ends);
		expression_list_free(probe->condition);
		expression_list_free(probe->key);
		free(probe->tally);
	}
	free_parts(selection);
}

static uint64_t foreign_calls(const struct selection *selection)
{
	uint64_t calls = 0;

	for (const struct probe *probe = selection->probes.first_made; probe; probe = probe->next_made)
		calls += engine_target_foreign_calls(probe) + engine_patch_foreign_calls(probe) +
		         engine_line_foreign_events(probe);
	return calls;
}

static void part_last_words(struct session *session)
{
	unsigned pushed_out = 0, let_go = 0;

	statistics_last_words(session);
	for (const struct probe *probe = session->selection ? session->selection->probes.first_made : NULL; probe;
	     probe = probe->next_made) {
		pushed_out += engine_target_is_pushed_out(probe);
		let_go += probe->let_go;
	}
	/* Where calls are only counted, the table says so of each. */
	if (let_go && session->manner != CALLS_COUNTED)
		session_note(session, NOTE_WARNING,
		             "%u method%s or line%s %s not traced to the end, as that took more than --max-overhead allows: what "
		             "ran since then is neither shown nor counted",
		             let_go, let_go == 1 ? "" : "s", let_go == 1 ? "" : "s", let_go == 1 ? "was" : "were");
	if (pushed_out)
		session_note(session, NOTE_WARNING,
		             "a TracePoint of the application's own has taken the place of rbprobe's on %u method%s that "
		             "define_method made (this Ruby has room for one): calls since then are neither shown nor counted",
		             pushed_out, pushed_out == 1 ? "" : "s");
}

static void part_stop(struct session *session)
{
	if (session->selection)
		selection_disable(session->selection);
}

static bool part_stopped(const struct session *session)
{
	return !session->selection || session->selection->disarmed;
}

static void part_release(struct session *session)
{
	if (!session->selection)
		return;
	/* The parent may have forked in the middle of disarming it. */
	if (session->pid != getpid())
		session->selection->disarmed = false;
	session->selection->disabled = session->selection->hook.over = true;
	session->other_ractors = foreign_calls(session->selection) - session->selection->foreign_before;
	if (session->pid == getpid())
		observe_settle(session);
	selection_free(session->selection);
	decider_close(session);
	tallies_close(session);
	session->selection = NULL;
	session->probes = NULL;
	session->hook = NULL;
	fiber_forget_session(session->slot);
}

static void part_exit(struct session *session)
{
	if (session->selection)
		observe_settle(session);
}

/* A forked child counts its own calls. Async-signal-safe. */
static bool part_adopt(struct session *session)
{
	struct selection *selection = session->selection;

	if (selection->disabled || !tallies_begin_anew(session))
		return false;
	for (struct probe *probe = selection->probes.first_made; probe; probe = probe->next_made) {
		if (probe->tally)
			*probe->tally = (struct tally){.least = UINT64_MAX};
		probe->counted = 0;
	}
	selection->foreign_before = foreign_calls(selection);
	observe_fork_child(session);
	return true;
}

const struct session_part selection_part = {.last_words = part_last_words,
                                            .stop = part_stop,
                                            .stopped = part_stopped,
                                            .release = part_release,
                                            .exit = part_exit,
                                            .adopt = part_adopt};

bool selection_watches(void)
{
	for (const struct selection *selection = selections.first; selection; selection = selection->next)
		if (!selection->disabled && selection->selector_count > 0)
			return true;
	return false;
}

bool selection_watches_lines(void)
{
	for (const struct selection *selection = selections.first; selection; selection = selection->next)
		if (!selection->disabled && selection->lines)
			return true;
	return false;
}
