#ifndef RBPROBE_CODE_AROUND_H
#define RBPROBE_CODE_AROUND_H

#include <ruby.h>

/*
 * The local variables around a block, or around code that was given to eval, which that code sees as well. code is a
 * RubyVM::InstructionSequence. Job context, or where code is compiled; GVL held, under rb_protect.
 */

/* Finds out where the VM keeps them, once in a process, after frame_locals_find(). Raises nothing. */
void code_around_find(void);

/* The VM's own object that it stands for; 0: not known. */
uintptr_t code_around_address(VALUE code);

/* The last code that is written directly within it; nil: none. */
VALUE code_around_child(VALUE code);

/* Array of Symbols, the outermost first, perhaps some twice; none where the places are not known. */
VALUE code_around_names(VALUE code);

#endif
