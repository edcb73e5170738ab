/*
 * The memory request: what Ruby says about its heap and its GC, and what is in it. Context: job.
 *
 * The objects are counted in one walk over the heap, in which nothing of Ruby's is allocated, so that neither the GC nor another
 * thread comes in between. The process stands still meanwhile: a walk that takes longer than the request allows is broken off,
 * and what was counted until then is sent as a part of the whole.
 */

#define _GNU_SOURCE
#include "tracee/session/request.h"

#include "proto/clock.h"
#include "tracee/base/counter.h"
#include "tracee/base/msgpack_builder.h"
#include "tracee/session/ruby_msgpack.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/class_name.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/own.h"

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
	struct counter classes;
	/* Those with most objects. The walk is on the machine stack, so they are neither collected nor moved from there on. */
	struct counter_entry top[CLASSES_SENT_MAX];
	size_t top_count;
	struct own_set *own; /* rbprobe's objects, which are counted by themselves */
	uint64_t own_count;
};

/*
 * Whether an object is the program's; the VM has others of its own in the same heap, and for those that are gone there are
 * placeholders.
 */
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
			counter_add(&walk->classes, rb_obj_class(object));
	}
	walk->took_ns = clock_now_ns() - walk->began_ns;
	walk->cut = walk->took_ns > walk->limit_ns;
	return walk->cut;
}

static void add_types(struct msgpack_builder *answer, const struct walk *walk)
{
	builder_map(answer, "types");
	for (size_t type = 0; type < TYPES; type++)
		if (walk->types[type] && type_names[type])
			builder_uint(answer, type_names[type], walk->types[type]);
	builder_end(answer);
}

static void add_classes(struct msgpack_builder *answer, const struct walk *walk)
{
	builder_array(answer, "classes");
	for (size_t i = 0; i < walk->top_count; i++) {
		char name[CLASS_NAME_MAX];
		struct text text = {.bytes = name, .size = sizeof(name)};

		class_name_add(&text, (VALUE)walk->top[i].key);
		builder_map(answer, NULL);
		builder_text(answer, "name", name, text.used);
		builder_uint(answer, "count", walk->top[i].count);
		builder_end(answer);
	}
	builder_end(answer);
}

static void add_objects(struct msgpack_builder *answer, const struct walk *walk)
{
	builder_map(answer, "objects");
	builder_uint(answer, "slots", walk->slots);
	builder_bool(answer, "cut", walk->cut);
	builder_uint(answer, "pause_ns", walk->took_ns);
	builder_uint(answer, "own", walk->own_count);
	builder_uint(answer, "class_count", walk->classes.used);
	add_types(answer, walk);
	add_classes(answer, walk);
	builder_end(answer);
}

static VALUE call_if_there(enum builtin_method method)
{
	return builtin_has(method) ? builtin_call0(method, rb_mGC) : Qnil;
}

struct report {
	struct msgpack_builder answer;
	struct walk *walk; /* NULL: nobody asked for it */
};

static VALUE fill(VALUE argument)
{
	struct report *report = (struct report *)argument;
	struct msgpack_builder *answer = &report->answer;
	VALUE gc = rb_hash_new(), heaps = call_if_there(BUILTIN_GC_STAT_HEAP), total = call_if_there(BUILTIN_GC_TOTAL_TIME);
	bool measured = RTEST(call_if_there(BUILTIN_GC_MEASURE_TOTAL_TIME));

	rb_gc_stat(gc);
	builder_map(answer, NULL);
	builder_uint(answer, "time_ns", clock_now_ns());
	ruby_msgpack_value(answer, "gc", gc);
	if (!NIL_P(heaps))
		ruby_msgpack_value(answer, "heaps", heaps);
	if (measured)
		ruby_msgpack_value(answer, "gc_total_time_ns", total);
	if (report->walk)
		add_objects(answer, report->walk);
	builder_end(answer);
	RB_GC_GUARD(gc);
	RB_GC_GUARD(heaps);
	RB_GC_GUARD(total);
	return Qnil;
}

static void memory_begin(struct request *request, const struct command *command)
{
	struct walk walk = {.limit_ns = command->arguments.pause_max_ms * NS_PER_MS};
	struct report report = {.walk = NULL};
	int failed = 0;

	if (command->arguments.flags & MEMORY_OBJECTS) {
		walk.own = own_new();
		walk.began_ns = clock_now_ns();
		if (walk.own && compat_each_page(count_page, &walk))
			report.walk = &walk;
		/* Before anything is allocated: nothing else refers to a class whose objects are all garbage. */
		walk.top_count = counter_top(&walk.classes, walk.top, CLASSES_SENT_MAX);
	}
	builder_init(&report.answer);
	rb_protect(fill, (VALUE)&report, &failed);
	counter_free(&walk.classes);
	own_free(walk.own);
	if (failed) {
		exception_drop(Qnil);
		request_finish(request, EIO, "Ruby does not tell about its memory: GC.stat raised");
	} else if (!request_answer(request, &report.answer)) {
		request_finish(request, ENOMEM, "the process has no memory for an answer");
	} else {
		request_finish(request, 0, "%s", "");
	}
	builder_free(&report.answer);
}

const struct request_kind request_memory = {.name = "memory", .begin = memory_begin};
