/*
 * Room on the VM's stack. See stack_room.h. A method of Ruby's in C tells whose block calls it again: the VM pushes a frame for
 * each call and each block. A Proc would do as well, but in a job its outer scope is the method that was interrupted (see
 * builtin_iterate()).
 */

#include "tracee/vm/stack_room.h"

#include "proto/clock.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/own.h"

#include <ruby.h>
#include <ruby/debug.h>

#define FRAMES 100 /* one in the other: more than any work of ours has */
#define FRAMES_A_CALL 2
#define METHOD "each_index"
/* To find out that there is none takes long: the exception has a backtrace of thousands. The process gets so many times that. */
#define PAUSE_SHARE 10
/* Of Ruby's own stacks none is full with so few frames; those of fibers have room for some 1200. */
#define FRAMES_DEEP 1000

static VALUE array; /* of one element */
static uint64_t lacked_ns, lacks_until_ns;

static VALUE descend(RB_BLOCK_CALL_FUNC_ARGLIST(unused, left))
{
	long after = FIX2LONG(left) - FRAMES_A_CALL;

	(void)unused;
	(void)argc;
	(void)argv;
	(void)blockarg;
	return after > 0 ? rb_block_call(array, rb_intern(METHOD), 0, NULL, descend, LONG2FIX(after)) : Qnil;
}

static VALUE begin(VALUE unused)
{
	if (!array) {
		own_register(&array);
		array = rb_ary_new_from_args(1, Qnil);
	}
	return descend(unused, LONG2FIX(FRAMES + FRAMES_A_CALL), 0, NULL, Qnil);
}

/* Takes some microseconds, and no room. Asked to skip frames, rb_profile_frames() does not before 3.4, and always finds one. */
static bool is_deep(void)
{
	static VALUE frames[FRAMES_DEEP]; /* nobody looks at them */
	static int lines[FRAMES_DEEP];

	return rb_profile_frames(0, FRAMES_DEEP, frames, lines) == FRAMES_DEEP;
}

bool stack_room_is_known_to_lack(void)
{
	return lacks_until_ns && clock_now_ns() < lacks_until_ns && is_deep();
}

bool stack_room_lacked_since(uint64_t began_ns)
{
	return lacked_ns >= began_ns;
}

void stack_room_note_lack(uint64_t began_ns)
{
	lacked_ns = clock_now_ns();
	lacks_until_ns = lacked_ns + (lacked_ns - began_ns) * PAUSE_SHARE;
}

bool stack_room_is_enough(void)
{
	VALUE before = rb_errinfo();
	uint64_t began_ns = clock_now_ns();
	int failed = 0;

	if (stack_room_is_known_to_lack())
		return false;
	/* The application's own would be run. What there is no room for then fails, and says so. */
	if (!rb_method_basic_definition_p(rb_cArray, rb_intern(METHOD)))
		return true;
	rb_protect(begin, Qnil, &failed);
	if (!failed)
		return true;
	exception_drop(before);
	stack_room_note_lack(began_ns);
	return false;
}
