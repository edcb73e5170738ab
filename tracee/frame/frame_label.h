#ifndef RBPROBE_FRAME_LABEL_H
#define RBPROBE_FRAME_LABEL_H

#include "tracee/base/text.h"

#include <ruby.h>

/*
 * The name of a frame that rb_profile_frames() has given, with the class: "Order#save", "block in Order#save". As
 * rb_profile_frame_full_label() has it, but nothing of Ruby's is allocated or called, so also where an object is made.
 * Without the class where the frame is in no method, or where the process has not shown where a method entry has its owner
 * (frame_direct.h).
 */
void frame_label_add(struct text *text, VALUE frame);

#endif
