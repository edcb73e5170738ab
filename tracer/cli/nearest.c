/* Which name was probably meant. See nearest.h. */

#include "tracer/cli/nearest.h"

#include <string.h>

#define NAME_MAX_SIZE 40u /* longer ones are like no other */

/* How many letters are to be changed, added, left out or swapped with their neighbour. */
static unsigned distance(const char *one, size_t one_size, const char *other, size_t other_size)
{
	unsigned rows[3][NAME_MAX_SIZE + 1] = {{0}};

	for (size_t j = 0; j <= other_size; j++)
		rows[0][j] = (unsigned)j;
	for (size_t i = 1; i <= one_size; i++) {
		unsigned *row = rows[i % 3];
		const unsigned *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= other_size; j++) {
			unsigned least = above[j - 1] + (one[i - 1] != other[j - 1]);

			if (above[j] + 1 < least)
				least = above[j] + 1;
			if (row[j - 1] + 1 < least)
				least = row[j - 1] + 1;
			if (i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] &&
			    two_above[j - 2] + 1 < least)
				least = two_above[j - 2] + 1;
			row[j] = least;
		}
	}
	return rows[one_size % 3][other_size];
}

void nearest_begin(struct nearest *nearest, const char *written, size_t size)
{
	*nearest = (struct nearest){.written = written, .size = size, .distance = (unsigned)(size + 5) / 3};
}

void nearest_consider(struct nearest *nearest, const char *name)
{
	size_t size = strlen(name);
	unsigned far;

	if (nearest->size > NAME_MAX_SIZE || size > NAME_MAX_SIZE)
		return;
	far = distance(nearest->written, nearest->size, name, size);
	if (far >= nearest->distance)
		return;
	nearest->distance = far;
	nearest->found = name;
}
