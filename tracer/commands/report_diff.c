/* The difference of two recordings. See report_diff.h. */

#include "tracer/commands/report_diff.h"

#include "tracer/base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The normal distribution's value that one in a hundred is beyond, on either side. */
#define NORMAL_99 2.5758293035489

#define MEDIAN_MIN 1.25 /* times as long: a machine is faster or slower by less from one recording to the next */
#define RATE_MIN 1.25   /* times as often: so is what a process is asked to do */

#define CALLS_MIN 5 /* of each recording; fewer say nothing of how times are spread */

enum verdict { VERDICT_SLOWER, VERDICT_FASTER, VERDICT_NEW, VERDICT_GONE, VERDICT_FEW, VERDICT_NOISE };

static const char *const verdicts[] = {[VERDICT_SLOWER] = "slower", [VERDICT_FASTER] = "faster", [VERDICT_NEW] = "new",
                                       [VERDICT_GONE] = "gone",     [VERDICT_FEW] = "too few",   [VERDICT_NOISE] = "noise"};

enum called { CALLED_MORE, CALLED_LESS, CALLED_NOISE, CALLED_NOT_KNOWN };

static const char *const called_words[] = {
	[CALLED_MORE] = "more often", [CALLED_LESS] = "less often", [CALLED_NOISE] = "noise", [CALLED_NOT_KNOWN] = "-"};

struct change {
	const struct stat_row *then, *now; /* NULL: it was not called */
	const struct stat_row *named;      /* one of them */
	enum verdict verdict;
	enum called called;
	double weight_ns; /* of time that it makes */
};

/* Two recordings' figures, and the tables of these. */
struct sides {
	const struct report_diff *diff;
	struct stat_table then, now;
};

/* Student's t that one in a hundred is beyond, by Cornish and Fisher's expansion: right to 1 % from 5 degrees of freedom on. */
static double critical_t(double freedom)
{
	double z = NORMAL_99, z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;

	return z + (z3 + z) / (4 * freedom) + (5 * z5 + 16 * z3 + 3 * z) / (96 * freedom * freedom) +
	       (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * freedom * freedom * freedom);
}

bool report_differs(const struct report_sample *then, const struct report_sample *now)
{
	double n1 = (double)then->calls, n2 = (double)now->calls;
	double difference = fabs(now->spread.mean_ns - then->spread.mean_ns), error1, error2, freedom;

	if (then->calls < 2 || now->calls < 2)
		return false;
	error1 = then->spread.squares / (n1 - 1) / n1;
	error2 = now->spread.squares / (n2 - 1) / n2;
	if (error1 + error2 <= 0)
		return difference > 0;
	freedom = (error1 + error2) * (error1 + error2) / (error1 * error1 / (n1 - 1) + error2 * error2 / (n2 - 1));
	return difference / sqrt(error1 + error2) > critical_t(freedom);
}

int report_rates_differ(const struct report_rate *then, const struct report_rate *now)
{
	double n1 = (double)then->calls, n2 = (double)now->calls, t1 = (double)then->elapsed_ns, t2 = (double)now->elapsed_ns;
	double before, after, error;

	if (!then->elapsed_ns || !now->elapsed_ns || n1 + n2 < 1)
		return 0;
	before = n1 / t1;
	after = n2 / t2;
	/* If both had the rate that they have together. */
	error = sqrt((n1 + n2) / (t1 + t2) * (1 / t1 + 1 / t2));
	if (fabs(after - before) <= NORMAL_99 * error)
		return 0;
	return after >= RATE_MIN * before ? 1 : before >= RATE_MIN * after ? -1 : 0;
}

/* Above all numbers: there is none. */
static uint32_t bucket_number(const struct stat_row *row, size_t at)
{
	return at < row->bucket_count ? row->buckets[at].number : UINT32_MAX;
}

int report_ranks_differ(const struct stat_row *then, const struct stat_row *now)
{
	double n1 = 0, n2 = 0, below = 0, wins = 0, ties = 0, all, variance, z;
	size_t i = 0, k = 0;

	while (i < then->bucket_count || k < now->bucket_count) {
		uint32_t one = bucket_number(then, i), other = bucket_number(now, k);
		double before = one <= other ? (double)then->buckets[i++].count : 0;
		double after = other <= one ? (double)now->buckets[k++].count : 0;

		wins += after * (below + before / 2);
		below += before;
		n1 += before;
		n2 += after;
		ties += pow(before + after, 3) - (before + after);
	}
	all = n1 + n2;
	if (n1 < 1 || n2 < 1)
		return 0;
	variance = n1 * n2 / 12 * (all + 1 - ties / (all * (all - 1)));
	if (variance <= 0)
		return 0;
	z = (wins - n1 * n2 / 2) / sqrt(variance);
	return z > NORMAL_99 ? 1 : z < -NORMAL_99 ? -1 : 0;
}

/* Whether most calls have become longer, or shorter, by far. */
static bool is_usual_other(const struct change *change, bool longer)
{
	double before = stat_row_quantile(change->then, 0.5), after = stat_row_quantile(change->now, 0.5);

	return report_ranks_differ(change->then, change->now) == (longer ? 1 : -1) &&
	       (longer ? after >= MEDIAN_MIN * before : before >= MEDIAN_MIN * after);
}

/* Which is certain. A few calls that took very long may hide what the means have become. */
static enum verdict verdict_of(const struct change *change, const struct report_sample *before, const struct report_sample *after)
{
	bool longer = after->spread.mean_ns > before->spread.mean_ns;

	if (report_differs(before, after) || is_usual_other(change, longer))
		return longer ? VERDICT_SLOWER : VERDICT_FASTER;
	return VERDICT_NOISE;
}

static enum called called_of(const struct sides *sides, const struct stat_row *then, const struct stat_row *now)
{
	const struct report_rate before = {then->calls, sides->then.elapsed_ns}, after = {now->calls, sides->now.elapsed_ns};
	int order = report_rates_differ(&before, &after);

	if (!before.elapsed_ns || !after.elapsed_ns)
		return CALLED_NOT_KNOWN;
	return order > 0 ? CALLED_MORE : order < 0 ? CALLED_LESS : CALLED_NOISE;
}

/* The time of calls that there would not be, or would be more, if it were called as often as then. */
static double other_calls_ns(const struct sides *sides, const struct change *change)
{
	double usual = (double)change->then->calls * (double)sides->now.elapsed_ns / (double)sides->then.elapsed_ns;

	return fabs((double)change->now->calls - usual) * stat_row_mean(change->then);
}

static struct change change_of(const struct sides *sides, const struct stat_row *then, const struct stat_row *now)
{
	const struct report_diff *diff = sides->diff;
	struct change change = {.then = then, .now = now, .named = now ? now : then, .called = CALLED_NOT_KNOWN};
	struct report_sample before, after;

	if (!then || !now) {
		change.verdict = then ? VERDICT_GONE : VERDICT_NEW;
		change.weight_ns = change.named->total_ns;
		return change;
	}
	before = (struct report_sample){then->calls, figures_spread(diff->then, then->name, then->key)};
	after = (struct report_sample){now->calls, figures_spread(diff->now, now->name, now->key)};
	change.weight_ns = fabs(stat_row_mean(now) - stat_row_mean(then)) * (double)now->calls;
	change.verdict = then->calls < CALLS_MIN || now->calls < CALLS_MIN ? VERDICT_FEW : verdict_of(&change, &before, &after);
	change.called = called_of(sides, then, now);
	if (change.called < CALLED_NOISE)
		change.weight_ns += other_calls_ns(sides, &change);
	return change;
}

static bool is_certain(const struct change *change)
{
	return change->verdict < VERDICT_FEW || change->called < CALLED_NOISE;
}

/* What is certain comes first, and of that, and of the rest, what makes most. */
static int compare(const void *one, const void *other)
{
	const struct change *a = one, *b = other;
	bool a_certain = is_certain(a), b_certain = is_certain(b);
	const struct stat_row *a_row = a->named, *b_row = b->named;
	int order;

	if (a_certain != b_certain)
		return a_certain ? -1 : 1;
	if (a->weight_ns != b->weight_ns)
		return a->weight_ns > b->weight_ns ? -1 : 1;
	order = memcmp(a_row->name.bytes, b_row->name.bytes,
	               a_row->name.size < b_row->name.size ? a_row->name.size : b_row->name.size);
	return order ? order : (a_row->name.size > b_row->name.size) - (a_row->name.size < b_row->name.size);
}

static struct sides sides_of(const struct report_diff *diff)
{
	return (struct sides){diff, figures_table(diff->then), figures_table(diff->now)};
}

static void sides_free(struct sides *sides)
{
	stat_table_free(&sides->then);
	stat_table_free(&sides->now);
}

static struct change *changes_of(const struct sides *sides, size_t *count)
{
	const struct stat_table *then = &sides->then, *now = &sides->now;
	struct change *changes = memory_zeroed((then->count + now->count + 1) * sizeof(*changes));

	*count = 0;
	for (size_t i = 0; i < now->count; i++) {
		const struct stat_row *row = &now->rows[i], *before = stat_table_find(then, row->name, row->key);

		if (row->calls || (before && before->calls))
			changes[(*count)++] = change_of(sides, before && before->calls ? before : NULL, row->calls ? row : NULL);
	}
	for (size_t i = 0; i < then->count; i++) {
		const struct stat_row *row = &then->rows[i];

		if (row->calls && !stat_table_find(now, row->name, row->key))
			changes[(*count)++] = change_of(sides, row, NULL);
	}
	qsort(changes, *count, sizeof(*changes), compare);
	return changes;
}

/* Calls a second. */
static double rate_of(const struct stat_row *row, const struct stat_table *table)
{
	return row && table->elapsed_ns ? 1e9 * (double)row->calls / (double)table->elapsed_ns : 0;
}

static void add_rate(struct buffer *to, const struct stat_row *row, const struct stat_table *table)
{
	double rate = rate_of(row, table);

	if (table->elapsed_ns)
		buffer_add_format(to, "%7.*f  ", rate < 10 ? 2 : rate < 1000, rate);
	else
		buffer_add_format(to, "%7s  ", "-");
}

static void add_time(struct buffer *to, const struct stat_row *row)
{
	char text[16] = "-";

	if (row)
		stat_time_text(text, stat_row_mean(row));
	buffer_add_format(to, "  %7s", text);
}

static void add_row(struct buffer *to, const struct sides *sides, const struct change *change)
{
	const struct stat_row *then = change->then, *now = change->now, *named = change->named;

	add_rate(to, then, &sides->then);
	add_rate(to, now, &sides->now);
	buffer_add_format(to, "%-10s", called_words[change->called]);
	add_time(to, then);
	add_time(to, now);
	if (then && now && then->total_ns > 0)
		buffer_add_format(to, "  %+6.1f%%", 100 * (stat_row_mean(now) / stat_row_mean(then) - 1));
	else
		buffer_add_format(to, "  %7s", "-");
	buffer_add_format(to, "  %-7s  ", verdicts[change->verdict]);
	buffer_add_slice(to, named->name);
	if (named->key.size) {
		buffer_add_text(to, "  ");
		buffer_add_slice(to, named->key);
	}
	buffer_add_char(to, '\n');
}

void report_diff_text(struct buffer *to, const struct report_diff *diff)
{
	struct sides sides = sides_of(diff);
	const struct stat_table *then = &sides.then, *now = &sides.now;
	size_t count, shown;
	struct change *changes = changes_of(&sides, &count);

	shown = diff->top && diff->top < count ? (size_t)diff->top : count;
	buffer_add_format(to, "then %.1f s: %" PRIu64 " calls; now %.1f s: %" PRIu64 " calls\n", (double)then->elapsed_ns / 1e9,
	                  stat_table_calls(then) - then->open, (double)now->elapsed_ns / 1e9, stat_table_calls(now) - now->open);
	if (shown)
		buffer_add_format(to, "%7s  %7s  %-10s  %7s  %7s  %7s  %-7s  %s\n", "calls/s", "now", "called", "mean", "now",
		                  "change", "is", "method");
	for (size_t i = 0; i < shown; i++)
		add_row(to, &sides, &changes[i]);
	free(changes);
	sides_free(&sides);
}

static void add_side(struct buffer *to, const char *key, const struct stat_row *row, const struct stat_table *table)
{
	if (!row)
		return;
	json_open_object(json_key(to, key));
	json_member_uint(to, "calls", row->calls);
	if (table->elapsed_ns)
		json_add_real(json_key(to, "calls_per_s"), rate_of(row, table));
	json_member_uint(to, "errors", row->errors);
	json_member_uint(to, "total_ns", (uint64_t)row->total_ns);
	json_member_uint(to, "mean_ns", (uint64_t)stat_row_mean(row));
	json_close_object(to);
}

void report_diff_json(struct buffer *to, const struct report_diff *diff)
{
	struct sides sides = sides_of(diff);
	size_t count;
	struct change *changes = changes_of(&sides, &count);

	for (size_t i = 0; i < count && (!diff->top || i < diff->top); i++) {
		const struct stat_row *named = changes[i].named;

		json_open_object(to);
		json_member_string(to, "type", "change");
		json_member_text(to, "method", named->name);
		if (named->key.size)
			json_member_text(to, "thread", named->key);
		json_member_string(to, "is", verdicts[changes[i].verdict]);
		if (changes[i].called != CALLED_NOT_KNOWN)
			json_member_string(to, "called", called_words[changes[i].called]);
		add_side(to, "then", changes[i].then, &sides.then);
		add_side(to, "now", changes[i].now, &sides.now);
		json_close_line(to);
	}
	free(changes);
	sides_free(&sides);
}
