/*
 * Sessions' selections. See selection.h. Context: job, GVL held, except selection_hook_probe (event).
 *
 * A probe lives as long as its selection: open calls refer to it. So redefining a method does not replace its probe, it arms
 * the same one on the new definition, too.
 */

#include "selection.h"

#include "compat.h"
#include "consent.h"
#include "core.h"
#include "expression.h"
#include "fiber.h"
#include "naming.h"
#include "selector.h"
#include "session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS_MIN 64u
#define LABEL_SIZE_MAX 1024u /* bytes that the client is told of an expression */

struct selection {
	struct session *session;
	struct selector *selectors; /* with all their text in one allocation */
	uint32_t selector_count;
	bool disabled;
	unsigned hook_announced; /* 0 no, 1 the light one, 2 the whole one */
	uint32_t left_out;       /* methods that engine hook could observe, and may not */
	struct engine_hook_state hook;

	struct probe **buckets; /* by owner and name */
	uint32_t bucket_count;  /* a power of two */
	uint32_t probe_count;

	struct selection *next;
};

static struct {
	struct selection *first; /* all of them, for the GC */
	VALUE arming;            /* the thread that is arming, or Qfalse */
	VALUE marker;
} selections;

/* The table of probes. */

static uint32_t bucket_of(const struct selection *selection, VALUE owner, VALUE name)
{
	uint64_t hash = ((uint64_t)owner >> 3) * UINT64_C(0x9e3779b97f4a7c15) + ((uint64_t)name >> 3);

	hash *= UINT64_C(0xff51afd7ed558ccd);
	return (uint32_t)(hash >> 40) & (selection->bucket_count - 1);
}

static struct probe *table_find(const struct selection *selection, VALUE owner, VALUE name)
{
	struct probe *probe = selection->buckets[bucket_of(selection, owner, name)];

	while (probe && (probe->owner != owner || probe->callee != name))
		probe = probe->next;
	return probe;
}

struct probe *selection_probe(const struct selection *selection, VALUE owner, VALUE name)
{
	return selection ? table_find(selection, owner, name) : NULL;
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

/* The GC. */

static void mark(void *data)
{
	(void)data;
	engine_target_mark_left_over();
	for (struct selection *selection = selections.first; selection; selection = selection->next) {
		rb_gc_mark(selection->hook.tracepoint);
		for (uint32_t i = 0; i < selection->bucket_count; i++) {
			for (struct probe *probe = selection->buckets[i]; probe; probe = probe->next) {
				/* Marked without being movable: the table is keyed by addresses. */
				rb_gc_mark(probe->owner);
				rb_gc_mark(probe->callee);
				engine_target_mark(probe);
				engine_patch_mark(probe);
				if (probe->only_kind_of != Qundef)
					rb_gc_mark(probe->only_kind_of);
				expression_list_mark(probe->expressions);
			}
		}
	}
}

static const rb_data_type_t marker_type = {
	.wrap_struct_name = "rbprobe selections",
	.function = {.dmark = mark},
};

void selection_init(void)
{
	rb_gc_register_address(&selections.marker); /* first: it allocates, and may collect */
	selections.marker = TypedData_Wrap_Struct(rb_cObject, &marker_type, &selections);
}

/* Making and freeing. */

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

static struct selection *selection_new(struct session *session, const struct command *command)
{
	struct selection *selection = calloc(1, sizeof(*selection));

	if (!selection)
		return NULL;
	selection->session = session;
	selection->hook.tracepoint = Qnil;
	selection->selectors = copy_selectors(command);
	selection->selector_count = command->selector_count;
	selection->buckets = calloc(BUCKETS_MIN, sizeof(selection->buckets[0]));
	selection->bucket_count = BUCKETS_MIN;
	if (!selection->selectors || !selection->buckets) {
		free(selection->selectors);
		free(selection->buckets);
		free(selection);
		return NULL;
	}
	selection->next = selections.first;
	selections.first = selection;
	return selection;
}

static VALUE disable(VALUE argument)
{
	struct selection *selection = (struct selection *)argument;
	bool left_to_interpreter = !NIL_P(selection->hook.tracepoint);

	engine_hook_stop(&selection->hook);
	for (uint32_t i = 0; i < selection->bucket_count; i++)
		for (struct probe *probe = selection->buckets[i]; probe; probe = probe->next) {
			left_to_interpreter = left_to_interpreter || probe->sites;
			engine_target.disarm(probe);
			engine_patch.disarm(probe);
		}
	if (left_to_interpreter)
		compat_compile_anew();
	return Qnil;
}

void selection_disable(struct selection *selection)
{
	struct fiber_state *own;
	int failed = 0;

	if (selection->disabled)
		return;
	selection->disabled = true;
	own = fiber_own_begin();
	rb_protect(disable, (VALUE)selection, &failed);
	fiber_own_end(own);
	if (failed)
		rb_set_errinfo(Qnil);
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
	for (uint32_t i = 0; i < selection->bucket_count; i++) {
		while (selection->buckets[i]) {
			struct probe *probe = selection->buckets[i];

			selection->buckets[i] = probe->next;
			/* Not by probe->engine: redefining a method may have changed that. */
			engine_target.release(probe);
			engine_patch.release(probe);
			expression_list_free(probe->expressions);
			free(probe);
		}
	}
	free(selection->buckets);
	free(selection->selectors);
	free(selection);
}

uint64_t selection_foreign_calls(const struct selection *selection)
{
	uint64_t calls = 0;

	for (uint32_t i = 0; i < selection->bucket_count; i++)
		for (const struct probe *probe = selection->buckets[i]; probe; probe = probe->next)
			calls += engine_target_foreign_calls(probe) + engine_patch_foreign_calls(probe);
	return calls;
}

VALUE selection_protect_arming(VALUE (*run)(VALUE), VALUE argument, int *failed)
{
	VALUE before = selections.arming;
	struct fiber_state *own = fiber_own_begin();
	VALUE result;

	selections.arming = rb_thread_current();
	result = rb_protect(run, argument, failed);
	selections.arming = before;
	fiber_own_end(own);
	return result;
}

bool selection_is_arming(void)
{
	return selections.arming != Qfalse && selections.arming == rb_thread_current();
}

bool selection_watches(void)
{
	for (struct selection *selection = selections.first; selection; selection = selection->next)
		if (!selection->disabled && selection->selector_count > 0)
			return true;
	return false;
}

/* Probes. */

static struct slice slice_of(VALUE string)
{
	struct slice slice = {RSTRING_PTR(string), (size_t)RSTRING_LEN(string)};

	if (slice.size > NAME_SIZE_MAX)
		slice.size = NAME_SIZE_MAX;
	return slice;
}

/* What is said of a method in METHOD and in MATCH records alike. */
struct method_names {
	char class_bytes[NAME_SIZE_MAX];
	struct text class_text;
	char separator;
	struct slice name, file;
	uint32_t line;
	VALUE keep[2]; /* Strings that name and file point into */
};

static void name_method(struct method_names *names, VALUE owner, VALUE name, VALUE method)
{
	VALUE location = NIL_P(method) ? Qnil : rb_funcall(method, rb_intern("source_location"), 0);

	names->class_text = (struct text){.bytes = names->class_bytes, .size = sizeof(names->class_bytes)};
	names->separator = naming_owner(&names->class_text, owner);
	names->keep[0] = rb_sym2str(name);
	names->name = slice_of(names->keep[0]);
	names->file = (struct slice){NULL, 0};
	names->line = 0;
	if (RB_TYPE_P(location, T_ARRAY) && RB_TYPE_P(rb_ary_entry(location, 0), T_STRING)) {
		names->keep[1] = rb_ary_entry(location, 0);
		names->file = slice_of(names->keep[1]);
		names->line = NUM2UINT(rb_ary_entry(location, 1));
	}
}

/* Before probe->engine is set: with the hook on, events may come from then on. */
static void send_method(struct session *session, const struct probe *probe, const struct engine *engine, VALUE method)
{
	struct method_names names;
	struct slice labels[VALUES_MAX];
	struct record record = {.kind = RECORD_METHOD};
	uint32_t count = probe->expressions ? probe->expressions->count : 0;

	name_method(&names, probe->owner, probe->callee, method);
	for (uint32_t i = 0; i < count; i++)
		labels[i] = (struct slice){probe->expressions->items[i].label,
		                           strnlen(probe->expressions->items[i].label, LABEL_SIZE_MAX)};
	record.method = (struct record_method){.ref = probe->ref,
	                                       .class_name = {names.class_text.bytes, names.class_text.used},
	                                       .separator = names.separator,
	                                       .method_name = names.name,
	                                       .file = names.file,
	                                       .line = names.line,
	                                       .engine = engine->id,
	                                       .label_count = count,
	                                       .labels = labels};
	session_send(session, &record);
	RB_GC_GUARD(names.keep[0]);
	RB_GC_GUARD(names.keep[1]);
}

/* Puts a probe without engine into the table, where the GC finds it; raises without memory. */
static struct probe *probe_new(struct selection *selection, const struct match *match, uint32_t selector)
{
	struct probe *probe = calloc(1, sizeof(*probe));

	if (!probe)
		rb_memerror();
	probe->session = selection->session;
	probe->ref = selection->probe_count++;
	probe->owner = match->owner;
	probe->callee = match->name;
	probe->callee_id = rb_sym2id(match->name);
	probe->only_kind_of = Qundef;
	probe->selector = selector;
	if (selection->probe_count > selection->bucket_count)
		table_grow(selection);
	table_put(selection, probe);
	if (match->only_kind_of != Qundef)
		probe->only_kind_of = rb_ary_new_from_args(1, match->only_kind_of);
	return probe;
}

/* One method may be meant for several classes that inherit it, or for all. */
static void probe_widen(struct probe *probe, const struct match *match)
{
	if (match->only_kind_of == Qundef)
		probe->only_kind_of = Qundef;
	else if (probe->only_kind_of != Qundef)
		rb_ary_push(probe->only_kind_of, match->only_kind_of);
}

static void announce_hook(struct selection *selection, bool whole)
{
	unsigned announcement = whole ? 2 : 1;

	if (selection->hook_announced >= announcement)
		return;
	selection->hook_announced = announcement;
	session_note(selection->session, NOTE_WARNING,
	             whole ? "engine hook: the whole process runs 3 to 7 times slower while this trace is on, and up to 3 times "
	                     "slower (15 "
	                     "times with YJIT) until it restarts"
	                   : "engine hook: every call of a method written in C is slower while this trace is on, in the whole "
	                     "process; "
	                     "nothing of it stays");
}

/* What selector_each_match() and the watch hand to match_arm(). */
struct arming {
	struct selection *selection;
	uint32_t selector;
	uint64_t found; /* of this selector */
	uint64_t armed;
	bool late; /* the method was defined while we were attached */
};

static void match_describe(const struct match *match, char *buffer, size_t size)
{
	struct method_names names;

	name_method(&names, match->owner, match->name, Qnil);
	snprintf(buffer, size, "%.*s%c%.*s", (int)names.class_text.used, names.class_text.bytes, names.separator,
	         (int)names.name.size, names.name.bytes);
}

/* While the trace begins one line is enough for all of them; see arm_all(). */
static void leave_out(struct selection *selection, const char *description, bool late, const struct text *reason)
{
	selection->left_out++;
	session_note(selection->session, late ? NOTE_WARNING : NOTE_INFO,
	             "%s%s left out: that would leave the process slower%s%.*s", description, late ? " defined now," : "",
	             reason->used ? ", " : "", (int)reason->used, reason->bytes);
}

static void match_arm(const struct match *match, void *argument)
{
	struct arming *arming = argument;
	struct selection *selection = arming->selection;
	struct session *session = selection->session;
	const struct selector *selector = &selection->selectors[arming->selector];
	char reason_bytes[256], description[512];
	struct text reason = {.bytes = reason_bytes, .size = sizeof(reason_bytes)};
	const struct engine *engine;
	struct probe *probe;
	struct error err;

	arming->found++;
	probe = table_find(selection, match->owner, match->name);
	if (probe) {
		probe_widen(probe, match);
		return;
	}
	match_describe(match, description, sizeof(description));
	engine = engine_choose(session->options.engine, match, &reason);
	if (!engine) {
		session_note(session, NOTE_WARNING, "%s cannot be traced by engine %s: %.*s", description,
		             engine_name(session->options.engine), (int)reason.used, reason.bytes);
		return;
	}
	if (!consent_given(engine, match, session->options.flags)) {
		leave_out(selection, description, arming->late, &reason);
		return;
	}
	probe = probe_new(selection, match, arming->selector);
	probe->expressions = expression_list_new(selector, match->method, match->owner, session->options.flags & TRACE_ARGUMENTS,
	                                         engine == &engine_patch);
	if (engine->id == ENGINE_HOOK)
		announce_hook(selection, engine_hook_stays(match->method, match->owner, match->name));
	send_method(session, probe, engine, match->method);
	probe->engine = engine;
	session_note(session, NOTE_INFO, "%s %s, engine %s%s%.*s", description, arming->late ? "defined now, armed" : "armed",
	             engine_name(engine->id), reason.used ? ": " : "", (int)reason.used, reason.bytes);
	if (engine->arm(probe, match->method, &err) < 0)
		rb_raise(rb_eRuntimeError, "%s", err.text);
	arming->armed++;
}

/* Requests under rb_protect. */

struct request {
	struct selection *selection;
	const struct command *command;
	struct session *session;
	uint64_t count;
};

static VALUE arm_all(VALUE argument)
{
	struct request *request = (struct request *)argument;
	struct selection *selection = request->selection;

	for (uint32_t i = 0; i < selection->selector_count; i++) {
		struct arming arming = {.selection = selection, .selector = i};
		char text[512];

		selector_each_match(&selection->selectors[i], match_arm, &arming);
		request->count += arming.armed;
		selector_write(&selection->selectors[i], text, sizeof(text));
		if (arming.found == 0)
			session_note(selection->session, NOTE_WARNING,
			             "%s matches no method yet; it will be traced when one is defined", text);
	}
	if (selection->left_out)
		session_note(selection->session, NOTE_WARNING,
		             "%u method%s left out: to trace them would leave the process slower (-v names them)",
		             selection->left_out, selection->left_out == 1 ? "" : "s");
	if (request->command->options.flags & TRACE_FIREHOSE) {
		announce_hook(selection, true);
		engine_hook_start(selection, &selection->hook, true);
	}
	return Qnil;
}

/* What was raised, as an error for people. SyntaxError has the compiler's words, in several lines. */
static VALUE exception_text(VALUE exception)
{
	return rb_obj_as_string(rb_funcall(exception, rb_intern("message"), 0));
}

static int error_from_exception(struct error *err)
{
	VALUE exception = rb_errinfo();
	VALUE message;
	int failed = 0;

	rb_set_errinfo(Qnil);
	message = rb_protect(exception_text, exception, &failed);
	if (failed) {
		rb_set_errinfo(Qnil);
		return error_set(err, -EINVAL, "the target raised an exception");
	}
	if (RTEST(rb_obj_is_kind_of(exception, rb_eSyntaxError)))
		return error_set(err, -EINVAL, "an expression does not compile, %.*s", (int)RSTRING_LEN(message),
		                 RSTRING_PTR(message));
	return error_set(err, -EINVAL, "%s: %.*s", rb_obj_classname(exception), (int)RSTRING_LEN(message), RSTRING_PTR(message));
}

struct asking {
	const struct command *command;
	struct error *err;
	int status;
};

static VALUE ask_consent(VALUE argument)
{
	struct asking *asking = (struct asking *)argument;

	asking->status = consent_check(asking->command, asking->err);
	return Qnil;
}

int selection_arm(struct session *session, const struct command *command, uint64_t *count, struct error *err)
{
	struct request request = {.command = command, .session = session};
	struct asking asking = {.command = command, .err = err};
	int failed = 0;

	if (session->selection)
		return error_set(err, -EBUSY, "this session traces already");
	selection_protect_arming(ask_consent, (VALUE)&asking, &failed);
	if (failed)
		return error_from_exception(err);
	if (asking.status < 0)
		return asking.status;
	session->options = command->options;
	request.selection = selection_new(session, command);
	if (!request.selection)
		return error_set(err, -ENOMEM, "no memory for %u selectors", command->selector_count);
	session->selection = request.selection;
	selection_protect_arming(arm_all, (VALUE)&request, &failed);
	if (failed) {
		int status = error_from_exception(err);

		/* Events that have come already are the client's; its END will count them. */
		selection_disable(request.selection);
		return status;
	}
	*count = request.count;
	return 0;
}

struct listing {
	struct request *request;
	uint32_t selector;
};

static void match_list(const struct match *match, void *argument)
{
	struct listing *listing = argument;
	struct method_names names;
	char reason_bytes[256];
	struct text reason = {.bytes = reason_bytes, .size = sizeof(reason_bytes)};
	const struct engine *engine = engine_choose(listing->request->command->options.engine, match, &reason);
	struct record record = {.kind = RECORD_MATCH};

	name_method(&names, match->owner, match->name, match->method);
	record.match = (struct record_match){.selector = listing->selector,
	                                     .class_name = {names.class_text.bytes, names.class_text.used},
	                                     .separator = names.separator,
	                                     .method_name = names.name,
	                                     .file = names.file,
	                                     .line = names.line,
	                                     .engine = engine ? engine->id : ENGINE_NONE,
	                                     .reason = {reason.bytes, reason.used}};
	session_send(listing->request->session, &record);
	listing->request->count++;
	RB_GC_GUARD(names.keep[0]);
	RB_GC_GUARD(names.keep[1]);
}

static VALUE list_all(VALUE argument)
{
	struct request *request = (struct request *)argument;
	struct listing listing = {.request = request};

	for (; listing.selector < request->command->selector_count; listing.selector++)
		selector_each_match(&request->command->selectors[listing.selector], match_list, &listing);
	return Qnil;
}

int selection_list(struct session *session, const struct command *command, uint64_t *count, struct error *err)
{
	struct request request = {.command = command, .session = session};
	int failed = 0;

	selection_protect_arming(list_all, (VALUE)&request, &failed);
	if (failed)
		return error_from_exception(err);
	*count = request.count;
	return 0;
}

/* Methods that are defined while we are attached. */

static void rearm(struct probe *probe, const struct match *match)
{
	char reason_bytes[256];
	struct text reason = {.bytes = reason_bytes, .size = sizeof(reason_bytes)};
	const struct engine *engine = engine_choose(probe->session->options.engine, match, &reason);
	struct error err;

	if (!engine)
		return;
	if (!consent_given(engine, match, probe->session->options.flags)) {
		char description[512];

		match_describe(match, description, sizeof(description));
		leave_out(probe->session->selection, description, true, &reason);
		return;
	}
	probe->engine = engine;
	send_method(probe->session, probe, probe->engine, match->method);
	engine->arm(probe, match->method, &err);
}

static bool is_exact(const struct selector *selector)
{
	return selector->class_pattern.size > 0 && !memchr(selector->class_pattern.bytes, '*', selector->class_pattern.size);
}

struct addition {
	VALUE owner, name;
};

static VALUE arm_added(VALUE argument)
{
	VALUE owner = ((struct addition *)argument)->owner;
	VALUE name = ((struct addition *)argument)->name;

	for (struct selection *selection = selections.first; selection; selection = selection->next) {
		struct match match = {.owner = owner, .name = name, .method = Qnil, .only_kind_of = Qundef};
		struct probe *probe;

		if (selection->disabled)
			continue;
		probe = table_find(selection, owner, name);
		for (uint32_t i = 0; i < selection->selector_count; i++) {
			const struct selector *selector = &selection->selectors[i];
			struct arming arming = {.selection = selection, .selector = i, .late = true};

			if (!selector_names_method(selector, name))
				continue;
			/* By its constant a class finds what it inherits, too. */
			if (!probe && is_exact(selector))
				selector_each_match(selector, match_arm, &arming);
			if (!selector_names(selector, owner, name))
				continue;
			match.method = core_call(CORE_MODULE_INSTANCE_METHOD, owner, 1, &name);
			if (probe)
				rearm(probe, &match);
			else
				match_arm(&match, &arming);
			break;
		}
	}
	return Qnil;
}

void selection_method_added(VALUE owner, VALUE name)
{
	struct addition addition = {owner, name};
	int failed = 0;

	selection_protect_arming(arm_added, (VALUE)&addition, &failed);
	if (failed)
		rb_set_errinfo(Qnil);
}

/* The hook. */

void selection_hook_start(struct selection *selection, bool whole)
{
	engine_hook_start(selection, &selection->hook, whole);
}

struct sighting {
	struct selection *selection;
	struct match match;
	struct probe *probe;
};

static VALUE first_sight(VALUE argument)
{
	static const struct selector nothing;
	struct sighting *sighting = (struct sighting *)argument;
	struct session *session = sighting->selection->session;
	struct expression_list *expressions = NULL;
	VALUE name = sighting->match.name;

	if (selector_defines(sighting->match.owner, name))
		sighting->match.method = core_call(CORE_MODULE_INSTANCE_METHOD, sighting->match.owner, 1, &name);
	if (!NIL_P(sighting->match.method))
		expressions = expression_list_new(&nothing, sighting->match.method, sighting->match.owner,
		                                  session->options.flags & TRACE_ARGUMENTS, false);
	/* Another thread may have seen it meanwhile. */
	sighting->probe = table_find(sighting->selection, sighting->match.owner, name);
	if (sighting->probe) {
		expression_list_free(expressions);
		return Qnil;
	}
	sighting->probe = probe_new(sighting->selection, &sighting->match, 0);
	sighting->probe->expressions = expressions;
	send_method(session, sighting->probe, &engine_hook, sighting->match.method);
	sighting->probe->engine = &engine_hook;
	return Qnil;
}

struct probe *selection_hook_probe(struct selection *selection, VALUE owner, VALUE name)
{
	struct probe *probe = table_find(selection, owner, name);
	struct sighting sighting = {.selection = selection,
	                            .match = {.owner = owner, .name = name, .method = Qnil, .only_kind_of = Qundef}};
	int failed = 0;

	if (probe || !(selection->session->options.flags & TRACE_FIREHOSE) || selection->disabled || NIL_P(owner) || NIL_P(name))
		return probe;
	selection_protect_arming(first_sight, (VALUE)&sighting, &failed);
	if (failed) {
		rb_set_errinfo(Qnil);
		return NULL;
	}
	return sighting.probe;
}
