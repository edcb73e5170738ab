/* Telling rbprobe's objects from the application's. See own.h. */

#include "tracee/vm/own.h"

#include "tracee/vm/class_name.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/quiet.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PLACES_MIN 1024u
/* Through a method's code much of an application can be reached, all of which would turn out to be referred to from elsewhere. */
#define OBJECTS_MAX (1u << 14)
#define TYPE_PREFIX "rbprobe " /* of the names of rb_data_type_t */

static struct {
	VALUE **items;
	size_t count;
} registered;

struct object {
	VALUE value;
	bool made;   /* by rbprobe, for certain */
	bool shared; /* something else refers to it */
};

struct own_set {
	struct object *objects;
	size_t count;
	uint32_t *places; /* by address; 0: free, else the number of an object plus 1 */
	size_t place_count;
	bool of_data; /* references of an object of rbprobe's types are looked at */
	bool changed; /* in this round of own_complete() */
};

void own_register(VALUE *address)
{
	VALUE **grown;

	rb_gc_register_address(address);
	grown = realloc(registered.items, (registered.count + 1) * sizeof(*grown));
	if (!grown)
		return; /* counts as the application's */
	registered.items = grown;
	registered.items[registered.count++] = address;
}

static ID mark(void)
{
	return rb_intern("rbprobe's own");
}

static VALUE marked(VALUE object)
{
	rb_ivar_set(object, mark(), Qtrue);
	return object;
}

VALUE own_module_new(void)
{
	return marked(rb_module_new());
}

VALUE own_class_new(VALUE superclass)
{
	return marked(rb_class_new(superclass));
}

bool own_is_module(VALUE module)
{
	if (class_name_is_singleton(module)) {
		VALUE object = compat_attached_object(module);

		return (RB_TYPE_P(object, T_MODULE) || RB_TYPE_P(object, T_CLASS)) && own_is_module(object);
	}
	return RTEST(rb_attr_get(module, mark()));
}

VALUE own_thread_new(VALUE (*run)(void *argument), void *argument)
{
	VALUE thread = rb_thread_create(run, argument);
	int failed = 0;

	quiet_thread(thread);
	/* It has begun: without memory it is there all the same. */
	rb_protect(marked, thread, &failed);
	if (failed)
		exception_drop(Qnil);
	return thread;
}

bool own_is_thread(VALUE thread)
{
	return RTEST(rb_attr_get(thread, mark()));
}

static uint32_t *place_of(uint32_t *places, size_t count, const struct object *objects, VALUE value)
{
	/* Heap addresses differ in the middle: multiply, and take the upper bits. */
	size_t at = (size_t)(((uint64_t)value * 0x9e3779b97f4a7c15u) >> 32) & (count - 1);

	while (places[at] && objects[places[at] - 1].value != value)
		at = (at + 1) & (count - 1);
	return &places[at];
}

static struct object *find(const struct own_set *set, VALUE value)
{
	uint32_t number = *place_of(set->places, set->place_count, set->objects, value);

	return number ? &set->objects[number - 1] : NULL;
}

/* At least half of the places stay free. */
static bool grow(struct own_set *set)
{
	size_t count = set->place_count ? 2 * set->place_count : PLACES_MIN;
	struct object *objects = realloc(set->objects, count / 2 * sizeof(*objects));
	uint32_t *places = calloc(count, sizeof(*places));

	if (objects)
		set->objects = objects;
	if (!objects || !places) {
		free(places);
		return false;
	}
	for (size_t i = 0; i < set->count; i++)
		*place_of(places, count, objects, objects[i].value) = (uint32_t)i + 1;
	free(set->places);
	set->places = places;
	set->place_count = count;
	return true;
}

static bool is_of_own_type(VALUE object)
{
	return RB_BUILTIN_TYPE(object) == RUBY_T_DATA && RTYPEDDATA_P(object) &&
	       strncmp(RTYPEDDATA_TYPE(object)->wrap_struct_name, TYPE_PREFIX, strlen(TYPE_PREFIX)) == 0;
}

static void add(struct own_set *set, VALUE value, bool made)
{
	struct object *object = find(set, value);

	made = made || is_of_own_type(value);
	if (object) {
		object->made = object->made || made;
		return;
	}
	if (set->count == OBJECTS_MAX || (set->count == set->place_count / 2 && !grow(set)))
		return;
	set->objects[set->count] = (struct object){.value = value, .made = made};
	*place_of(set->places, set->place_count, set->objects, value) = (uint32_t)++set->count;
}

void own_add(struct own_set *set, VALUE object)
{
	if (!RB_SPECIAL_CONST_P(object))
		add(set, object, true);
}

void own_except(struct own_set *set, VALUE object)
{
	struct object *found;

	if (RB_SPECIAL_CONST_P(object))
		return;
	add(set, object, false);
	found = find(set, object);
	if (found)
		found->shared = true;
}

struct own_set *own_new(void)
{
	struct own_set *set = calloc(1, sizeof(*set));

	if (!set || !grow(set)) {
		own_free(set);
		return NULL;
	}
	for (size_t i = 0; i < registered.count; i++)
		own_add(set, *registered.items[i]);
	return set;
}

void own_free(struct own_set *set)
{
	if (!set)
		return;
	free(set->objects);
	free(set->places);
	free(set);
}

bool own_has(const struct own_set *set, VALUE object)
{
	return find(set, object) || is_of_own_type(object);
}

/* Not the application's modules and objects, even where only rbprobe keeps them alive. */
static bool may_belong(VALUE object)
{
	switch (RB_BUILTIN_TYPE(object)) {
	case RUBY_T_STRING:
	case RUBY_T_ARRAY:
	case RUBY_T_HASH:
	case RUBY_T_DATA:
	case RUBY_T_IMEMO:
		return true;
	default:
		return false;
	}
}

static bool is_tracepoint(VALUE object)
{
	return RB_BUILTIN_TYPE(object) == RUBY_T_DATA && RTYPEDDATA_P(object) &&
	       strcmp(RTYPEDDATA_TYPE(object)->wrap_struct_name, "tracepoint") == 0;
}

/* The methods that a targeted TracePoint is on refer to it. rbprobe's data only refers to such as it made. */
static void add_reference(VALUE object, void *data)
{
	struct own_set *set = data;

	if (!RB_SPECIAL_CONST_P(object) && may_belong(object))
		add(set, object, set->of_data && is_tracepoint(object));
}

static void add_singleton_class(struct own_set *set, VALUE object)
{
	VALUE class = RB_BUILTIN_TYPE(object) == RUBY_T_IMEMO ? 0 : RBASIC_CLASS(object);

	if (class && class != rb_obj_class(object))
		add(set, class, false);
}

static void set_shared(VALUE object, void *data)
{
	struct own_set *set = data;
	struct object *found = RB_SPECIAL_CONST_P(object) ? NULL : find(set, object);

	if (!found || found->made || found->shared)
		return;
	found->shared = true;
	set->changed = true;
}

/* Most objects are such, and asking the VM takes longer than this. */
static bool refers_to_nothing(VALUE object, enum ruby_value_type type)
{
	return type == RUBY_T_NONE || type == RUBY_T_ZOMBIE || type == RUBY_T_MOVED || type == RUBY_T_FLOAT ||
	       type == RUBY_T_BIGNUM || (type == RUBY_T_STRING && !RB_FL_TEST_RAW(object, RSTRING_NOEMBED));
}

static int look_at_page(void *start, void *end, size_t stride, void *data)
{
	struct own_set *set = data;

	for (char *slot = start; slot < (char *)end; slot += stride) {
		VALUE object = (VALUE)slot;
		enum ruby_value_type type;

		if (compat_slot_is_free(object) || find(set, object))
			continue;
		type = RB_BUILTIN_TYPE(object);
		if (refers_to_nothing(object, type))
			continue;
		if (is_of_own_type(object))
			own_add(set, object);
		else
			compat_each_reference(object, set_shared, set);
	}
	return 0;
}

void own_complete(struct own_set *set)
{
	for (size_t i = 0; i < set->count; i++) {
		add_singleton_class(set, set->objects[i].value);
		set->of_data = is_of_own_type(set->objects[i].value);
		compat_each_reference(set->objects[i].value, add_reference, set);
	}
	compat_each_root(set_shared, set);
	compat_each_page(look_at_page, set);
	do {
		set->changed = false;
		for (size_t i = 0; i < set->count; i++)
			if (set->objects[i].shared)
				compat_each_reference(set->objects[i].value, set_shared, set);
	} while (set->changed);
}

void own_each(const struct own_set *set, void (*each)(VALUE object, void *data), void *data)
{
	for (size_t i = 0; i < set->count; i++)
		if (!set->objects[i].shared)
			each(set->objects[i].value, data);
}
