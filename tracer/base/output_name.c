/* A file's name with the PID in it. See output_name.h. */

#include "tracer/base/output_name.h"

#include "tracer/base/buffer.h"

bool output_name_is_valid(const char *name)
{
	for (; *name; name++)
		if (*name == '%' && *++name != 'p' && *name != '%')
			return false;
	return true;
}

bool output_name_has_pid(const char *name)
{
	for (; *name; name++)
		if (*name == '%' && name[1] && *++name == 'p')
			return true;
	return false;
}

char *output_name_of(const char *name, pid_t pid)
{
	struct buffer text = {0};

	for (; *name; name++) {
		if (*name == '%' && name[1] == 'p')
			buffer_add_format(&text, "%d", (int)pid);
		else
			buffer_add_char(&text, *name);
		if (*name == '%' && name[1])
			name++;
	}
	buffer_add_char(&text, '\0');
	return text.bytes;
}
