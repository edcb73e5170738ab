/*
 * The memory request: what Ruby says about its heap and its GC, and what is in it. Context: job.
 *
 * The objects are counted in one walk over the heap, in which nothing of Ruby's is allocated, so that neither the GC nor another thread comes in
 * between. The process stands still meanwhile: a walk that takes longer than the request allows is broken off, and what was counted until then is
 * sent as a part of the whole.
 */

#define _GNU_SOURCE
#include "request.h"

#include "answer.h"
#include "compat.h"
#include "core.h"
#include "naming.h"
#include "own.h"
#include "pack.h"
#include "proto/clock.h"
#include "tally.h"

#include <errno.h>
#include <ruby.h>

#define CLASSES_SENT_MAX 100u
#define CLASS_NAME_MAX 256u
#define TYPES 32u /* more than Ruby has: the type is 5 bits */

static const char *const type_names[TYPES] = {
	[RUBY_T_OBJECT] = "OBJECT",     [RUBY_T_CLASS] = "CLASS",   [RUBY_T_MODULE] = "MODULE", [RUBY_T_FLOAT] = "FLOAT",
	[RUBY_T_STRING] = "STRING",     [RUBY_T_REGEXP] = "REGEXP", [RUBY_T_ARRAY] = "ARRAY",   [RUBY_T_HASH] = "HASH",
	[RUBY_T_STRUCT] = "STRUCT",     [RUBY_T_BIGNUM] = "BIGNUM", [RUBY_T_FILE] = "FILE",     [RUBY_T_DATA] = "DATA",
	[RUBY_T_MATCH] = "MATCH",       [RUBY_T_SYMBOL] = "SYMBOL", [RUBY_T_IMEMO] = "IMEMO",   [RUBY_T_COMPLEX] = "COMPLEX",
	[RUBY_T_RATIONAL] = "RATIONAL", [RUBY_T_NODE] = "NODE",     [RUBY_T_ICLASS] = "ICLASS", [RUBY_T_ZOMBIE] = "ZOMBIE",
	[RUBY_T_MOVED] = "MOVED",
};

struct walk {
	uint64_t began_ns;
	uint64_t took_ns;
	uint64_t limit_ns;
	uint64_t slots; /* looked at, free ones included */
	bool cut;       /* by the limit */
	uint64_t types[TYPES];
	struct tally classes;
	struct own_set *own; /* rbprobe's objects, which are counted by themselves */
	uint64_t own_count;
};

/* Whether an object is the program's; the VM has others of its own in the same heap, and for those that are gone there are placeholders. */
static bool has_class(VALUE object, unsigned type)
{
	return type != RUBY_T_IMEMO && type != RUBY_T_NODE && type != RUBY_T_ICLASS && type != RUBY_T_ZOMBIE &&
	       type != RUBY_T_MOVED && RBASIC_CLASS(object);
}

static int count_page(void *start, void *end, size_t stride, void *argument)
{
	struct walk *walk = argument;

	for (char *slot = start; slot < (char *)end; slot += stride) {
		VALUE object = (VALUE)slot;
		unsigned type;

		walk->slots++;
		if (compat_slot_is_free(object))
			continue;
		if (own_has(walk->own, object)) {
			walk->own_count++;
			continue;
		}
		type = (unsigned)RB_BUILTIN_TYPE(object);
		walk->types[type % TYPES]++;
		if (has_class(object, type))
			tally_add(&walk->classes, rb_obj_class(object));
	}
	walk->took_ns = clock_now_ns() - walk->began_ns;
	walk->cut = walk->took_ns > walk->limit_ns;
	return walk->cut;
}

static void add_types(struct answer *answer, const struct walk *walk)
{
	answer_map(answer, "types");
	for (size_t type = 0; type < TYPES; type++)
		if (walk->types[type] && type_names[type])
			answer_uint(answer, type_names[type], walk->types[type]);
	answer_end(answer);
}

/* The names are made here, which allocates: `top` is on the stack, so that its classes are neither collected nor moved. */
static void add_classes(struct answer *answer, const struct tally *classes)
{
	struct tally_entry top[CLASSES_SENT_MAX];
	size_t count = tally_top(classes, top, CLASSES_SENT_MAX);

	answer_array(answer, "classes");
	for (size_t i = 0; i < count; i++) {
		char name[CLASS_NAME_MAX];
		struct text text = {.bytes = name, .size = sizeof(name)};

		naming_class(&text, (VALUE)top[i].key);
		answer_map(answer, NULL);
		answer_text(answer, "name", name, text.used);
		answer_uint(answer, "count", top[i].count);
		answer_end(answer);
	}
	answer_end(answer);
}

static void add_objects(struct answer *answer, const struct walk *walk)
{
	answer_map(answer, "objects");
	answer_uint(answer, "slots", walk->slots);
	answer_bool(answer, "cut", walk->cut);
	answer_uint(answer, "pause_ns", walk->took_ns);
	answer_uint(answer, "own", walk->own_count);
	answer_uint(answer, "class_count", walk->classes.used);
	add_types(answer, walk);
	add_classes(answer, &walk->classes);
	answer_end(answer);
}

static VALUE call_if_there(enum core_method method)
{
	return core_has(method) ? core_call0(method, rb_mGC) : Qnil;
}

struct report {
	struct answer answer;
	struct walk *walk; /* NULL: nobody asked for it */
};

static VALUE fill(VALUE argument)
{
	struct report *report = (struct report *)argument;
	struct answer *answer = &report->answer;
	VALUE gc = rb_hash_new(), heaps = call_if_there(CORE_GC_STAT_HEAP), total = call_if_there(CORE_GC_TOTAL_TIME);
	bool measured = RTEST(call_if_there(CORE_GC_MEASURE_TOTAL_TIME));

	rb_gc_stat(gc);
	answer_map(answer, NULL);
	answer_uint(answer, "time_ns", clock_now_ns());
	pack_value(answer, "gc", gc);
	if (!NIL_P(heaps))
		pack_value(answer, "heaps", heaps);
	if (measured)
		pack_value(answer, "gc_total_time_ns", total);
	if (report->walk)
		add_objects(answer, report->walk);
	answer_end(answer);
	RB_GC_GUARD(gc);
	RB_GC_GUARD(heaps);
	RB_GC_GUARD(total);
	return Qnil;
}

static void begin(struct request *request, const struct command *command)
{
	struct walk walk = {.limit_ns = command->request.limit * NS_PER_MS};
	struct report report = {.walk = NULL};
	int failed = 0;

	if (command->request.flags & MEMORY_OBJECTS) {
		walk.own = own_new();
		walk.began_ns = clock_now_ns();
		if (walk.own && compat_each_page(count_page, &walk))
			report.walk = &walk;
	}
	answer_init(&report.answer);
	rb_protect(fill, (VALUE)&report, &failed);
	tally_free(&walk.classes);
	own_free(walk.own);
	if (failed) {
		rb_set_errinfo(Qnil);
		request_finish(request, EIO, "Ruby does not tell about its memory: GC.stat raised");
	} else if (!request_answer(request, &report.answer)) {
		request_finish(request, ENOMEM, "the process has no memory for an answer");
	} else {
		request_finish(request, 0, "%s", "");
	}
	answer_free(&report.answer);
}

const struct request_kind request_memory = {.name = "memory", .begin = begin};
