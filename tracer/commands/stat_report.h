#ifndef RBPROBE_STAT_REPORT_H
#define RBPROBE_STAT_REPORT_H

#include "tracer/base/buffer.h"
#include "tracer/stream/stat_table.h"

#include <stdbool.h>
#include <stdint.h>

/* Tables of figures, as they are shown. */

struct stat_view {
	const char *sort;     /* a column's name: stat_column_is() */
	uint64_t top;         /* rows that are shown; 0: all */
	bool calls_only;      /* nothing else was counted */
	const char *by;       /* what rows of one method differ in, as a member of JSON; NULL: there is one of each */
	const char *by_title; /* the same, for people */
	const char *by_none;  /* what people read where a row has none of it; NULL: "(others)" */
	bool rates;           /* there is a column with calls a second */
	unsigned width;       /* columns of the terminal that text is for; 0: as many as it takes */
	bool whole;           /* keys and names are not cut to it */
	bool tree;            /* rows are paths */
	bool histogram;       /* is shown, too */
	uint32_t measures;    /* what else was measured: TRACE_CPU, TRACE_OBJECTS, TRACE_GC */
};

/* Whether there is such a column; for the message where not: all of them. */
bool stat_column_is(const char *name);
/* What has to be measured for a column: one of the above; 0: nothing. */
uint32_t stat_column_measure(const char *name);
/* Their names, up to a NULL; and those that a recording has. */
const char *const *stat_columns(void);
const char *const *stat_columns_of_recording(void);

/* interval: 0, or the number of the table, which then has what has come since the one before. reason: why it ended, or NULL. */
void stat_report_text(struct buffer *to, const struct stat_table *table, const struct stat_view *view, uint64_t interval);
void stat_report_json(struct buffer *to, const struct stat_table *table, const struct stat_view *view, uint64_t interval,
                      const char *reason);
/* All tables at once: a metric has its heading but once. */
void stat_report_prometheus(struct buffer *to, const struct stat_table *const *tables, size_t count,
                            const struct stat_view *view);

#endif
