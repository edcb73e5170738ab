/*
 * The frames request, for who reads the frames of threads from outside: where each thread has them, and what those are called
 * whose addresses were found there. Context: job.
 *
 * A control frame begins with the program counter, the stack pointer, the instructions, the receiver and the environment (2.7 to
 * 4.1-dev); how long it is differs. That is found in the frames that there are: with the right length each has an environment
 * whose first word is a frame's flags, and instructions that are an internal object of one kind.
 */

#define _GNU_SOURCE
#include "tracee/session/request.h"

#include "proto/frames.h"
#include "tracee/base/msgpack_builder.h"
#include "tracee/base/safe_read.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/class_name.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/layout.h"
#include "tracee/vm/method_definition.h"
#include "tracee/vm/native_id.h"
#include "tracee/vm/own_work.h"
#include "tracee/vm/string_slice.h"
#include "tracee/vm/thread_layout.h"

#include <errno.h>
#include <pthread.h>
#include <ruby.h>
#include <ruby/debug.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

_Static_assert(FRAMES_KIND(0) == (uintptr_t)RUBY_T_IMEMO && FRAMES_KIND_SHIFT == RUBY_FL_USHIFT, "they are what they seem");

#define THREAD_WORDS 64   /* of the VM's structure of a thread */
#define LIBRARY_WORDS 128 /* of the C library's */

struct asked {
	struct msgpack_builder answer;
	const char *text; /* ends with a NUL */
	size_t frame_words;
};

/* --- Where frames are */

static bool is_frame(const uintptr_t *frame)
{
	uintptr_t flags, object;

	if (!safe_read_words(frame[FRAMES_ENVIRONMENT], &flags, 1) || !frames_are_flags(flags))
		return false;
	return !frame[FRAMES_CODE] || frames_are_of_c(flags) ||
	       (safe_read_words(frame[FRAMES_CODE], &object, 1) && (object & FRAMES_KIND_MASK) == FRAMES_KIND(FRAMES_KIND_CODE));
}

/* Whether all frames of a context are some, if each has so many words. */
static bool fits(const uintptr_t context[FRAMES_CONTEXT_WORDS], size_t frame_words)
{
	uintptr_t at = context[FRAMES_INNERMOST], end = context[FRAMES_STACK] + context[FRAMES_STACK_SIZE] * sizeof(uintptr_t);
	uintptr_t frame[FRAMES_WORDS_MAX];

	if (at < context[FRAMES_STACK] || at >= end || (end - at) % (frame_words * sizeof(uintptr_t)))
		return false;
	for (; at < end; at += frame_words * sizeof(uintptr_t))
		if (!safe_read_words(at, frame, FRAMES_WORDS_LEAST) || !is_frame(frame))
			return false;
	return true;
}

/* 0: not found, or not only one. */
static size_t frame_words_find(VALUE thread)
{
	uintptr_t words[FRAMES_CONTEXT_WORDS], context = (uintptr_t)thread_context(thread);
	size_t found = 0;

	if (!context || !safe_read_words(context, words, FRAMES_CONTEXT_WORDS))
		return 0;
	for (size_t count = FRAMES_WORDS_LEAST; count <= FRAMES_WORDS_MAX; count++) {
		if (!fits(words, count))
			continue;
		if (found)
			return 0;
		found = count;
	}
	return found;
}

/*
 * Before 3.1 no other thread tells its number. But the VM's structure of a thread has the C library's, and that the number, at
 * places where those of this thread are found. 0: not found.
 */
static uint32_t native_id_by_structure(VALUE thread)
{
	uintptr_t own[THREAD_WORDS], other[THREAD_WORDS], structure[LIBRARY_WORDS], number = 0;
	uint32_t own_id = (uint32_t)syscall(SYS_gettid);
	size_t word = 0, found = 0;

	if (!safe_read_words((uintptr_t)compat_data(rb_thread_current()), own, THREAD_WORDS) ||
	    !safe_read_words((uintptr_t)compat_data(thread), other, THREAD_WORDS) ||
	    !safe_read_words((uintptr_t)pthread_self(), structure, LIBRARY_WORDS))
		return 0;
	while (word < THREAD_WORDS && own[word] != (uintptr_t)pthread_self())
		word++;
	while (found < LIBRARY_WORDS && (uint32_t)structure[found] != own_id)
		found++;
	if (word == THREAD_WORDS || found == LIBRARY_WORDS ||
	    !safe_read_words(other[word] + found * sizeof(uintptr_t), &number, 1))
		return 0;
	return (uint32_t)number;
}

static void tell_thread(struct msgpack_builder *answer, VALUE thread)
{
	VALUE string = builtin_call0(BUILTIN_THREAD_NAME, thread);
	struct slice name = string_slice_of_name(string);
	uint32_t native_id;

	if (!native_id_of(thread, &native_id))
		native_id = native_id_by_structure(thread);
	builder_map(answer, NULL);
	builder_uint(answer, "id", (uint64_t)thread);
	builder_uint(answer, "native_id", native_id);
	builder_text(answer, "name", name.bytes, name.size);
	builder_bool(answer, "main", thread == rb_thread_main());
	builder_uint(answer, "context_at",
	             (uintptr_t)compat_data(thread) + layout_value(LAYOUT_THREAD_CONTEXT) * sizeof(uintptr_t));
	builder_end(answer);
	RB_GC_GUARD(string);
}

static void tell_threads(struct msgpack_builder *answer)
{
	VALUE threads = builtin_call0(BUILTIN_THREAD_LIST, rb_cThread);

	builder_array(answer, "threads");
	for (long i = 0; i < RARRAY_LEN(threads); i++)
		tell_thread(answer, RARRAY_AREF(threads, i));
	builder_end(answer);
	RB_GC_GUARD(threads);
}

/* --- What they are called */

/* Still what was found there: its second word after the flags tells it from another that has its place by now. */
static bool is_still(uintptr_t object, uintptr_t body)
{
	uintptr_t words[FRAMES_BODY_WORD + 1], kind;

	if (!safe_read_words(object, words, FRAMES_BODY_WORD + 1) || words[FRAMES_BODY_WORD] != body)
		return false;
	kind = words[0] & FRAMES_KIND_MASK;
	return kind == FRAMES_KIND(FRAMES_KIND_CODE) || kind == FRAMES_KIND(FRAMES_KIND_ENTRY);
}

/* Before 3.0 the VM does not say what a method in C is called. False: it is none. */
static bool name_of_entry(struct text *name, uintptr_t entry)
{
	uintptr_t words[FRAMES_ENTRY_WORDS], type;
	VALUE owner;

	if (!safe_read_words(entry, words, FRAMES_ENTRY_WORDS) || !safe_read_words(words[FRAMES_ENTRY_OWNER], &type, 1) ||
	    !rb_id2str((ID)words[FRAMES_ENTRY_CALLED]))
		return false;
	owner = (VALUE)words[FRAMES_ENTRY_OWNER];
	if ((type & RUBY_T_MASK) == RUBY_T_ICLASS)
		owner = RBASIC_CLASS(owner);
	else if ((type & RUBY_T_MASK) != RUBY_T_CLASS && (type & RUBY_T_MASK) != RUBY_T_MODULE)
		return false;
	class_name_add_method(name, owner, ID2SYM((ID)words[FRAMES_ENTRY_CALLED]));
	return true;
}

static void tell_found(struct msgpack_builder *answer, uintptr_t object, uintptr_t body)
{
	VALUE frame = (VALUE)object, path = rb_profile_frame_path(frame), label = rb_profile_frame_full_label(frame);
	VALUE line = rb_profile_frame_first_lineno(frame);
	uintptr_t function = method_definition_function_of_entry(object, body);
	struct slice name = string_slice_of_name(label), file = string_slice_of_name(path);
	char bytes[NAME_SIZE_MAX];
	struct text own = {.bytes = bytes, .size = sizeof(bytes)};

	if (!name.size && function && name_of_entry(&own, object))
		name = (struct slice){own.bytes, own.used};
	if (!name.size)
		return;
	builder_text(answer, NULL, name.bytes, name.size);
	builder_text(answer, NULL, file.bytes, file.size);
	builder_int(answer, NULL, FIXNUM_P(line) ? FIX2LONG(line) : 0);
	builder_uint(answer, NULL, function);
	RB_GC_GUARD(label);
	RB_GC_GUARD(path);
}

static void tell_name(struct msgpack_builder *answer, uintptr_t object, uintptr_t body)
{
	builder_array(answer, NULL);
	if (is_still(object, body))
		tell_found(answer, object, body);
	builder_end(answer);
}

static void tell_names(struct msgpack_builder *answer, const char *text)
{
	builder_array(answer, "names");
	while (*text) {
		char *end;
		uintptr_t object = strtoull(text, &end, 16), body;

		if (end == text || *end != ' ')
			break;
		body = strtoull(end + 1, &end, 16);
		tell_name(answer, object, body);
		text = *end == '\n' ? end + 1 : end;
		if (*end != '\n')
			break;
	}
	builder_end(answer);
}

/* This job is such work, too. */
static void tell_own_functions(struct msgpack_builder *answer)
{
	uintptr_t functions[FRAMES_OWN_MAX];
	unsigned count = own_work_functions(functions, FRAMES_OWN_MAX);

	builder_array(answer, "own_functions");
	for (unsigned i = 0; i < count; i++)
		builder_uint(answer, NULL, functions[i]);
	builder_end(answer);
}

static VALUE fill(VALUE argument)
{
	struct asked *asked = (struct asked *)argument;

	asked->frame_words = frame_words_find(rb_thread_current());
	if (!asked->frame_words)
		return Qnil;
	builder_map(&asked->answer, NULL);
	builder_uint(&asked->answer, "frame_words", asked->frame_words);
	tell_own_functions(&asked->answer);
	tell_threads(&asked->answer);
	tell_names(&asked->answer, asked->text);
	builder_end(&asked->answer);
	return Qnil;
}

static void frames_begin(struct request *request, const struct command *command)
{
	struct slice text = command->arguments.text;
	struct asked asked = {0};
	char *copy = text.size <= FRAMES_TEXT_MAX ? strndup(text.bytes, text.size) : NULL;
	int failed = 0;

	if (!copy) {
		request_finish(request, EINVAL, "more addresses than %u bytes", FRAMES_TEXT_MAX);
		return;
	}
	asked.text = copy;
	builder_init(&asked.answer);
	rb_protect(fill, (VALUE)&asked, &failed);
	if (failed) {
		exception_drop(Qnil);
		request_finish(request, EIO, "Ruby does not tell its frames");
	} else if (!asked.frame_words) {
		request_finish(request, ENOSYS, "where this Ruby has its frames was not found");
	} else if (!request_answer(request, &asked.answer)) {
		request_finish(request, ENOMEM, "the process has no memory for an answer");
	} else {
		request_finish(request, 0, "%s", "");
	}
	builder_free(&asked.answer);
	free(copy);
}

const struct request_kind request_frames = {.name = "frames", .begin = frames_begin};
