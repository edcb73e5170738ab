#ifndef RBPROBE_NATIVE_FUNCTION_H
#define RBPROBE_NATIVE_FUNCTION_H

#include "tracer/backtrace/native_unwind.h"

#include <elfutils/libdwfl.h>

/*
 * Where the function at that address begins, and how far it is to the next one: by a table of the module that has all functions,
 * also static ones without a name. Nothing is set where it has none. Only where there is libdw.
 */
void native_function_find(Dwfl_Module *module, Dwarf_Addr pc, struct native_unwind_frame *said);

#endif
