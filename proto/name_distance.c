/* How much two names differ. See name_distance.h. */

#include "proto/name_distance.h"

#define SIZE_MAX_COMPARED 40u

unsigned name_distance(struct slice one, struct slice other)
{
	unsigned rows[3][SIZE_MAX_COMPARED + 1] = {{0}};

	if (one.size > SIZE_MAX_COMPARED || other.size > SIZE_MAX_COMPARED)
		return NAME_DISTANCE_FAR;
	for (size_t j = 0; j <= other.size; j++)
		rows[0][j] = (unsigned)j;
	for (size_t i = 1; i <= one.size; i++) {
		unsigned *row = rows[i % 3];
		const unsigned *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= other.size; j++) {
			unsigned least = above[j - 1] + (one.bytes[i - 1] != other.bytes[j - 1]);

			if (above[j] + 1 < least)
				least = above[j] + 1;
			if (row[j - 1] + 1 < least)
				least = row[j - 1] + 1;
			if (i > 1 && j > 1 && one.bytes[i - 1] == other.bytes[j - 2] && one.bytes[i - 2] == other.bytes[j - 1] &&
			    two_above[j - 2] + 1 < least)
				least = two_above[j - 2] + 1;
			row[j] = least;
		}
	}
	return rows[one.size % 3][other.size];
}
