#ifndef RBPROBE_REPORT_DIFF_H
#define RBPROBE_REPORT_DIFF_H

#include "tracer/base/buffer.h"
#include "tracer/recording/figures.h"

/*
 * What is different between the figures of two recordings, a row for each method. The tests take calls to be independent of
 * each other. On a busy machine they are not, and the tests are wrong more often than in one of a hundred cases.
 */

struct report_diff {
	const struct figures *then, *now;
	uint64_t top; /* rows that are shown; 0: all */
};

void report_diff_text(struct buffer *to, const struct report_diff *diff);
void report_diff_json(struct buffer *to, const struct report_diff *diff);

/* --- For tests */

struct report_sample {
	uint64_t calls;
	struct figure_spread spread;
};

/*
 * Welch's t-test of two samples' means: whether they differ more than by chance, of which one in a hundred would be as different.
 */
bool report_differs(const struct report_sample *then, const struct report_sample *now);

/*
 * Mann and Whitney's test of which calls are longer, by buckets of times: how many are, and not by how much. 1: those of now.
 * -1: those of then. 0: chance would make such a difference in one of a hundred cases. A few calls during which the machine
 * stood still make a mean uncertain, but not this.
 */
int report_ranks_differ(const struct stat_row *then, const struct stat_row *now);

struct report_rate {
	uint64_t calls, elapsed_ns; /* 0 ns: not known */
};

/*
 * Whether calls came at other rates than by chance, of which one in a hundred would be as different, and at rates that are
 * different by a fourth: 1: more often now. -1: less often. 0: no. Each call is taken to come by itself (Poisson).
 */
int report_rates_differ(const struct report_rate *then, const struct report_rate *now);

#endif
