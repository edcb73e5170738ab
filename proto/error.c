/* The one way a failure is described. See error.h. */

#include "proto/error.h"

#include <stdarg.h>
#include <stdio.h>

int error_set(struct error *err, int code, const char *format, ...)
{
	va_list args;

	if (!err)
		return code;
	err->code = code;
	va_start(args, format);
	vsnprintf(err->text, sizeof(err->text), format, args);
	va_end(args);
	return code;
}
