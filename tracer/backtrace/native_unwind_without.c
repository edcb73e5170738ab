/* Where there is no libdw: native_stacks_take() refuses before. See native_unwind.h. */

#ifndef HAVE_LIBDW

#include "tracer/backtrace/native_unwind.h"

void native_unwind(const struct confined *confined, const void *argument)
{
	(void)confined;
	(void)argument;
}

#endif
