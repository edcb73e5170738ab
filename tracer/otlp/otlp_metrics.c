/* Metrics of OTLP. See otlp_metrics.h. */

#ifdef HAVE_LIBPROTOBUF_C

#include "tracer/otlp/otlp_metrics.h"

#include "proto/names.h"
#include "proto/wire.h"
#include "tracer/otlp/otlp_attributes.h"

#include <stdlib.h>

#define TEMPORALITY_DELTA 1
#define TEMPORALITY_CUMULATIVE 2
#define ROW_ATTRIBUTES 2u

/* --- What each metric has of a row */

enum kind { SUM_INT, SUM_REAL, GAUGE_INT };

struct metric {
	const char *name, *description, *unit;
	enum kind kind;
	uint32_t measure; /* there only if that was measured */
	bool timed;       /* there only where times were taken */
	double (*value)(const struct stat_row *row);
};

static double calls(const struct stat_row *row)
{
	return (double)row->calls;
}

static double errors(const struct stat_row *row)
{
	return (double)row->errors;
}

static double self_s(const struct stat_row *row)
{
	return row->self_ns / 1e9;
}

static double let_go(const struct stat_row *row)
{
	return row->let_go;
}

static double cpu_s(const struct stat_row *row)
{
	return row->cpu_ns / 1e9;
}

static double gc_s(const struct stat_row *row)
{
	return row->gc_ns / 1e9;
}

static double objects(const struct stat_row *row)
{
	return row->objects;
}

static const struct metric metrics[] = {
	{"rbprobe.method.calls", "Calls of a method.", "{call}", SUM_INT, 0, false, calls},
	{"rbprobe.method.errors", "Calls that an exception left.", "{call}", SUM_INT, 0, true, errors},
	{"rbprobe.method.self_time", "Time in a method, without that in counted methods inside.", "s", SUM_REAL, 0, true, self_s},
	{"rbprobe.method.cpu_time", "CPU time of the thread in calls of a method.", "s", SUM_REAL, TRACE_CPU, true, cpu_s},
	{"rbprobe.method.gc_time", "Time in the garbage collector in calls of a method.", "s", SUM_REAL, TRACE_GC, true, gc_s},
	{"rbprobe.method.allocations", "Objects allocated in calls of a method.", "{object}", SUM_INT, TRACE_OBJECTS, true,
         objects},
	{"rbprobe.method.let_go", "1: later calls are in no figure, as counting them took more than --max-overhead allows.", "",
         GAUGE_INT, 0, false, let_go},
};

#define METRICS (sizeof(metrics) / sizeof(*metrics))

/* --- One table. All memory of it is let go of at a time. */

struct row_attributes {
	Otlp__KeyValue items[ROW_ATTRIBUTES], *list[ROW_ATTRIBUTES];
	Otlp__AnyValue values[ROW_ATTRIBUTES];
	size_t count;
};

struct row_points {
	struct row_attributes attributes;
	Otlp__NumberDataPoint numbers[METRICS];
	Otlp__HistogramDataPoint histogram;
	uint64_t counts[OTLP_BUCKETS];
	Otlp__ExponentialHistogramDataPoint exponential;
	Otlp__Buckets buckets;
	struct otlp_exponential spread;
};

struct packing {
	Otlp__ResourceMetrics of_resource;
	Otlp__ScopeMetrics of_scope;
	Otlp__Scope scope;
	Otlp__Metric metrics[METRICS + 1], *list[METRICS + 1];
	Otlp__Sum sums[METRICS];
	Otlp__Gauge gauges[METRICS];
	Otlp__Histogram histogram;
	Otlp__ExponentialHistogram exponential;
	Otlp__NumberDataPoint **numbers; /* a list for each metric */
	Otlp__HistogramDataPoint **histograms;
	Otlp__ExponentialHistogramDataPoint **exponentials;
	struct row_points *rows;
};

static ProtobufCBinaryData whole(struct slice text)
{
	return otlp_bytes(text.size ? text.bytes : "", text.size);
}

static void add_attribute(struct row_attributes *to, const char *key, struct slice text)
{
	size_t i = to->count++;

	to->items[i] = (Otlp__KeyValue)OTLP__KEY_VALUE__INIT;
	otlp__any_value__init(&to->values[i]);
	to->items[i].key = otlp_string(key);
	to->items[i].value = &to->values[i];
	to->values[i].value_case = OTLP__ANY_VALUE__VALUE_STRING_VALUE;
	to->values[i].string_value = whole(text);
	to->list[i] = &to->items[i];
}

static void fill_number(Otlp__NumberDataPoint *point, const struct metric *metric, const struct stat_row *row)
{
	double value = metric->value(row);

	if (metric->kind == SUM_REAL) {
		point->value_case = OTLP__NUMBER_DATA_POINT__VALUE_AS_DOUBLE;
		point->as_double = value;
	} else {
		point->value_case = OTLP__NUMBER_DATA_POINT__VALUE_AS_INT;
		point->as_int = (int64_t)value;
	}
}

static void fill_histogram(Otlp__HistogramDataPoint *point, uint64_t *counts, const struct stat_row *row)
{
	point->count = row->calls;
	point->has_sum_case = OTLP__HISTOGRAM_DATA_POINT__HAS_SUM_SUM;
	point->sum = row->total_ns / 1e9;
	if (row->calls) {
		point->has_min_case = OTLP__HISTOGRAM_DATA_POINT__HAS_MIN_MIN;
		point->min = row->min_ns / 1e9;
		point->has_max_case = OTLP__HISTOGRAM_DATA_POINT__HAS_MAX_MAX;
		point->max = row->max_ns / 1e9;
	}
	/* Without buckets it still says how many, and for how long altogether. */
	if (!otlp_spread(row, counts))
		return;
	point->bucket_counts = counts;
	point->n_bucket_counts = OTLP_BUCKETS;
	point->explicit_bounds = (double *)(uintptr_t)otlp_bounds_s;
	point->n_explicit_bounds = OTLP_BOUNDS;
}

/* False: there is no such point. Its count has to be the sum of its buckets, and not all calls are in one. */
static bool fill_exponential(struct row_points *points, const struct stat_row *row)
{
	Otlp__ExponentialHistogramDataPoint *point = &points->exponential;

	if (!otlp_spread_exponential(row, &points->spread))
		return false;
	point->count = row->calls;
	point->has_sum_case = OTLP__EXPONENTIAL_HISTOGRAM_DATA_POINT__HAS_SUM_SUM;
	point->sum = row->total_ns / 1e9;
	if (row->calls) {
		point->has_min_case = OTLP__EXPONENTIAL_HISTOGRAM_DATA_POINT__HAS_MIN_MIN;
		point->min = row->min_ns / 1e9;
		point->has_max_case = OTLP__EXPONENTIAL_HISTOGRAM_DATA_POINT__HAS_MAX_MAX;
		point->max = row->max_ns / 1e9;
	}
	points->buckets = (Otlp__Buckets)OTLP__BUCKETS__INIT;
	points->buckets.offset = points->spread.offset;
	points->buckets.bucket_counts = points->spread.counts;
	points->buckets.n_bucket_counts = points->spread.count;
	point->scale = points->spread.scale;
	point->positive = &points->buckets;
	return true;
}

static bool has(const struct metric *metric, const struct stat_row *row)
{
	return (row->timed || !metric->timed) && (!metric->measure || row->measures & metric->measure);
}

/* The points of a row, each in the list of its metric. Returns how many. */
static uint64_t add_row(struct packing *packing, size_t number, const struct otlp_figures *figures,
                        const struct otlp_metrics *wanted)
{
	const struct stat_row *row = &figures->table->rows[number];
	struct row_points *points = &packing->rows[number];
	uint64_t count = 0;

	add_attribute(&points->attributes, "code.function.name", row->name);
	if (wanted->by && row->key.size)
		add_attribute(&points->attributes, "rbprobe.key", row->key);
	for (size_t i = 0; i < METRICS; i++) {
		Otlp__NumberDataPoint *point = &points->numbers[i];
		size_t *used = metrics[i].kind == GAUGE_INT ? &packing->gauges[i].n_data_points : &packing->sums[i].n_data_points;

		if (!has(&metrics[i], row))
			continue;
		*point = (Otlp__NumberDataPoint)OTLP__NUMBER_DATA_POINT__INIT;
		point->attributes = points->attributes.list;
		point->n_attributes = points->attributes.count;
		point->start_time_unix_nano = figures->from_ns;
		point->time_unix_nano = figures->to_ns;
		fill_number(point, &metrics[i], row);
		packing->numbers[i * figures->table->count + (*used)++] = point;
		count++;
	}
	if (!row->timed)
		return count;
	if (wanted->exponential) {
		points->exponential = (Otlp__ExponentialHistogramDataPoint)OTLP__EXPONENTIAL_HISTOGRAM_DATA_POINT__INIT;
		points->exponential.attributes = points->attributes.list;
		points->exponential.n_attributes = points->attributes.count;
		points->exponential.start_time_unix_nano = figures->from_ns;
		points->exponential.time_unix_nano = figures->to_ns;
		if (!fill_exponential(points, row))
			return count;
		packing->exponentials[packing->exponential.n_data_points++] = &points->exponential;
		return count + 1;
	}
	points->histogram = (Otlp__HistogramDataPoint)OTLP__HISTOGRAM_DATA_POINT__INIT;
	points->histogram.attributes = points->attributes.list;
	points->histogram.n_attributes = points->attributes.count;
	points->histogram.start_time_unix_nano = figures->from_ns;
	points->histogram.time_unix_nano = figures->to_ns;
	fill_histogram(&points->histogram, points->counts, row);
	packing->histograms[packing->histogram.n_data_points++] = &points->histogram;
	return count + 1;
}

static void add_metric(struct packing *packing, const char *name, const char *description, const char *unit)
{
	size_t i = packing->of_scope.n_metrics++;
	Otlp__Metric *metric = &packing->metrics[i];

	*metric = (Otlp__Metric)OTLP__METRIC__INIT;
	metric->name = otlp_string(name);
	metric->description = otlp_string(description);
	metric->unit = otlp_string(unit);
	packing->list[i] = metric;
}

/* Those that have points. */
static void add_metrics(struct packing *packing, size_t rows)
{
	Otlp__Metric *duration;

	for (size_t i = 0; i < METRICS; i++) {
		bool is_gauge = metrics[i].kind == GAUGE_INT;
		size_t count = is_gauge ? packing->gauges[i].n_data_points : packing->sums[i].n_data_points;
		Otlp__Metric *metric = &packing->metrics[packing->of_scope.n_metrics];

		if (!count)
			continue;
		add_metric(packing, metrics[i].name, metrics[i].description, metrics[i].unit);
		packing->sums[i].data_points = packing->gauges[i].data_points = &packing->numbers[i * rows];
		metric->data_case = is_gauge ? OTLP__METRIC__DATA_GAUGE : OTLP__METRIC__DATA_SUM;
		if (is_gauge)
			metric->gauge = &packing->gauges[i];
		else
			metric->sum = &packing->sums[i];
	}
	if (!packing->histogram.n_data_points && !packing->exponential.n_data_points)
		return;
	add_metric(packing, "rbprobe.method.duration", "How long calls of a method took.", "s");
	duration = packing->list[packing->of_scope.n_metrics - 1];
	if (packing->exponential.n_data_points) {
		duration->data_case = OTLP__METRIC__DATA_EXPONENTIAL_HISTOGRAM;
		duration->exponential_histogram = &packing->exponential;
	} else {
		duration->data_case = OTLP__METRIC__DATA_HISTOGRAM;
		duration->histogram = &packing->histogram;
	}
}

static uint64_t fill(struct packing *packing, const struct otlp_figures *figures, const struct otlp_metrics *wanted)
{
	int32_t temporality = wanted->delta ? TEMPORALITY_DELTA : TEMPORALITY_CUMULATIVE;
	size_t rows = figures->table->count;
	uint64_t count = 0;

	packing->of_resource = (Otlp__ResourceMetrics)OTLP__RESOURCE_METRICS__INIT;
	packing->of_scope = (Otlp__ScopeMetrics)OTLP__SCOPE_METRICS__INIT;
	packing->scope = (Otlp__Scope)OTLP__SCOPE__INIT;
	packing->histogram = (Otlp__Histogram)OTLP__HISTOGRAM__INIT;
	packing->exponential = (Otlp__ExponentialHistogram)OTLP__EXPONENTIAL_HISTOGRAM__INIT;
	packing->numbers = memory_zeroed((METRICS * rows + 1) * sizeof(Otlp__NumberDataPoint *));
	packing->histograms = memory_zeroed((rows + 1) * sizeof(Otlp__HistogramDataPoint *));
	packing->exponentials = memory_zeroed((rows + 1) * sizeof(Otlp__ExponentialHistogramDataPoint *));
	packing->rows = memory_zeroed((rows + 1) * sizeof(*packing->rows));
	for (size_t i = 0; i < METRICS; i++) {
		packing->sums[i] = (Otlp__Sum)OTLP__SUM__INIT;
		packing->sums[i].aggregation_temporality = temporality;
		packing->sums[i].is_monotonic = true;
		packing->gauges[i] = (Otlp__Gauge)OTLP__GAUGE__INIT;
	}
	for (size_t i = 0; i < rows; i++)
		count += add_row(packing, i, figures, wanted);
	packing->histogram.aggregation_temporality = temporality;
	packing->histogram.data_points = packing->histograms;
	packing->exponential.aggregation_temporality = temporality;
	packing->exponential.data_points = packing->exponentials;
	packing->scope.name = otlp_string("rbprobe");
	packing->scope.version = otlp_string(RBPROBE_VERSION);
	packing->of_scope.scope = &packing->scope;
	packing->of_scope.metrics = packing->list;
	add_metrics(packing, rows);
	packing->of_resource.resource = otlp_bytes(figures->resource->bytes, figures->resource->size);
	packing->of_resource.scope_metrics = &packing->of_scope;
	return count;
}

uint64_t otlp_metrics_pack(struct buffer *to, const struct otlp_figures *figures, size_t count, const struct otlp_metrics *wanted)
{
	Otlp__MetricsData data = OTLP__METRICS_DATA__INIT;
	struct packing *packings = memory_zeroed((count + 1) * sizeof(*packings));
	Otlp__ResourceMetrics **list = memory_zeroed((count + 1) * sizeof(Otlp__ResourceMetrics *));
	uint64_t points = 0;

	for (size_t i = 0; i < count; i++) {
		points += fill(&packings[i], &figures[i], wanted);
		list[i] = &packings[i].of_resource;
	}
	data.resource_metrics = list;
	data.n_resource_metrics = count;
	otlp_pack(to, &data.base);
	for (size_t i = 0; i < count; i++) {
		free(packings[i].numbers);
		free(packings[i].histograms);
		free(packings[i].exponentials);
		free(packings[i].rows);
	}
	free(packings);
	free(list);
	return points;
}

#endif
