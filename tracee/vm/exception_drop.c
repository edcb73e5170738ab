/* The end of exceptions of our own work. See exception_drop.h. */

#include "tracee/vm/exception_drop.h"

#include "tracee/vm/builtin_find.h"
#include "tracee/vm/quiet.h"

void exception_drop(VALUE before)
{
	VALUE error = rb_errinfo();

	/* Raised without being named: nobody calls its method `exception` then, for which there may be no stack either. */
	if (builtin_find_is_lack(error))
		quiet_raise(Qnil);
	rb_set_errinfo(before);
}
