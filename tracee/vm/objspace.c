/* The objspace extension. See objspace.h. */

#define _GNU_SOURCE
#include "tracee/vm/objspace.h"

#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/own.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ruby.h>
#include <ruby/io.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "objspace.so"
#define BUFFER_SIZE (256u << 10) /* with Ruby's own, a write() and a waking up of the reader would come every 4 to 12 KiB */

/* rb_protect() for what is not for the application. False: it raised. */
static bool try(VALUE (*run)(VALUE), VALUE argument)
{
	int failed = 0;

	rb_protect(run, argument, &failed);
	if (failed)
		exception_drop(Qnil);
	return !failed;
}

/* The same, for what somebody has asked for: says what it raised, in one line. */
static bool try_for(const char *what, VALUE (*run)(VALUE), VALUE argument, struct error *err)
{
	char message[300];
	int failed = 0;

	rb_protect(run, argument, &failed);
	if (!failed)
		return true;
	builtin_describe(rb_errinfo(), message, sizeof(message));
	exception_drop(Qnil);
	for (char *at = message; *at; at++)
		if (*at == '\n' || *at == '\r')
			*at = ' ';
	error_set(err, -EIO, "%s failed: %s", what, message[0] ? message : "it raised an exception without a message");
	return false;
}

static VALUE object_space(void)
{
	return rb_define_module("ObjectSpace"); /* which it has been since Ruby began */
}

/* Whether it is there already. */
static bool is_loaded(void)
{
	return builtin_has(BUILTIN_OBJSPACE_START);
}

struct search {
	char *path;
	size_t size;
	bool found;
};

/* From the end of $LOAD_PATH, where Ruby's own directories are. */
static VALUE search_load_path(VALUE argument)
{
	struct search *search = (struct search *)argument;
	VALUE directories = rb_gv_get("$LOAD_PATH");

	for (long i = RB_TYPE_P(directories, T_ARRAY) ? RARRAY_LEN(directories) : 0; i-- > 0 && !search->found;) {
		VALUE directory = rb_ary_entry(directories, i);

		if (!RB_TYPE_P(directory, T_STRING))
			continue;
		snprintf(search->path, search->size, "%.*s/" LIBRARY, (int)RSTRING_LEN(directory), RSTRING_PTR(directory));
		search->found = access(search->path, R_OK) == 0;
	}
	RB_GC_GUARD(directories);
	return Qnil;
}

int objspace_find(char *path, size_t size, struct error *err)
{
	struct search search = {path, size, false};

	path[0] = '\0';
	if (is_loaded())
		return 0;
	try(search_load_path, (VALUE)&search);
	if (!search.found)
		return error_set(err, -ENOENT,
		                 "Ruby's " LIBRARY " is in no directory of $LOAD_PATH; it comes with Ruby (Debian: the package "
		                 "libruby), and must be where the process can read it");
	return 0;
}

static VALUE call_init(VALUE argument)
{
	((void (*)(void))argument)();
	return Qnil;
}

int objspace_load(const char *path, struct error *err)
{
	void *library, *init;

	if (is_loaded())
		return 0;
	library = dlopen(path, RTLD_LAZY);
	if (!library)
		return error_set(err, -ENOENT, "%s cannot be loaded: %s", path, dlerror());
	init = dlsym(library, "Init_objspace");
	if (!init || !try(call_init, (VALUE)init))
		return error_set(err, -EIO, "%s cannot be used", path);
	return 0;
}

/* --- The dump */

struct dumping {
	FILE *file;
	char *buffer;
	int descriptor;
	VALUE io;
	VALUE also;
	uint64_t own;
	bool failed;
};

static void write_reference(VALUE object, void *data)
{
	struct dumping *dumping = data;

	fprintf(dumping->file, "%s\"%#lx\"", dumping->own++ ? ", " : "", (unsigned long)object);
}

/*
 * In front of all others: whoever reads the dump once knows in time which objects to leave out, and that the dump has a mark
 * at its end. False: no memory.
 */
static bool write_own(struct dumping *dumping, VALUE io)
{
	struct own_set *set = own_new();

	if (!set)
		return false;
	own_add(set, io);
	own_add(set, dumping->also);
	for (long i = 0; !NIL_P(dumping->also) && i < RARRAY_LEN(dumping->also); i++)
		own_except(set, rb_ary_entry(dumping->also, i));
	own_complete(set);
	fputs("{\"type\":\"ROOT\", \"root\":\"rbprobe\", \"end_mark\":true, \"references\":[", dumping->file);
	own_each(set, write_reference, dumping);
	fputs("]}\n", dumping->file);
	own_free(set);
	fflush(dumping->file); /* the dump may go another way */
	return true;
}

/*
 * Ruby's dump has no end of its own: one that lost its last lines looks like a whole one. A root that refers to nothing means
 * nothing to those who do not know it.
 */
static void write_end(struct dumping *dumping)
{
	fputs("{\"type\":\"ROOT\", \"root\":\"rbprobe end\", \"references\":[]}\n", dumping->file);
}

/*
 * As ObjectSpace.dump_all(output: io): all slots in use, and shapes where there are some. Its own argument checks are Ruby code
 * from 3.0 on.
 */
static void call_dump(VALUE io)
{
	VALUE arguments[] = {io, Qfalse, Qnil, INT2FIX(0)};

	if (builtin_has(BUILTIN_OBJSPACE_DUMP_ALL_RAW)) {
		builtin_call(BUILTIN_OBJSPACE_DUMP_ALL_RAW, object_space(),
		             rb_obj_method_arity(object_space(), rb_intern("_dump_all")), arguments);
	} else {
		VALUE options = rb_hash_new();

		rb_hash_aset(options, ID2SYM(rb_intern("output")), io);
		builtin_call_keywords(BUILTIN_OBJSPACE_DUMP_ALL, object_space(), 1, &options);
	}
}

static VALUE dump(VALUE argument)
{
	struct dumping *dumping = (struct dumping *)argument;
	VALUE io = rb_io_fdopen(dumping->descriptor, O_WRONLY, NULL);
	rb_io_t *open_file;
	bool announced;

	dumping->descriptor = -1; /* the IO's now */
	dumping->io = io;
	GetOpenFile(io, open_file);
	dumping->file = rb_io_stdio_file(open_file);
	compat_io_buffer(io, BUFFER_SIZE);
	dumping->buffer = malloc(BUFFER_SIZE);
	if (dumping->buffer)
		setvbuf(dumping->file, dumping->buffer, _IOFBF, BUFFER_SIZE);
	announced = write_own(dumping, io);
	call_dump(io);
	rb_io_flush(io);
	if (announced)
		write_end(dumping);
	dumping->failed = fflush(dumping->file) != 0 || ferror(dumping->file);
	return Qnil;
}

/* Whether the dump has raised or not: who reads it waits for that. */
static VALUE close_io(VALUE io)
{
	return NIL_P(io) ? Qnil : rb_io_close(io);
}

int objspace_dump(int descriptor, VALUE also, uint64_t *own, struct error *err)
{
	struct dumping dumping = {.descriptor = descriptor, .io = Qnil, .also = also};
	bool done = try_for("Ruby's dump of the objects", dump, (VALUE)&dumping, err);

	*own = dumping.own;
	if (dumping.descriptor >= 0)
		close(dumping.descriptor);
	/* The FILE has the buffer until it is closed. */
	if (try(close_io, dumping.io))
		free(dumping.buffer);
	if (!done)
		return err->code;
	if (dumping.failed)
		return error_set(err, -EIO, "the dump could not be written to its pipe");
	return 0;
}

/* --- Where objects are allocated */

static VALUE start_tracing(VALUE unused)
{
	(void)unused;
	return builtin_call0(BUILTIN_OBJSPACE_START, object_space());
}

static VALUE stop_tracing(VALUE unused)
{
	(void)unused;
	return builtin_call0(BUILTIN_OBJSPACE_STOP, object_space());
}

static VALUE forget_allocations(VALUE unused)
{
	(void)unused;
	return builtin_call0(BUILTIN_OBJSPACE_CLEAR, object_space());
}

static VALUE generation_of_new_object(VALUE known)
{
	*(bool *)known = !NIL_P(builtin_call1(BUILTIN_OBJSPACE_GENERATION, object_space(), rb_obj_alloc(rb_cObject)));
	return Qnil;
}

bool objspace_is_tracing(void)
{
	bool known = false;

	return is_loaded() && try(generation_of_new_object, (VALUE)&known) && known;
}

int objspace_trace_allocations(struct error *err)
{
	return try_for("ObjectSpace.trace_object_allocations_start", start_tracing, Qnil, err) ? 0 : err->code;
}

void objspace_stop_tracing(bool forget)
{
	try(stop_tracing, Qnil);
	if (forget)
		try(forget_allocations, Qnil);
}
