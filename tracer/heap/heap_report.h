#ifndef RBPROBE_HEAP_REPORT_H
#define RBPROBE_HEAP_REPORT_H

#include "tracer/base/output.h"
#include "tracer/heap/heap_own.h"
#include "tracer/heap/heap_ranking.h"
#include "tracer/heap/heap_reader.h"

/*
 * What one dump is full of, or what became more between two or three of the same process. Memory: what the summaries
 * need, and the identities of the first dump's objects where there are several, of which those that are only in the
 * second remain for the third.
 */

#define HEAP_DUMPS_MAX 3

struct heap_report {
	/* What is asked for. */
	const char *paths[HEAP_DUMPS_MAX];
	uint32_t dump_count;
	uint32_t top; /* rows of each table */
	enum heap_order order;
	/* What was found. */
	struct heap_dump {
		struct heap_reading reading;
		struct heap_classes classes;
		struct heap_summary summary;
		struct heap_own own;
		struct heap_tally own_total; /* of these, which are in no other count */
	} dumps[HEAP_DUMPS_MAX];
	/* Of two dumps: what is only in the second. Of three: what is in the second and third, but not in the first. */
	struct heap_summary compared;
	uint64_t stayed;         /* of two: objects of the second that were in the first */
	uint64_t only_in_second; /* of three: objects of the second that were not in the first */
};

/* Reads the dumps. Negative, with err filled, where one cannot be read; the report must be freed in any case. */
int heap_report_make(struct heap_report *report, struct error *err);
void heap_report_free(struct heap_report *report);

static inline const struct heap_dump *heap_report_last(const struct heap_report *report)
{
	return &report->dumps[report->dump_count - 1];
}

struct heap_format {
	const char *name;
	void (*write)(struct heap_report *report, struct output *output);
};

extern const struct heap_format heap_format_text;
extern const struct heap_format heap_format_json;

/*
 * Fills an empty ranking with the counts of now or, where before is not NULL, with what has changed since. To be freed
 * by the caller.
 */
void heap_report_rank(const struct heap_report *report, const struct heap_dimension *dimension, const struct heap_summary *before,
                      const struct heap_summary *now, struct heap_ranking *ranking);

#endif
