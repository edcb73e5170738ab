/*
 * The user's expressions: compiling and evaluating. See expression.h. Context: job; evaluating is expression_render.c's.
 *
 * An expression becomes the body of a method in an anonymous module of ours, which is called on the receiver with bind_call: self
 * and its instance variables are the receiver's, no singleton class is made, the parameters it names are its arguments. It is
 * compiled in the scope of the method's owner, so that constants are found as in the method itself, and in a frame without local
 * variables: an eval in the job's own place would see, and keep alive, those of the code that the job has interrupted.
 *
 * While a hook runs, the VM fires no further event in the same fiber, so traced methods that an expression calls show nothing.
 */

#include "tracee/observe/expression.h"

#include "proto/conditions.h"
#include "proto/label.h"
#include "tracee/base/ruby_words.h"
#include "tracee/observe/parameter_names.h"
#include "tracee/session/permissions.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/instruction_data.h"
#include "tracee/vm/line_code.h"
#include "tracee/vm/method_definition.h"
#include "tracee/vm/own.h"

#include <ruby/encoding.h>
#include <stdlib.h>
#include <string.h>

unsigned expression_argument_number(VALUE name)
{
	VALUE string = rb_sym2str(name);

	return RSTRING_LEN(string) > 3 && memcmp(RSTRING_PTR(string), "arg", 3) == 0 ? (unsigned)atoi(RSTRING_PTR(string) + 3)
	                                                                             : 0;
}

static bool slice_is(struct slice slice, const char *text)
{
	return slice.size == strlen(text) && memcmp(slice.bytes, text, slice.size) == 0;
}

/* By itself, so that the compiler's words are about it alone, and so that it cannot close what it is wrapped in. */
static VALUE compile_alone(VALUE source)
{
	return builtin_call1(BUILTIN_ISEQ_COMPILE, builtin_instruction_sequence(), source);
}

static VALUE message_of(VALUE exception)
{
	VALUE lines = rb_str_split(builtin_message(exception), "\n");

	return rb_ary_join(lines, rb_str_new_cstr(" | "));
}

static void check_syntax(struct slice code)
{
	struct slice source = conditions_code_alone(code);
	VALUE text = rb_utf8_str_new(source.bytes, (long)source.size);
	VALUE message, verbose = *rb_ruby_verbose_ptr();
	int failed = 0;

	/* The compiler warns on the application's standard error, of a `return` for example. */
	*rb_ruby_verbose_ptr() = Qnil;
	rb_protect(compile_alone, text, &failed);
	*rb_ruby_verbose_ptr() = verbose;
	if (!failed)
		return;
	message = message_of(rb_errinfo());
	exception_drop(Qnil);
	rb_exc_raise(
		rb_exc_new_str(rb_eSyntaxError, rb_sprintf("\"%.*s\": %" PRIsVALUE, (int)source.size, source.bytes, message)));
}

static VALUE compile_expression(struct slice source, VALUE names, VALUE owner)
{
	VALUE text = rb_utf8_str_new_cstr("->(");
	VALUE module = own_module_new();
	VALUE arguments[] = {text, rb_str_new_cstr("(rbprobe)"), INT2FIX(0)};

	for (long i = 0; i < RARRAY_LEN(names); i++) {
		if (i > 0)
			rb_str_cat_cstr(text, ", ");
		rb_str_append(text, rb_sym2str(rb_ary_entry(names, i)));
	}
	rb_str_cat_cstr(text, ") {\n");
	rb_str_cat(text, source.bytes, (long)source.size);
	rb_str_cat_cstr(text, "\n}");
	builtin_define_method(module, "expression", builtin_call(BUILTIN_MODULE_MODULE_EVAL, owner, 3, arguments));
	return builtin_caller(builtin_find_method(module, "expression"));
}

static const char *const outcome_names[] = {"result", "error", "elapsed"};
#define OUTCOME_NAMES (sizeof(outcome_names) / sizeof(outcome_names[0]))

/* What it reads of how a call ended, but for names that the method has itself: `first`. */
static long add_outcome_names(struct slice source, VALUE first, VALUE mentioned)
{
	long count = 0;

	for (size_t i = 0; i < OUTCOME_NAMES; i++) {
		VALUE name = ID2SYM(rb_intern(outcome_names[i]));

		if (!conditions_code_reads(source, outcome_names[i]) || (!NIL_P(first) && instruction_index(first, name) >= 0))
			continue;
		instruction_remove(mentioned, name);
		rb_ary_push(mentioned, name);
		count++;
	}
	return count;
}

/* Whether an expression of a selector is about the end of a call. */
static bool is_about_end(struct slice source, VALUE names)
{
	for (size_t i = 0; i < OUTCOME_NAMES; i++)
		if (conditions_code_reads(source, outcome_names[i]) &&
		    instruction_index(names, ID2SYM(rb_intern(outcome_names[i]))) < 0)
			return true;
	return false;
}

static VALUE mentioned_names(struct slice source, VALUE names)
{
	VALUE mentioned = rb_ary_new();

	for (long i = 0; i < RARRAY_LEN(names); i++) {
		VALUE name = rb_sym2str(rb_ary_entry(names, i));

		if (!parameter_is_nameless(rb_ary_entry(names, i)) &&
		    ruby_mentions(source, RSTRING_PTR(name), (size_t)RSTRING_LEN(name)) &&
		    !ruby_is_reserved(RSTRING_PTR(name), (size_t)RSTRING_LEN(name)))
			rb_ary_push(mentioned, rb_ary_entry(names, i));
	}
	return mentioned;
}

/*
 * What these return would begin with the frames that run the expression, and with the method's own. As variables they are what
 * they would be in the method, without arguments.
 */
static long add_own_names(struct slice source, VALUE names, VALUE mentioned)
{
	static const char *const own[] = {"caller", "caller_locations"};
	long count = 0;

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		VALUE name = ID2SYM(rb_intern(own[i]));

		if (!ruby_mentions(source, own[i], strlen(own[i])) || instruction_index(names, name) >= 0)
			continue;
		rb_ary_push(mentioned, name);
		count++;
	}
	return count;
}

/* What an expression sees, and when. */
struct scope {
	VALUE names, owner;
	bool in_hand; /* arguments of a C method will be */
	enum { SCOPE_START, SCOPE_END, SCOPE_CONDITION } when;
};

static void compile_item(struct expression *item, struct slice source, const struct scope *scope, VALUE mentioned)
{
	struct error err;

	/* The other items run no code of the client's. */
	if (permissions_check(1u << PERMIT_EVAL | 1u << PERMIT_TRACE, &err) < 0)
		rb_exc_raise(rb_exc_new_str(rb_eRuntimeError, rb_sprintf("%s", err.text)));
	check_syntax(source);
	item->own_names = add_own_names(source, scope->names, mentioned);
	/* In a condition they go before the method's own. */
	if (scope->when != SCOPE_START)
		item->own_names += add_outcome_names(source, scope->when == SCOPE_END ? scope->names : Qnil, mentioned);
	item->code = compile_expression(source, mentioned, scope->owner);
	item->names = mentioned;
	item->kind = EXPRESSION_COMPILED;
}

static void expression_build(struct expression *item, struct slice source, const struct scope *scope)
{
	struct slice label = label_split(&source);
	VALUE mentioned = mentioned_names(source, scope->names);
	bool in_hand = scope->in_hand;

	item->label = strndup(label.bytes, label.size);
	if (slice_is(source, "self")) {
		item->kind = EXPRESSION_SELF;
	} else if (slice_is(source, "__source__")) {
		item->kind = EXPRESSION_SOURCE;
	} else if (source.size > 1 && source.bytes[0] == '@' && ruby_is_word(source.bytes + 1, source.size - 1)) {
		item->kind = EXPRESSION_IVAR;
		item->id = rb_intern3(source.bytes, (long)source.size, rb_utf8_encoding());
	} else if (in_hand &&
	           (slice_is(source, "&block") || (RARRAY_LEN(mentioned) == 1 && ruby_is_word(source.bytes, source.size)))) {
		item->kind = EXPRESSION_ARGUMENT;
		item->number = expression_argument_number(rb_ary_entry(mentioned, 0));
	} else if (RARRAY_LEN(mentioned) == 1 && ruby_is_word(source.bytes, source.size)) {
		item->kind = EXPRESSION_LOCAL;
		item->id = rb_sym2id(rb_ary_entry(mentioned, 0));
	} else {
		compile_item(item, source, scope, mentioned);
	}
}

struct list_draft {
	struct expression_list *list;
	const struct selector *selector;
	VALUE method, owner, names;
	VALUE variables; /* of a list for the end: an Array of the method's; or Qfalse */
	VALUE keep;      /* an Array that holds what the list refers to until its owner marks it */
	uint32_t own;    /* so many of the list are the selector's */
	struct expression_wish wish;
	struct slice condition; /* instead of the selector's */
	bool line;              /* the names are of variables, and not all of them are there each time */
	bool end;               /* it is the list for the end */
};

static struct expression *list_add(struct expression_list *list, enum expression_kind kind, const char *label, size_t size)
{
	struct expression *item = &list->items[list->count++];

	item->kind = kind;
	item->label = strndup(label, size);
	return item;
}

/* A selector's own expression has that name: with --args it is shown in the place of the parameter, and no second value. */
static bool is_asked_for(const struct list_draft *draft, const char *label)
{
	for (uint32_t i = 0; i < draft->own; i++)
		if (strcmp(draft->list->items[i].label, label) == 0)
			return true;
	return false;
}

/* Those of a C method. */
static void add_arguments_in_hand(struct list_draft *draft)
{
	bool any = NUM2LONG(builtin_call0(BUILTIN_UNBOUND_METHOD_ARITY, draft->method)) < 0;

	for (long i = 0; i < RARRAY_LEN(draft->names) - any; i++) {
		VALUE name = rb_sym2str(rb_ary_entry(draft->names, i));
		unsigned number = expression_argument_number(rb_ary_entry(draft->names, i));
		const char *label = number ? RSTRING_PTR(name) : "&block";
		struct expression *item;

		if (is_asked_for(draft, label))
			continue;
		item = list_add(draft->list, EXPRESSION_ARGUMENT, label, strlen(label));
		item->number = number;
		item->optional = any || number == 0;
	}
	if (any) {
		struct expression *rest = list_add(draft->list, EXPRESSION_REST, "*rest", 5);

		rest->number = C_ARGUMENTS_LABELLED + 1;
		rest->optional = true;
		list_add(draft->list, EXPRESSION_ARGUMENT, "&block", 6)->optional = true;
	}
}

/* A parameter or variable. The block is not made an object of. */
static void add_variable(struct list_draft *draft, VALUE name)
{
	VALUE string = rb_sym2str(name);
	bool is_block = strcmp(RSTRING_PTR(string), "&") == 0;
	struct expression *item = list_add(draft->list, is_block ? EXPRESSION_ARGUMENT : EXPRESSION_LOCAL, RSTRING_PTR(string),
	                                   (size_t)RSTRING_LEN(string));

	item->optional = draft->line || is_block;
	if (is_block)
		return;
	item->id = rb_sym2id(name);
	item->is_nameless = parameter_is_nameless(name);
	item->position = item->is_nameless ? parameter_position(draft->method, name) : 0;
	RB_GC_GUARD(string);
}

/* Those of the selector that are about the start of a call, or a line; or those about the end. */
static void add_expressions(struct list_draft *draft)
{
	const struct scope scope = {.names = draft->names,
	                            .owner = draft->owner,
	                            .in_hand = draft->wish.in_hand,
	                            .when = draft->end ? SCOPE_END : SCOPE_START};

	for (uint32_t i = 0; i < draft->selector->expression_count; i++) {
		struct slice source = draft->selector->expressions[i];
		struct expression *item;

		if ((draft->wish.ends && is_about_end(source, draft->names)) != draft->end)
			continue;
		item = &draft->list->items[draft->list->count++];
		expression_build(item, source, &scope);
		item->optional = draft->line && item->kind == EXPRESSION_LOCAL;
		rb_ary_push(draft->keep, item->code);
		rb_ary_push(draft->keep, item->names);
	}
	draft->own = draft->list->count;
}

static VALUE list_build(VALUE argument)
{
	struct list_draft *draft = (struct list_draft *)argument;
	long size = RARRAY_LEN(draft->names), room = (long)VALUES_MAX - draft->selector->expression_count;

	add_expressions(draft);
	if (draft->wish.all && draft->wish.in_hand)
		add_arguments_in_hand(draft);
	/* Of those at a line the last ones are the innermost. */
	for (long i = draft->line && size > room ? size - room : 0; draft->wish.all && !draft->wish.in_hand && i < size; i++)
		if (draft->list->count < VALUES_MAX &&
		    !is_asked_for(draft, RSTRING_PTR(rb_sym2str(rb_ary_entry(draft->names, i)))))
			add_variable(draft, rb_ary_entry(draft->names, i));
	return Qnil;
}

static struct expression_list *list_make(struct list_draft *draft, size_t size, VALUE (*build)(VALUE))
{
	VALUE verbose = *rb_ruby_verbose_ptr();
	int failed = 0;

	draft->list = calloc(1, sizeof(*draft->list) + size * sizeof(draft->list->items[0]));
	if (!draft->list)
		rb_memerror();
	for (size_t i = 0; i < size; i++) {
		draft->list->items[i].code = Qnil;
		draft->list->items[i].names = Qnil;
	}
	draft->keep = rb_ary_new();
	/* Warnings of the compiler would go to the application's stderr. */
	*rb_ruby_verbose_ptr() = Qnil;
	rb_protect(build, (VALUE)draft, &failed);
	*rb_ruby_verbose_ptr() = verbose;
	if (failed) {
		expression_list_free(draft->list);
		rb_jump_tag(failed);
	}
	RB_GC_GUARD(draft->names);
	RB_GC_GUARD(draft->keep);
	return draft->list;
}

static VALUE list_build_for_end(VALUE argument)
{
	struct list_draft *draft = (struct list_draft *)argument;

	add_expressions(draft);
	draft->list->ends = draft->list->count;
	for (long i = 0; draft->variables && i < RARRAY_LEN(draft->variables); i++)
		if (draft->list->count < VALUES_MAX)
			add_variable(draft, rb_ary_entry(draft->variables, i));
	return Qnil;
}

/* size: what is in the list at most. */
static struct expression_list *list_make_if_any(struct list_draft *draft, size_t size, VALUE (*build)(VALUE))
{
	if (size)
		list_make(draft, size, build);
	if (draft->list && draft->list->count)
		return draft->list;
	expression_list_free(draft->list);
	return draft->list = NULL;
}

static size_t size_of_all(const struct list_draft *draft)
{
	size_t size = draft->selector->expression_count;

	return draft->wish.all ? size + (size_t)RARRAY_LEN(draft->names) + draft->wish.in_hand : size;
}

/* A block is no object before somebody uses it, so no frame has it. */
static void note_block(struct expression_list *list, VALUE method)
{
	VALUE parameters = builtin_call0(BUILTIN_UNBOUND_METHOD_PARAMETERS, method);
	VALUE last = rb_ary_entry(parameters, -1);

	if (NIL_P(last) || rb_ary_entry(last, 0) != ID2SYM(rb_intern("block")))
		return;
	for (uint32_t i = 0; i < list->count; i++)
		list->items[i].is_block = list->items[i].id && rb_ary_entry(last, 1) == ID2SYM(list->items[i].id);
}

struct expression_list *expression_list_new(const struct selector *selector, VALUE method, VALUE owner,
                                            struct expression_wish wish)
{
	struct list_draft draft = {.selector = selector, .method = method, .owner = owner, .wish = wish};

	draft.names = wish.in_hand ? parameter_names_in_hand(method) : parameter_names(method);
	list_make_if_any(&draft, size_of_all(&draft), list_build);
	if (draft.list && !wish.in_hand)
		note_block(draft.list, method);
	return draft.list;
}

struct expression_list *expression_list_new_for_line(const struct selector *selector, VALUE names, VALUE owner, bool all)
{
	struct list_draft draft = {
		.selector = selector, .method = Qnil, .owner = owner, .names = names, .wish = {.all = all}, .line = true};

	return list_make_if_any(&draft, size_of_all(&draft), list_build);
}

struct expression_list *expression_list_new_for_end(const struct selector *selector, VALUE method, VALUE owner,
                                                    struct expression_wish wish)
{
	struct list_draft draft = {
		.selector = selector, .method = method, .owner = owner, .wish = wish, .variables = Qfalse, .end = true};
	VALUE code = method_definition_instructions(method);
	size_t size = selector->expression_count;

	draft.names = wish.in_hand ? parameter_names_in_hand(method) : parameter_names(method);
	if (wish.all && !NIL_P(code)) {
		draft.variables = line_code_variables(code);
		size += (size_t)RARRAY_LEN(draft.variables);
	}
	list_make_if_any(&draft, size, list_build_for_end);
	if (draft.list && !wish.in_hand)
		note_block(draft.list, method);
	RB_GC_GUARD(code);
	RB_GC_GUARD(draft.variables);
	return draft.list;
}

static VALUE condition_build(VALUE argument)
{
	struct list_draft *draft = (struct list_draft *)argument;
	struct expression *item = &draft->list->items[draft->list->count++];

	compile_item(item, draft->condition,
	             &(struct scope){.names = draft->names, .owner = draft->owner, .when = SCOPE_CONDITION},
	             mentioned_names(draft->condition, draft->names));
	rb_ary_push(draft->keep, item->code);
	rb_ary_push(draft->keep, item->names);
	return Qnil;
}

struct expression_list *expression_condition_new_for_line(struct slice source, VALUE names, VALUE owner)
{
	struct list_draft draft = {.condition = source, .owner = owner, .names = names};

	return list_make(&draft, 1, condition_build);
}

struct expression_list *expression_condition_new(struct slice source, VALUE method, VALUE owner, bool in_hand)
{
	struct list_draft draft = {.condition = source, .owner = owner};

	draft.names = in_hand ? parameter_names_in_hand(method) : parameter_names(method);
	return list_make(&draft, 1, condition_build);
}

void expression_condition_check(struct slice source)
{
	check_syntax(source);
}

void expression_list_free(struct expression_list *list)
{
	if (!list)
		return;
	for (uint32_t i = 0; i < list->count; i++)
		free(list->items[i].label);
	free(list);
}

void expression_list_mark(const struct expression_list *list)
{
	if (!list)
		return;
	for (uint32_t i = 0; i < list->count; i++) {
		rb_gc_mark(list->items[i].code);
		rb_gc_mark(list->items[i].names);
	}
}
