/*
 * The memory request: what Ruby says about its heap and its GC, and what is in it. Context: job.
 *
 * The objects are counted in one walk over the heap, in which nothing of Ruby's is allocated, so that neither the GC nor another thread comes in
 * between. The process stands still meanwhile: a walk that takes longer than the request allows is broken off, and what was counted until then is
 * sent as a part of the whole.
 */

#define _GNU_SOURCE
#include "request.h"

#include "compat.h"
#include "core.h"
#include "naming.h"
#include "proto/clock.h"
#include "tally.h"

#include <errno.h>
#include <ruby.h>
#include <string.h>

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
		if (!RBASIC(object)->flags)
			continue;
		type = (unsigned)RB_BUILTIN_TYPE(object);
		walk->types[type % TYPES]++;
		if (has_class(object, type))
			tally_add(&walk->classes, rb_obj_class(object));
	}
	walk->took_ns = clock_now_ns() - walk->began_ns;
	walk->cut = walk->took_ns > walk->limit_ns;
	return walk->cut;
}

static void pack_text(msgpack_packer *packer, const char *bytes, size_t size)
{
	msgpack_pack_str(packer, size);
	msgpack_pack_str_body(packer, bytes, size);
}

static void pack_key(msgpack_packer *packer, const char *key)
{
	pack_text(packer, key, strlen(key));
}

static void pack_number(msgpack_packer *packer, VALUE value)
{
	if (RB_FLOAT_TYPE_P(value))
		msgpack_pack_double(packer, RFLOAT_VALUE(value));
	else if (RB_INTEGER_TYPE_P(value))
		msgpack_pack_uint64(packer, NUM2ULL(value));
	else
		msgpack_pack_nil(packer);
}

static int pack_pair(VALUE key, VALUE value, VALUE argument)
{
	msgpack_packer *packer = (msgpack_packer *)argument;
	VALUE name = RB_SYMBOL_P(key) ? rb_sym2str(key) : rb_fix2str(key, 10);

	pack_text(packer, RSTRING_PTR(name), (size_t)RSTRING_LEN(name));
	RB_GC_GUARD(name);
	if (RB_TYPE_P(value, T_HASH)) {
		msgpack_pack_map(packer, RHASH_SIZE(value));
		rb_hash_foreach(value, pack_pair, argument);
	} else {
		pack_number(packer, value);
	}
	return ST_CONTINUE;
}

/* A Hash with Symbols or small Integers as keys, and numbers or such Hashes as values: what GC.stat and its like return. */
static void pack_hash(msgpack_packer *packer, VALUE hash)
{
	msgpack_pack_map(packer, RHASH_SIZE(hash));
	rb_hash_foreach(hash, pack_pair, (VALUE)packer);
	RB_GC_GUARD(hash);
}

static void pack_types(msgpack_packer *packer, const struct walk *walk)
{
	size_t count = 0;

	for (size_t type = 0; type < TYPES; type++)
		count += walk->types[type] && type_names[type];
	msgpack_pack_map(packer, count);
	for (size_t type = 0; type < TYPES; type++)
		if (walk->types[type] && type_names[type]) {
			pack_key(packer, type_names[type]);
			msgpack_pack_uint64(packer, walk->types[type]);
		}
}

/* The names are made here, which allocates: `top` is on the stack, so that its classes are neither collected nor moved. */
static void pack_classes(msgpack_packer *packer, const struct tally *classes)
{
	struct tally_entry top[CLASSES_SENT_MAX];
	size_t count = tally_top(classes, top, CLASSES_SENT_MAX);

	msgpack_pack_array(packer, count);
	for (size_t i = 0; i < count; i++) {
		char name[CLASS_NAME_MAX];
		struct text text = {.bytes = name, .size = sizeof(name)};

		naming_class(&text, (VALUE)top[i].key);
		msgpack_pack_map(packer, 2);
		pack_key(packer, "name");
		pack_text(packer, name, text.used);
		pack_key(packer, "count");
		msgpack_pack_uint64(packer, top[i].count);
	}
}

static void pack_objects(msgpack_packer *packer, const struct walk *walk)
{
	msgpack_pack_map(packer, 6);
	pack_key(packer, "slots");
	msgpack_pack_uint64(packer, walk->slots);
	pack_key(packer, "cut");
	walk->cut ? msgpack_pack_true(packer) : msgpack_pack_false(packer);
	pack_key(packer, "pause_ns");
	msgpack_pack_uint64(packer, walk->took_ns);
	pack_key(packer, "class_count");
	msgpack_pack_uint64(packer, walk->classes.used);
	pack_key(packer, "types");
	pack_types(packer, walk);
	pack_key(packer, "classes");
	pack_classes(packer, &walk->classes);
}

static VALUE call_if_there(enum core_method method)
{
	return NIL_P(core_method(method)) ? Qnil : core_call0(method, rb_mGC);
}

struct answer {
	msgpack_packer packer;
	struct walk *walk; /* NULL: nobody asked for it */
};

static VALUE pack_answer(VALUE argument)
{
	struct answer *answer = (struct answer *)argument;
	msgpack_packer *packer = &answer->packer;
	VALUE gc = rb_hash_new(), heaps = call_if_there(CORE_GC_STAT_HEAP), total = call_if_there(CORE_GC_TOTAL_TIME);
	bool measured = RTEST(call_if_there(CORE_GC_MEASURE_TOTAL_TIME));

	rb_gc_stat(gc);
	msgpack_pack_map(packer, 2u + !NIL_P(heaps) + measured + (answer->walk != NULL));
	pack_key(packer, "time_ns");
	msgpack_pack_uint64(packer, clock_now_ns());
	pack_key(packer, "gc");
	pack_hash(packer, gc);
	if (!NIL_P(heaps)) {
		pack_key(packer, "heaps");
		pack_hash(packer, heaps);
	}
	if (measured) {
		pack_key(packer, "gc_total_time_ns");
		pack_number(packer, total);
	}
	if (answer->walk) {
		pack_key(packer, "objects");
		pack_objects(packer, answer->walk);
	}
	return Qnil;
}

static void begin(struct request *request, const struct command *command)
{
	struct walk walk = {.limit_ns = command->request.limit * NS_PER_MS};
	struct answer answer = {.walk = NULL};
	msgpack_sbuffer packed;
	int failed = 0;

	if (command->request.flags & MEMORY_OBJECTS) {
		walk.began_ns = clock_now_ns();
		if (compat_each_page(count_page, &walk))
			answer.walk = &walk;
	}
	msgpack_sbuffer_init(&packed);
	msgpack_packer_init(&answer.packer, &packed, msgpack_sbuffer_write);
	rb_protect(pack_answer, (VALUE)&answer, &failed);
	tally_free(&walk.classes);
	if (!failed)
		request_data(request, &packed);
	msgpack_sbuffer_destroy(&packed);
	if (failed) {
		rb_set_errinfo(Qnil);
		request_finish(request, EIO, "Ruby does not tell about its memory: GC.stat raised");
		return;
	}
	request_finish(request, 0, "%s", "");
}

const struct request_kind request_memory = {.name = "memory", .begin = begin};
