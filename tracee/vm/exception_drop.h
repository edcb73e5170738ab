#ifndef RBPROBE_EXCEPTION_DROP_H
#define RBPROBE_EXCEPTION_DROP_H

#include <ruby.h>

/*
 * Of an exception that ended in rb_protect(): `$!` is what it was before, or Qnil.
 *
 * Where the thread had no stack or memory left, the VM marks it (raised_flag of vm_core.h, 2.7 to 4.1-dev), and as long as the
 * mark is there the thread takes no interrupts: no signal, no job, no other thread's turn. Ruby code that rescues takes the mark
 * away, rb_protect() does not, and raising anything does. So that is done. GVL held; raises nothing.
 */
void exception_drop(VALUE before);

#endif
