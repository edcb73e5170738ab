/*
 * Labels with classes. See frame_classes.h.
 *
 * The VM's two lists of frames are put side by side from the outermost frame on. The one for profilers may have more: a block
 * that C code passes to a method counts as that C method once more. On 2.7 it has fewer: no methods written in C. Everything else
 * has to agree, name by name and line by line; where it does not (another thread ran in between), no class is told.
 */

#include "tracee/vm/frame_classes.h"

#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/string_slice.h"

#include <ruby/debug.h>
#include <string.h>

static bool is_c(VALUE frame)
{
	return NIL_P(rb_profile_frame_path(frame));
}

/* "block in save" and Order: "block in Order#save". */
static VALUE label_with_class(VALUE location, VALUE frame)
{
	VALUE class = rb_profile_frame_classpath(frame), label = builtin_call0(BUILTIN_LOCATION_LABEL, location);
	VALUE base = builtin_call0(BUILTIN_LOCATION_BASE_LABEL, location), result;
	bool singleton = RTEST(rb_profile_frame_singleton_method_p(frame));
	long prefix;

	if (!RB_TYPE_P(class, T_STRING) || !RB_TYPE_P(label, T_STRING) || !RB_TYPE_P(base, T_STRING) ||
	    RSTRING_LEN(base) > RSTRING_LEN(label) || RSTRING_PTR(base)[0] == '<')
		return Qnil;
	prefix = RSTRING_LEN(label) - RSTRING_LEN(base);
	result = rb_str_new(RSTRING_PTR(label), prefix);
	rb_str_append(result, class);
	rb_str_cat(result, singleton ? "." : "#", 1);
	rb_str_append(result, base);
	RB_GC_GUARD(label);
	return result;
}

static bool is_same(VALUE location, VALUE frame, int line)
{
	VALUE base = builtin_call0(BUILTIN_LOCATION_BASE_LABEL, location);

	if (is_c(frame))
		return string_same(base, rb_profile_frame_method_name(frame));
	return string_same(base, rb_profile_frame_base_label(frame)) &&
	       (line == 0 || builtin_call0(BUILTIN_LOCATION_LINE, location) == INT2FIX(line));
}

static bool align(VALUE labels, VALUE locations, long first, const VALUE *frames, const int *lines, long count)
{
	bool with_c = compat_thread_frames_with_c();
	long frame = count - 1;

	/* A main thread's outermost frame is a dummy that has no line. */
	if (frame > 0 && !is_c(frames[frame]) && lines[frame] == 0)
		frame--;
	for (long i = RARRAY_LEN(locations) - 1; i >= first; i--) {
		VALUE location = RARRAY_AREF(locations, i);

		while (with_c && frame >= 0 && is_c(frames[frame]) && !is_same(location, frames[frame], lines[frame]))
			frame--;
		if (frame >= 0 && is_same(location, frames[frame], lines[frame])) {
			rb_ary_store(labels, i, label_with_class(location, frames[frame]));
			frame--;
		} else if (with_c) {
			return false;
		}
	}
	return with_c || frame < 0;
}

VALUE frame_classes(VALUE thread, VALUE locations, long first)
{
	VALUE labels, frames_buffer, lines_buffer, *frames;
	int *lines, room, count;
	bool aligned;

	if (!RB_TYPE_P(locations, T_ARRAY) || compat_labels_have_classes())
		return Qnil;
	room = (int)(2 * RARRAY_LEN(locations) + 64);
	labels = rb_ary_new_capa(RARRAY_LEN(locations));
	/* In memory that the GC looks through without moving what it finds: they are no objects of Ruby's. */
	frames = ALLOCV_N(VALUE, frames_buffer, (size_t)room);
	lines = ALLOCV_N(int, lines_buffer, (size_t)room);
	memset(frames, 0, (size_t)room * sizeof(*frames));
	count = compat_thread_frames(thread, room, frames, lines);
	aligned = count > 0 && count < room && align(labels, locations, first, frames, lines, count);
	ALLOCV_END(lines_buffer);
	ALLOCV_END(frames_buffer);
	return aligned ? labels : Qnil;
}
