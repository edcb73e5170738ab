/* Which name was probably meant. See nearest.h. */

#include "tracer/cli/nearest.h"

#include "proto/name_distance.h"

#include <string.h>

void nearest_begin(struct nearest *nearest, const char *written, size_t size)
{
	*nearest = (struct nearest){.written = written, .size = size, .distance = (unsigned)(size + 5) / 3};
}

void nearest_consider(struct nearest *nearest, const char *name)
{
	unsigned far = name_distance((struct slice){nearest->written, nearest->size}, (struct slice){name, strlen(name)});

	if (far >= nearest->distance)
		return;
	nearest->distance = far;
	nearest->found = name;
}
