#ifndef RBPROBE_OTLP_METRICS_H
#define RBPROBE_OTLP_METRICS_H

#include "tracer/base/buffer.h"
#include "tracer/stream/stat_table.h"

/* Figures that processes have counted, as metrics of OpenTelemetry. */

/* One table, and of when it is. */
struct otlp_figures {
	const struct stat_table *table;
	const struct buffer *resource; /* packed */
	uint64_t from_ns, to_ns;       /* of the wall clock */
};

struct otlp_metrics {
	bool delta;        /* the tables have what has come since the last time, and not all */
	uint32_t measures; /* what was measured: TRACE_CPU, TRACE_OBJECTS, TRACE_GC */
	bool exponential;  /* the histograms */
	const char *by;    /* what rows of one method differ in; NULL: there is one of each */
};

/*
 * Calls that took up to so long, each; the last bucket has those that took longer. The process has finer buckets, one of which
 * may have calls on both sides of a bound: they are all on that of its middle, which is less than 2 % wrong.
 */
#define OTLP_BOUNDS 24u
#define OTLP_BUCKETS (OTLP_BOUNDS + 1)
extern const double otlp_bounds_s[OTLP_BOUNDS];

/* The calls of a row by these bounds. False: not of all of them is known how long they took. */
bool otlp_spread(const struct stat_row *row, uint64_t counts[OTLP_BUCKETS]);

/*
 * The same for a histogram of base 2: bucket i has the calls of more than base^(offset + i) seconds, up to base^(offset + i + 1),
 * where base is 2^(2^-scale). The scale is the largest for which OTLP_EXPONENTIAL_MAX buckets are enough.
 */
#define OTLP_EXPONENTIAL_MAX 160u /* as SDKs have it */
#define OTLP_SCALE_MAX 5          /* 2.2 %: the process's own buckets are no finer */

struct otlp_exponential {
	int scale, offset;
	size_t count; /* of buckets */
	uint64_t counts[OTLP_EXPONENTIAL_MAX];
};

bool otlp_spread_exponential(const struct stat_row *row, struct otlp_exponential *to);

/* Appends a packed MetricsData, and returns how many data points it has. */
uint64_t otlp_metrics_pack(struct buffer *to, const struct otlp_figures *figures, size_t count,
                           const struct otlp_metrics *wanted);

#endif
