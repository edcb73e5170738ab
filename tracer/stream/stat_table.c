/* Figures of methods, as a process sends them. See stat_table.h. */

#include "tracer/stream/stat_table.h"

#include "proto/histogram.h"
#include "proto/wire.h"
#include "tracer/base/buffer.h"
#include "tracer/base/value.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A process that makes us remember more is none that speaks the truth: all the counters that one has take some 64 MiB. */
#define TABLE_SIZE_MAX (128u << 20)

static double lesser(double one, double other)
{
	return one < other ? one : other;
}

static double greater(double one, double other)
{
	return one > other ? one : other;
}

static void row_free(struct stat_row *row)
{
	free((char *)row->name.bytes);
	free((char *)row->key.bytes);
	free(row->buckets);
}

static size_t row_size(const struct stat_row *row)
{
	return sizeof(*row) + row->name.size + row->key.size + row->bucket_count * sizeof(*row->buckets);
}

void stat_table_free(struct stat_table *table)
{
	for (size_t i = 0; i < table->count; i++)
		row_free(&table->rows[i]);
	free(table->rows);
	*table = (struct stat_table){0};
}

static struct slice copy_of(struct slice text)
{
	char *copy = memory_resize(NULL, text.size + 1);

	if (text.size)
		memcpy(copy, text.bytes, text.size);
	return (struct slice){copy, text.size};
}

static struct stat_row *new_row(struct stat_table *table, struct slice name, struct slice key)
{
	struct stat_row *row;

	if ((table->count & (table->count - 1)) == 0)
		table->rows = memory_resize(table->rows, (table->count ? 2 * table->count : 1) * sizeof(*table->rows));
	row = &table->rows[table->count++];
	*row = (struct stat_row){.name = copy_of(name), .key = copy_of(key)};
	return row;
}

static int compare_texts(struct slice a, struct slice b)
{
	int order = memcmp(a.bytes, b.bytes, a.size < b.size ? a.size : b.size);

	return order ? order : (a.size > b.size) - (a.size < b.size);
}

static int compare_names(const void *one, const void *other)
{
	const struct stat_row *a = one, *b = other;
	int order = compare_texts(a->name, b->name);

	return order ? order : compare_texts(a->key, b->key);
}

static int compare_buckets(const void *one, const void *other)
{
	const struct stat_bucket *a = one, *b = other;

	return (a->least_ns > b->least_ns) - (a->least_ns < b->least_ns);
}

/* In order, and each but once. */
static void settle_buckets(struct stat_row *row)
{
	size_t kept = 0;

	if (row->bucket_count)
		qsort(row->buckets, row->bucket_count, sizeof(*row->buckets), compare_buckets);
	for (size_t i = 0; i < row->bucket_count; i++) {
		if (kept && compare_buckets(&row->buckets[kept - 1], &row->buckets[i]) == 0)
			row->buckets[kept - 1].count += row->buckets[i].count;
		else
			row->buckets[kept++] = row->buckets[i];
	}
	row->bucket_count = kept;
}

/* Adds one method's figures to another row of it, whose buckets are to be settled then. */
static void row_add(struct stat_row *to, const struct stat_row *from)
{
	if (!to->let_go_ns || !from->let_go_ns)
		to->let_go_ns = 0;
	else if (from->let_go_ns > to->let_go_ns)
		to->let_go_ns = from->let_go_ns;
	to->let_go = to->let_go || from->let_go;
	to->method = from->method > to->method ? from->method : to->method;
	to->calls += from->calls;
	to->counted_ns = from->counted_ns > to->counted_ns ? from->counted_ns : to->counted_ns;
	to->errors += from->errors;
	to->total_ns += from->total_ns;
	to->self_ns += from->self_ns;
	to->unplaced += from->unplaced;
	to->folded += from->folded;
	to->is_node = to->is_node || from->is_node;
	to->cpu_ns += from->cpu_ns;
	to->objects += from->objects;
	to->gc_ns += from->gc_ns;
	to->unmeasured += from->unmeasured;
	to->measures |= from->measures;
	if (!from->timed)
		return;
	to->min_ns = !to->timed || from->min_ns < to->min_ns ? from->min_ns : to->min_ns;
	to->max_ns = greater(to->max_ns, from->max_ns);
	to->timed = true;
	if (from->bucket_count) {
		to->buckets = memory_resize(to->buckets, (to->bucket_count + from->bucket_count) * sizeof(*to->buckets));
		memcpy(to->buckets + to->bucket_count, from->buckets, from->bucket_count * sizeof(*to->buckets));
		to->bucket_count += from->bucket_count;
	}
}

/* Rows by name; a method that was defined anew comes once for each definition. */
static void settle_rows(struct stat_table *table)
{
	size_t kept = 0;

	if (table->count)
		qsort(table->rows, table->count, sizeof(*table->rows), compare_names);
	for (size_t i = 0; i < table->count; i++) {
		if (kept && compare_names(&table->rows[kept - 1], &table->rows[i]) == 0) {
			row_add(&table->rows[kept - 1], &table->rows[i]);
			row_free(&table->rows[i]);
		} else {
			table->rows[kept++] = table->rows[i];
		}
	}
	table->count = kept;
	for (size_t i = 0; i < kept; i++)
		settle_buckets(&table->rows[i]);
}

static void to_ns(struct stat_row *row, double rate)
{
	row->total_ns *= rate;
	row->self_ns *= rate;
	row->min_ns *= rate;
	row->max_ns *= rate;
	for (size_t i = 0; i < row->bucket_count; i++) {
		struct stat_bucket *bucket = &row->buckets[i];
		double least = (double)histogram_least(bucket->number);

		bucket->least_ns = least * rate;
		bucket->most_ns = (least + (double)histogram_width(bucket->number)) * rate;
	}
}

static void add_buckets(struct stat_row *row, const msgpack_object *pairs)
{
	uint32_t count = value_count(pairs) / 2;

	if (count > HISTOGRAM_BUCKETS)
		count = HISTOGRAM_BUCKETS;
	row->buckets = count ? memory_resize(NULL, count * sizeof(*row->buckets)) : NULL;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t number = value_uint(value_at(pairs, 2 * i)), calls = value_uint(value_at(pairs, 2 * i + 1));

		if (number < HISTOGRAM_BUCKETS && calls)
			row->buckets[row->bucket_count++] = (struct stat_bucket){.number = (uint32_t)number, .count = calls};
	}
}

static double measured(struct stat_row *row, const msgpack_object *from, const char *key, uint32_t flag)
{
	const msgpack_object *number = value_get(from, key);

	row->measures |= number ? flag : 0;
	return (double)value_uint(number);
}

static void add_figures(struct stat_row *row, const msgpack_object *from)
{
	row->method = (uint32_t)value_uint(value_get(from, "method"));
	row->calls = value_uint(value_get(from, "calls"));
	row->let_go = value_get(from, "let_go_ns") != NULL;
	row->let_go_ns = value_uint(value_get(from, "let_go_ns"));
	row->timed = value_get(from, "total") != NULL;
	row->errors = value_uint(value_get(from, "errors"));
	row->total_ns = (double)value_uint(value_get(from, "total"));
	row->self_ns = (double)value_uint(value_get(from, "self"));
	row->min_ns = (double)value_uint(value_get(from, "min"));
	row->max_ns = (double)value_uint(value_get(from, "max"));
	row->unplaced = value_uint(value_get(from, "unplaced"));
	row->folded = value_uint(value_get(from, "folded"));
	row->cpu_ns = measured(row, from, "cpu_ns", TRACE_CPU);
	row->objects = measured(row, from, "objects", TRACE_OBJECTS);
	row->gc_ns = measured(row, from, "gc_ns", TRACE_GC);
	row->unmeasured = value_uint(value_get(from, "unmeasured"));
	row->is_node = value_get(from, "parent") != NULL;
	add_buckets(row, value_get(from, "histogram"));
}

static void add_shares(struct stat_table *table, const msgpack_object *piece)
{
	const msgpack_object *gc = value_get(piece, "gc_total_ns"), *gvl = value_get(piece, "gvl_ns");

	table->gc_known = gc != NULL;
	table->gc_total_ns = value_uint(gc);
	table->gvl_known = value_count(gvl) >= 2;
	table->gvl_waiting_ns = value_uint(value_at(gvl, 0));
	table->gvl_holding_ns = value_uint(value_at(gvl, 1));
}

static void complete(struct stat_table *table, const msgpack_object *piece)
{
	double rate = (double)value_uint(value_get(piece, "rate")) / 4294967296.0;

	for (size_t i = 0; i < table->count; i++)
		to_ns(&table->rows[i], rate);
	settle_rows(table);
	table->elapsed_ns = value_uint(value_get(piece, "elapsed_ns"));
	table->open = value_uint(value_get(piece, "open"));
	table->left_out = value_uint(value_get(piece, "left_out"));
	table->folded = value_uint(value_get(piece, "folded"));
	table->full = value_bool(value_get(piece, "full"));
	add_shares(table, piece);
	table->complete = true;
}

/* What tells rows of one method apart. parent: in a tree, the row around it, or NULL. */
static void add_key(struct buffer *key, const msgpack_object *figures, struct slice name, const struct stat_row *parent)
{
	struct slice text = value_text(value_get(figures, "key"));

	if (!value_get(figures, "parent")) {
		buffer_add_printable(key, text.bytes, text.size);
		return;
	}
	if (parent) {
		buffer_add_slice(key, parent->key);
		buffer_add_char(key, STAT_PATH_SEPARATOR);
	}
	buffer_add_slice(key, name);
}

int stat_table_add(struct stat_table *table, const msgpack_object *piece, stat_name_of *name_of, const void *owner,
                   struct error *err)
{
	const msgpack_object *methods = value_get(piece, "methods");

	for (uint32_t i = 0; i < value_count(methods); i++) {
		const msgpack_object *figures = value_at(methods, i);
		uint64_t number = value_uint(value_get(figures, "method"));
		uint64_t parent = value_uint(value_get(figures, "parent"));
		struct buffer key = {0};
		struct slice name = number <= UINT32_MAX ? name_of(owner, (uint32_t)number) : (struct slice){NULL, 0};

		if (!name.bytes)
			return error_set(err, -EPROTO, "malformed stream: figures of a method (%llu) that was not announced",
			                 (unsigned long long)number);
		if (parent > table->count)
			return error_set(err, -EPROTO, "malformed stream: figures below some (%llu) that were not sent",
			                 (unsigned long long)parent);
		add_key(&key, figures, name, parent ? &table->rows[parent - 1] : NULL);
		add_figures(new_row(table, name, (struct slice){key.bytes, key.size}), figures);
		buffer_free(&key);
		table->size += row_size(&table->rows[table->count - 1]);
		if (table->size > TABLE_SIZE_MAX)
			return error_set(err, -EPROTO, "malformed stream: figures of more than %u MiB", TABLE_SIZE_MAX >> 20);
	}
	if (value_get(piece, "rate"))
		complete(table, piece);
	return 0;
}

uint64_t stat_table_folded(const struct stat_table *table)
{
	uint64_t folded = table->folded;

	for (size_t i = 0; i < table->count; i++)
		folded += table->rows[i].folded;
	return folded;
}

const struct stat_row *stat_table_find(const struct stat_table *table, struct slice name, struct slice key)
{
	const struct stat_row wanted = {.name = name, .key = key};

	return table->count ? bsearch(&wanted, table->rows, table->count, sizeof(wanted), compare_names) : NULL;
}

uint64_t stat_table_calls(const struct stat_table *table)
{
	uint64_t calls = table->open + stat_table_folded(table);

	for (size_t i = 0; i < table->count; i++)
		calls += table->rows[i].calls;
	return calls;
}

void stat_table_rate(struct stat_table *table)
{
	for (size_t i = 0; i < table->count; i++) {
		struct stat_row *row = &table->rows[i];
		uint64_t ns = row->let_go && row->let_go_ns ? row->let_go_ns : table->elapsed_ns;

		row->rate = ns ? (double)row->calls * 1e9 / (double)ns : 0;
	}
}

void stat_table_sum(struct stat_table *to, const struct stat_table *from)
{
	for (size_t i = 0; i < from->count; i++) {
		struct stat_row *row = new_row(to, from->rows[i].name, from->rows[i].key);

		row->let_go_ns = from->rows[i].let_go_ns;
		row_add(row, &from->rows[i]);
	}
	settle_rows(to);
	to->processes += from->processes;
	to->open += from->open;
	to->outdated = to->outdated || from->outdated;
	to->left_out += from->left_out;
	to->lost += from->lost;
	to->folded += from->folded;
	to->elapsed_ns = from->elapsed_ns > to->elapsed_ns ? from->elapsed_ns : to->elapsed_ns;
	to->full = to->full || from->full;
	to->complete = true;
}

/* *at: where to look; it only moves on, as those that are asked for ascend as well. */
static uint64_t count_before(const struct stat_row *row, uint32_t number, size_t *at)
{
	while (*at < row->bucket_count && row->buckets[*at].number < number)
		++*at;
	return *at < row->bucket_count && row->buckets[*at].number == number ? row->buckets[*at].count : 0;
}

static uint64_t less(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

static void row_subtract(struct stat_row *row, const struct stat_row *before)
{
	double min_ns = row->min_ns, max_ns = row->max_ns;
	size_t kept = 0, at = 0;

	row->calls = less(row->calls, before->calls);
	row->counted_ns = less(row->counted_ns, before->counted_ns);
	row->errors = less(row->errors, before->errors);
	row->total_ns = greater(row->total_ns - before->total_ns, 0);
	row->self_ns = greater(row->self_ns - before->self_ns, 0);
	row->unplaced = less(row->unplaced, before->unplaced);
	row->folded = less(row->folded, before->folded);
	row->cpu_ns = greater(row->cpu_ns - before->cpu_ns, 0);
	row->objects = greater(row->objects - before->objects, 0);
	row->gc_ns = greater(row->gc_ns - before->gc_ns, 0);
	row->unmeasured = less(row->unmeasured, before->unmeasured);
	for (size_t i = 0; i < row->bucket_count; i++) {
		struct stat_bucket bucket = row->buckets[i];

		bucket.count = less(bucket.count, count_before(before, bucket.number, &at));
		if (bucket.count)
			row->buckets[kept++] = bucket;
	}
	row->bucket_count = kept;
	row->min_ns = kept ? greater(row->buckets[0].least_ns, min_ns) : min_ns;
	row->max_ns = kept ? lesser(row->buckets[kept - 1].most_ns, max_ns) : max_ns;
}

struct stat_table stat_table_since(const struct stat_table *now, const struct stat_table *before)
{
	struct stat_table since = {.pid = now->pid};
	size_t kept = 0;

	stat_table_sum(&since, now);
	since.folded = less(now->folded, before->folded);
	since.elapsed_ns = less(now->elapsed_ns, before->elapsed_ns);
	for (size_t i = 0; i < since.count; i++) {
		struct stat_row *row = &since.rows[i];
		const struct stat_row *earlier = stat_table_find(before, row->name, row->key);

		if (earlier)
			row_subtract(row, earlier);
		row->let_go_ns = less(row->let_go_ns, before->elapsed_ns);
		/* One without calls may have others below it. Of one that was let go nobody knows whether it has any. */
		if (row->calls || row->is_node || row->let_go)
			since.rows[kept++] = *row;
		else
			row_free(row);
	}
	since.count = kept;
	return since;
}

double stat_row_quantile(const struct stat_row *row, double part)
{
	uint64_t count = 0, rank, seen = 0;

	for (size_t i = 0; i < row->bucket_count; i++)
		count += row->buckets[i].count;
	rank = (uint64_t)(part * (double)count);
	rank += (double)rank < part * (double)count;
	for (size_t i = 0; i < row->bucket_count; i++) {
		const struct stat_bucket *bucket = &row->buckets[i];

		seen += bucket->count;
		if (seen >= rank)
			return lesser(greater((bucket->least_ns + bucket->most_ns) / 2, row->min_ns), row->max_ns);
	}
	return row->max_ns;
}

double stat_row_mean(const struct stat_row *row)
{
	return row->calls ? row->total_ns / (double)row->calls : 0;
}

void stat_time_text(char text[16], double ns)
{
	static const struct {
		double ns;
		const char *name;
	} units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
	size_t unit = 0;
	double number;

	/* What would be rounded up to 1000 of a unit is 1 of the next. */
	while (unit < 3 && ns < units[unit].ns * 0.9995)
		unit++;
	number = ns / units[unit].ns;
	snprintf(text, 16, "%.*f%s",
	         unit == 3 || number >= 99.95 ? 0
	         : number >= 9.995            ? 1
	                                      : 2,
	         number < 1e9 ? number : 1e9, units[unit].name);
}
