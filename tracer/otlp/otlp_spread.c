/* Times of calls by the bounds of OTLP's histograms. See otlp_metrics.h. */

#include "tracer/otlp/otlp_metrics.h"

#include <math.h>
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

/* A bucket has its upper bound, not its lower one. */
static int index_of(const struct stat_bucket *bucket, int scale)
{
	double middle_s = (bucket->least_ns + bucket->most_ns) / 2e9;

	/* Nothing takes less than what the clock can tell. */
	return (int)ceil(ldexp(log2(middle_s > 1e-9 ? middle_s : 1e-9), scale)) - 1;
}

/* The first and the last bucket of a scale; false: no call has a time. */
static bool find_range(const struct stat_row *row, int scale, int *first, int *last)
{
	bool found = false;

	for (size_t i = 0; i < row->bucket_count; i++) {
		int index = index_of(&row->buckets[i], scale);

		if (!row->buckets[i].count)
			continue;
		*first = !found || index < *first ? index : *first;
		*last = !found || index > *last ? index : *last;
		found = true;
	}
	return found;
}

bool otlp_spread_exponential(const struct stat_row *row, struct otlp_exponential *to)
{
	uint64_t sum = 0;
	int first, last;
	bool any;

	*to = (struct otlp_exponential){.scale = OTLP_SCALE_MAX};
	while ((any = find_range(row, to->scale, &first, &last)) && last - first >= (int)OTLP_EXPONENTIAL_MAX)
		to->scale--;
	if (any) {
		to->offset = first;
		to->count = (size_t)(last - first) + 1;
	}
	for (size_t i = 0; i < row->bucket_count; i++) {
		if (!row->buckets[i].count)
			continue;
		to->counts[index_of(&row->buckets[i], to->scale) - to->offset] += row->buckets[i].count;
		sum += row->buckets[i].count;
	}
	return sum == row->calls;
}
