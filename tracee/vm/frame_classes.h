#ifndef RBPROBE_FRAME_CLASSES_H
#define RBPROBE_FRAME_CLASSES_H

#include <ruby.h>

/*
 * The classes in a thread's frames. From Ruby 3.4 on, labels have them ("Order#save"); before, they are taken from what the VM
 * tells profilers, for the same frames at the same moment. Job context, GVL held, under rb_protect.
 */

/*
 * An Array with an element for each of the thread's locations (Thread#backtrace_locations): its label with the class, or nil
 * where that is not known. Qnil: none is known. first: how many of them, the innermost, are of no interest.
 */
VALUE frame_classes(VALUE thread, VALUE locations, long first);

#endif
