/* The differences between Rubies. See compat.h. */

#include "tracee/vm/compat.h"

#include "tracee/vm/builtin_methods.h"

#include <errno.h>
#include <ruby/debug.h>
#include <ruby/io.h>
#include <ruby/thread.h>
#include <ruby/version.h>
#include <string.h>
#ifdef HAVE_RB_RACTOR_LOCAL_STORAGE_PTR_NEWKEY
#include <ruby/ractor.h>
#endif

/* --- Postponed jobs */

enum job_kind { JOB, START, SAMPLE, JOB_KINDS };

static void (*job_functions[JOB_KINDS])(void *);

/*
 * The VM runs jobs between a call that has failed and the code that looks why: errno stays the application's. Jobs raise nothing.
 */
static void run(enum job_kind kind, void *unused)
{
	int saved_errno = errno;

	job_functions[kind](unused);
	errno = saved_errno;
}

/* The VM tells jobs apart by their functions. */
static void run_job(void *unused)
{
	run(JOB, unused);
}

static void run_start(void *unused)
{
	run(START, unused);
}

static void run_sample(void *unused)
{
	run(SAMPLE, unused);
}

static void (*const runs[JOB_KINDS])(void *) = {run_job, run_start, run_sample};

#ifdef HAVE_RB_POSTPONED_JOB_PREREGISTER

/* From 3.3 on; the functions below it are deprecated there and gone in 4.1. */
static rb_postponed_job_handle_t handles[JOB_KINDS] = {POSTPONED_JOB_HANDLE_INVALID, POSTPONED_JOB_HANDLE_INVALID,
                                                       POSTPONED_JOB_HANDLE_INVALID};

static void job_register(enum job_kind kind, void (*function)(void *))
{
	job_functions[kind] = function;
	if (handles[kind] == POSTPONED_JOB_HANDLE_INVALID)
		handles[kind] = rb_postponed_job_preregister(0, runs[kind], NULL);
}

static void job_trigger(enum job_kind kind)
{
	if (handles[kind] != POSTPONED_JOB_HANDLE_INVALID)
		rb_postponed_job_trigger(handles[kind]);
}

#else

static void job_register(enum job_kind kind, void (*function)(void *))
{
	job_functions[kind] = function;
}

static void job_trigger(enum job_kind kind)
{
	if (job_functions[kind])
		rb_postponed_job_register_one(0, runs[kind], NULL);
}

#endif

void compat_job_register(void (*job)(void *))
{
	job_register(JOB, job);
}

void compat_job_trigger(void)
{
	job_trigger(JOB);
}

void compat_start_register(void (*job)(void *))
{
	job_register(START, job);
}

void compat_start_trigger(void)
{
	job_trigger(START);
}

void compat_sample_register(void (*job)(void *))
{
	job_register(SAMPLE, job);
}

void compat_sample_trigger(void)
{
	job_trigger(SAMPLE);
}

#ifdef HAVE_RB_RACTOR_LOCAL_STORAGE_PTR_NEWKEY

static rb_ractor_local_key_t ractor_key;
static int main_ractor_mark;

static const struct rb_ractor_local_storage_type ractor_storage = {.mark = NULL, .free = NULL};

bool compat_in_main_ractor(void)
{
	return rb_ractor_local_storage_ptr(ractor_key) == &main_ractor_mark;
}

bool compat_starts_in_main_ractor(void)
{
	return rb_ractor_stdin() == rb_stdin;
}

#else

bool compat_starts_in_main_ractor(void)
{
	return true;
}

bool compat_in_main_ractor(void)
{
	return true;
}

#endif

/* Either of its two methods: an application has hardly removed both. */
static bool prelude_is_over(void)
{
	return rb_method_boundp(rb_cBinding, rb_intern("irb"), 0) || rb_method_boundp(rb_cObject, rb_intern("pp"), 0);
}

bool compat_vm_is_ready(void)
{
	/* Only ruby_options() sets it; a program that embeds Ruby may do without. */
	if (!rb_argv0)
		return rb_const_defined(rb_cObject, rb_intern("ARGV"));
	return rb_const_defined(rb_cObject, rb_intern("RUBY_DESCRIPTION")) && prelude_is_over();
}

void compat_init(void)
{
#ifdef HAVE_RB_EXT_RACTOR_SAFE
	rb_ext_ractor_safe(true);
#endif
#ifdef HAVE_RB_RACTOR_LOCAL_STORAGE_PTR_NEWKEY
	ractor_key = rb_ractor_local_storage_ptr_newkey(&ractor_storage);
	rb_ractor_local_storage_ptr_set(ractor_key, &main_ractor_mark);
#endif
}

VALUE compat_attached_object(VALUE singleton_class)
{
#ifdef HAVE_RB_CLASS_ATTACHED_OBJECT
	return rb_class_attached_object(singleton_class);
#else
	return rb_attr_get(singleton_class, rb_intern("__attached__"));
#endif
}

void *compat_data(VALUE object)
{
#ifdef HAVE_RTYPEDDATA_GET_DATA
	return RTYPEDDATA_GET_DATA(object);
#else
	return RTYPEDDATA_DATA(object);
#endif
}

#define RUBY_AT_LEAST(major, minor)                                                                                              \
	(RUBY_API_VERSION_MAJOR > (major) || (RUBY_API_VERSION_MAJOR == (major) && RUBY_API_VERSION_MINOR >= (minor)))

bool compat_block_method_shares_hooks(void)
{
	return RUBY_AT_LEAST(3, 2);
}

enum compat_direct_calls compat_direct_calls(void)
{
	if (RUBY_AT_LEAST(3, 4))
		return COMPAT_DIRECT_CALLS_TOLD;
	return RUBY_AT_LEAST(3, 3) ? COMPAT_DIRECT_CALLS_UNTOLD : COMPAT_DIRECT_CALLS_NONE;
}

static void *nothing(void *argument)
{
	return argument;
}

void compat_yield(void)
{
	if (RUBY_AT_LEAST(4, 0))
		rb_thread_call_without_gvl2(nothing, NULL, NULL, NULL);
	else
		rb_thread_schedule();
}

static void no_event(rb_event_flag_t event, VALUE data, VALUE self, ID id, VALUE class)
{
	(void)event;
	(void)data;
	(void)self;
	(void)id;
	(void)class;
}

void compat_restore_global_events(void)
{
	if (RUBY_AT_LEAST(3, 2))
		return;
	/* Adding and removing a hook makes the VM look at its list again. RAISE rewrites no instructions. */
	rb_add_event_hook(no_event, RUBY_EVENT_RAISE, Qnil);
	rb_remove_event_hook(no_event);
}

bool compat_target_takes_from_global(void)
{
	return RUBY_AT_LEAST(3, 0);
}

bool compat_target_may_be_disabled(void)
{
	return RUBY_AT_LEAST(4, 0) || compat_is_only_ractor();
}

bool compat_target_survives_hooks(void)
{
	return RUBY_AT_LEAST(3, 2);
}

bool compat_target_keeps_others(void)
{
	return RUBY_AT_LEAST(3, 0);
}

bool compat_tracing_is_safe(void)
{
	return !RUBY_AT_LEAST(3, 2) || compat_compiler() != COMPAT_COMPILER_YJIT || compat_is_only_ractor();
}

static void on_nothing(VALUE tracepoint, void *data)
{
	(void)tracepoint;
	(void)data;
}

/*
 * Enabling a targeted TracePoint makes YJIT drop all that it has compiled, and count calls from 0 (vm_trace.c of 3.3, 3.4, 4.0
 * and 4.1-dev).
 */
void compat_compile_anew(void)
{
	VALUE code, tracepoint;

	if (compat_compiler() != COMPAT_COMPILER_YJIT || !compat_target_may_be_disabled() || !compat_tracing_is_safe())
		return;
	code = builtin_lambda("-> { }");
	tracepoint = rb_tracepoint_new(Qnil, RUBY_EVENT_B_CALL, on_nothing, NULL);
	builtin_enable_for(tracepoint, code);
	rb_tracepoint_disable(tracepoint);
	RB_GC_GUARD(code);
}

bool compat_block_method_defaults(void)
{
	return RUBY_AT_LEAST(3, 1);
}

bool compat_block_method_frame_stays(void)
{
	return RUBY_AT_LEAST(3, 1);
}

bool compat_instruction_events(void)
{
	return RUBY_AT_LEAST(3, 1);
}

bool compat_struct_events(void)
{
	return !RUBY_AT_LEAST(3, 1) || RUBY_AT_LEAST(3, 3);
}

bool compat_labels_have_classes(void)
{
	return RUBY_AT_LEAST(3, 4);
}

bool compat_attribute_events(void)
{
	return RUBY_AT_LEAST(3, 0);
}

/* A VM that is built with a sanitizer poisons its free slots, and only its GC may look at them. */
__attribute__((noinline, no_sanitize("address"))) bool compat_slot_is_free(VALUE slot)
{
	return RBASIC(slot)->flags == 0;
}

#ifdef HAVE_RB_OBJ_MEMSIZE_OF

/* Exported for the objspace extension, in no header. */
size_t rb_obj_memsize_of(VALUE object);

size_t compat_object_bytes(VALUE object)
{
	return rb_obj_memsize_of(object);
}

#else

size_t compat_object_bytes(VALUE object)
{
	(void)object;
	return 0;
}

#endif

#ifdef HAVE_RB_OBJSPACE_EACH_OBJECTS

/* Exported for the objspace extension, in no header. The same from 2.7 to 4.1. */
void rb_objspace_each_objects(int (*callback)(void *, void *, size_t, void *), void *data);

bool compat_each_page(int (*page)(void *start, void *end, size_t stride, void *data), void *data)
{
	rb_objspace_each_objects(page, data);
	return true;
}

#else

bool compat_each_page(int (*page)(void *start, void *end, size_t stride, void *data), void *data)
{
	(void)page;
	(void)data;
	return false;
}

#endif

enum compat_compiler compat_compiler(void)
{
	static const struct {
		const char *path;
		enum builtin_method is_enabled;
		enum compat_compiler compiler;
	} compilers[] = {{"RubyVM::YJIT", BUILTIN_YJIT_ENABLED_P, COMPAT_COMPILER_YJIT},
	                 {"RubyVM::ZJIT", BUILTIN_ZJIT_ENABLED_P, COMPAT_COMPILER_OTHER},
	                 {"RubyVM::RJIT", BUILTIN_RJIT_ENABLED_P, COMPAT_COMPILER_OTHER}};

	for (size_t i = 0; i < sizeof(compilers) / sizeof(compilers[0]); i++)
		if (builtin_has(compilers[i].is_enabled) &&
		    RTEST(builtin_call0(compilers[i].is_enabled, rb_path2class(compilers[i].path))))
			return compilers[i].compiler;
	return COMPAT_COMPILER_NONE;
}

#ifdef HAVE_RB_OBJSPACE_REACHABLE_OBJECTS_FROM

/* As above. */
void rb_objspace_reachable_objects_from(VALUE object, void (*each)(VALUE, void *), void *data);

void compat_each_reference(VALUE object, void (*each)(VALUE reference, void *data), void *data)
{
	rb_objspace_reachable_objects_from(object, each, data);
}

void rb_objspace_reachable_objects_from_root(void (*each)(const char *category, VALUE, void *), void *data);

struct roots {
	void (*each)(VALUE reference, void *data);
	void *data;
};

static void on_root(const char *category, VALUE object, void *data)
{
	const struct roots *roots = data;

	if (strcmp(category, "machine_context") != 0)
		roots->each(object, roots->data);
}

void compat_each_root(void (*each)(VALUE reference, void *data), void *data)
{
	rb_objspace_reachable_objects_from_root(on_root, &(struct roots){each, data});
}

#else

void compat_each_reference(VALUE object, void (*each)(VALUE reference, void *data), void *data)
{
	(void)object;
	(void)each;
	(void)data;
}

void compat_each_root(void (*each)(VALUE reference, void *data), void *data)
{
	(void)each;
	(void)data;
}

#endif

bool compat_is_only_ractor(void)
{
	if (compat_names_need_no_lock() || !builtin_has(BUILTIN_RACTOR_COUNT))
		return true;
	return !builtin_missing(BUILTIN_RACTOR_COUNT) &&
	       builtin_call0(BUILTIN_RACTOR_COUNT, rb_path2class("Ractor")) == INT2FIX(1);
}

#ifdef HAVE_RB_IO_T_WBUF

/*
 * What belongs to Ruby afterwards is Ruby's memory. 3.3 warns of the member that 3.4 no longer shows; there the dump goes through
 * stdio again.
 */
void compat_io_buffer(VALUE io, size_t size)
{
	rb_io_t *file;

	GetOpenFile(io, file);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
	if (file->wbuf.ptr)
		return;
	file->wbuf.ptr = ALLOC_N(char, size);
	file->wbuf.capa = (int)size;
#pragma GCC diagnostic pop
}

#else

void compat_io_buffer(VALUE io, size_t size)
{
	(void)io;
	(void)size;
}

#endif

bool compat_timer_thread_wakes(void)
{
#ifdef HAVE_RB_POSTPONED_JOB_PREREGISTER
	return true;
#else
	return false;
#endif
}
