/*
 * COMPLETE: what may stand at the cursor. Context: job, GVL held. No code of the application runs: lists of names come from
 * Ruby's own methods (builtin_methods.h), and what stands in front of a dot is looked at as console_receiver.h says.
 */

#include "tracee/eval/console.h"
#include "tracee/eval/console_receiver.h"
#include "tracee/session/request.h"
#include "tracee/session/ruby_msgpack.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/exception_drop.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#define CANDIDATES_MAX 5000 /* more is nothing that a person could use */
#define LINE_MAX_SIZE 65536 /* bytes; in a longer line nothing is completed */

struct completion {
	struct slice line; /* up to the cursor */
	size_t word;       /* where in it the word begins, sigils included */
	VALUE binding;
	VALUE self;
	VALUE found; /* Hash whose keys are the candidates */
};

static struct slice word_of(const struct completion *completion)
{
	return (struct slice){completion->line.bytes + completion->word, completion->line.size - completion->word};
}

/* Those of the names, an Array of Symbols, that begin like the word; prefix: what stands in front of the name itself. */
static void add_names(struct completion *completion, VALUE names, const char *prefix)
{
	struct slice word = word_of(completion);
	size_t before = strlen(prefix);

	if (word.size < before || memcmp(word.bytes, prefix, before) != 0)
		return;
	word = (struct slice){word.bytes + before, word.size - before};
	for (long i = 0; i < RARRAY_LEN(names) && RHASH_SIZE(completion->found) < CANDIDATES_MAX; i++) {
		VALUE name = rb_sym2str(rb_ary_entry(names, i)), candidate;

		if ((size_t)RSTRING_LEN(name) < word.size || memcmp(RSTRING_PTR(name), word.bytes, word.size) != 0)
			continue;
		candidate = rb_str_new_cstr(prefix);
		rb_str_cat(candidate, RSTRING_PTR(name), RSTRING_LEN(name));
		rb_hash_aset(completion->found, candidate, Qtrue);
	}
}

/* Operators are methods, too, but not behind a dot that somebody types. */
static VALUE without_operators(VALUE names)
{
	VALUE left = rb_ary_new();

	for (long i = 0; i < RARRAY_LEN(names); i++) {
		VALUE name = rb_sym2str(rb_ary_entry(names, i));
		unsigned char first = RSTRING_LEN(name) ? (unsigned char)RSTRING_PTR(name)[0] : 0;
		char last = RSTRING_LEN(name) ? RSTRING_PTR(name)[RSTRING_LEN(name) - 1] : 0;

		if ((isalpha(first) || first == '_' || first >= 0x80) && last != '=')
			rb_ary_push(left, rb_ary_entry(names, i));
	}
	return left;
}

static void add_methods(struct completion *completion, struct receiver receiver, bool private_too)
{
	if (receiver.class == Qundef)
		return;
	add_names(completion, without_operators(rb_class_instance_methods(0, NULL, receiver.class)), "");
	if (private_too)
		add_names(completion, without_operators(rb_class_private_instance_methods(0, NULL, receiver.class)), "");
}

static bool is_module(VALUE value)
{
	return value != Qundef && (RB_TYPE_P(value, T_CLASS) || RB_TYPE_P(value, T_MODULE));
}

static void add_constants(struct completion *completion, VALUE module)
{
	if (is_module(module))
		add_names(completion, rb_mod_constants(0, NULL, module), "");
}

static void add_keywords(struct completion *completion)
{
	static const char *const keywords[] = {
		"BEGIN",  "END",      "__FILE__", "__LINE__", "__method__", "alias", "and",    "begin", "break",  "case", "class",
		"def",    "defined?", "do",       "else",     "elsif",      "end",   "ensure", "false", "for",    "if",   "in",
		"module", "next",     "nil",      "not",      "or",         "redo",  "rescue", "retry", "return", "self", "super",
		"then",   "true",     "undef",    "unless",   "until",      "when",  "while",  "yield",
	};
	VALUE names = rb_ary_new();

	for (size_t i = 0; i < sizeof(keywords) / sizeof(*keywords); i++)
		rb_ary_push(names, ID2SYM(rb_intern(keywords[i])));
	add_names(completion, names, "");
}

static VALUE class_of_self(const struct completion *completion)
{
	return is_module(completion->self) ? completion->self : rb_obj_class(completion->self);
}

static void complete_bare_word(struct completion *completion)
{
	add_names(completion, builtin_call0(BUILTIN_BINDING_LOCAL_VARIABLES, completion->binding), "");
	add_methods(completion, (struct receiver){completion->self, rb_class_of(completion->self)}, true);
	add_constants(completion, rb_cObject);
	if (completion->self != rb_cObject)
		add_constants(completion, class_of_self(completion));
	add_keywords(completion);
}

/* Behind `Foo::`, `foo.`, `foo&.`, and `Foo#` as the console's `source` has it. False: the word stands for itself. */
static bool complete_member(struct completion *completion)
{
	const char *line = completion->line.bytes;
	size_t word = completion->word, end, begin;
	struct receiver receiver;

	if (word >= 2 && line[word - 1] == ':' && line[word - 2] == ':')
		end = word - 2;
	else if (word >= 1 && (line[word - 1] == '.' || line[word - 1] == '#'))
		end = word >= 2 && line[word - 2] == '&' ? word - 2 : word - 1;
	else
		return false;
	begin = receiver_begin(completion->line, end);
	if (begin == end) {
		/* ::Foo; or 1..x, where there is a dot but no receiver */
		if (line[end] == ':')
			add_constants(completion, rb_cObject);
		return true;
	}
	receiver = receiver_find(completion->binding, (struct slice){line + begin, end - begin});
	if (line[end] == '#') {
		if (is_module(receiver.value))
			add_methods(completion, (struct receiver){Qundef, receiver.value}, true);
		return true;
	}
	if (line[end] == ':') {
		add_constants(completion, receiver.value);
		/* Foo::bar is a call, too, but seldom what is looked for. */
		if (word == completion->line.size)
			return true;
	}
	add_methods(completion, receiver, end - begin == 4 && memcmp(line + begin, "self", 4) == 0);
	return true;
}

static void complete_with_sigil(struct completion *completion)
{
	struct slice word = word_of(completion);

	if (word.bytes[0] == '$')
		add_names(completion, rb_f_global_variables(), "");
	else if (word.bytes[0] == ':') {
		if (word.size > 1)
			add_names(completion, rb_sym_all_symbols(), ":");
	} else if (word.size > 1 && word.bytes[1] == '@')
		add_names(completion, rb_mod_class_variables(0, NULL, class_of_self(completion)), "");
	else {
		add_names(completion, rb_obj_instance_variables(completion->self), "");
		add_names(completion, rb_mod_class_variables(0, NULL, class_of_self(completion)), "");
	}
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

static size_t find_word(struct slice line)
{
	size_t word = line.size;

	/* `size?` is a word, `size ? ` is not: the mark may stand at the end only. */
	if (word > 1 && (line.bytes[word - 1] == '?' || line.bytes[word - 1] == '!') && is_word(line.bytes[word - 2]))
		word--;
	while (word > 0 && is_word(line.bytes[word - 1]))
		word--;
	while (word > 0 && (line.bytes[word - 1] == '@' || line.bytes[word - 1] == '$'))
		word--;
	if (word > 0 && line.bytes[word - 1] == ':' && !(word > 1 && line.bytes[word - 2] == ':'))
		word--;
	return word;
}

static VALUE find_candidates(VALUE argument)
{
	struct completion *completion = (struct completion *)argument;
	struct slice word = word_of(completion);

	completion->self = builtin_call0(BUILTIN_BINDING_RECEIVER, completion->binding);
	if (word.size && strchr("@$:", word.bytes[0]))
		complete_with_sigil(completion);
	else if (!complete_member(completion))
		complete_bare_word(completion);
	return Qnil;
}

static int collect(VALUE name, VALUE value, VALUE names)
{
	(void)value;
	rb_ary_push(names, name);
	return ST_CONTINUE;
}

static void completion_begin(struct request *request, const struct command *command)
{
	struct slice line = command->arguments.text;
	struct completion completion;
	VALUE answer = rb_hash_new(), names = rb_ary_new();
	int failed = 0;

	if (command->arguments.cursor < line.size)
		line.size = (size_t)command->arguments.cursor;
	if (line.size > LINE_MAX_SIZE) {
		request_finish(request, EFBIG, "the line is too long");
		return;
	}
	completion = (struct completion){
		.line = line, .word = find_word(line), .binding = console_binding(request->session), .found = rb_hash_new()};
	/* What cannot be found out is no candidate, and no error. */
	rb_protect(find_candidates, (VALUE)&completion, &failed);
	if (failed)
		exception_drop(Qnil);
	rb_hash_foreach(completion.found, collect, names);
	rb_hash_aset(answer, rb_str_new_cstr("start"), ULONG2NUM(completion.word));
	rb_hash_aset(answer, rb_str_new_cstr("candidates"), names);
	ruby_msgpack_send(request, answer);
	RB_GC_GUARD(completion.binding);
	RB_GC_GUARD(completion.found);
	request_finish(request, 0, "%s", "");
}

const struct request_kind request_complete = {.name = "completion", .begin = completion_begin};
