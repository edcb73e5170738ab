/* Times of calls by the bounds of OTLP's histograms. See otlp_metrics.h. */

#include "tracer/otlp/otlp_metrics.h"

#include <string.h>

const double otlp_bounds_s[OTLP_BOUNDS] = {1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3,
                                           1e-2, 2e-2, 5e-2, 0.1,  0.2,  0.5,  1,    2,    5,    10,   20,   50};

bool otlp_spread(const struct stat_row *row, uint64_t counts[OTLP_BUCKETS])
{
	uint64_t sum = 0;

	memset(counts, 0, OTLP_BUCKETS * sizeof(*counts));
	for (size_t i = 0; i < row->bucket_count; i++) {
		const struct stat_bucket *bucket = &row->buckets[i];
		double middle_s = (bucket->least_ns + bucket->most_ns) / 2e9;
		size_t place = 0;

		while (place < OTLP_BOUNDS && middle_s > otlp_bounds_s[place])
			place++;
		counts[place] += bucket->count;
		sum += bucket->count;
	}
	return sum == row->calls;
}
