#ifndef RBPROBE_HEAP_REPORT_H
#define RBPROBE_HEAP_REPORT_H

#include "tracer/base/output.h"
#include "tracer/heap/heap_leaks.h"
#include "tracer/heap/heap_own.h"
#include "tracer/heap/heap_ranking.h"
#include "tracer/heap/heap_reader.h"
#include "tracer/heap/heap_shapes.h"

#include <sys/types.h>

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
	bool dominators;             /* shown */
	bool wants_shapes;           /* of the last dump */
	bool leaks;                  /* of two or three: who holds what is new, or what stayed */
	const char *retainers;       /* NULL, or whose: a class, or an address as 0x... */
	pid_t pid;                   /* whose dumps they are; 0: nobody says */
	uint32_t classes_with_paths; /* with dominators: how many of those that retain most have paths to their objects */
	/* What was found. */
	struct heap_dump {
		struct heap_reading reading;
		struct heap_classes classes;
		struct heap_summary summary;
		struct heap_shapes shapes;
		struct heap_own own;
		struct heap_tally own_total; /* of these, which are in no other count */
	} dumps[HEAP_DUMPS_MAX];
	/* Of two dumps: what is only in the second. Of three: what is in the second and third, but not in the first. */
	struct heap_summary compared;
	uint64_t stayed;         /* of two: objects of the second that were in the first */
	uint64_t only_in_second; /* of three: objects of the second that were not in the first */
	/* Of the last dump, where one of the above asks for it. */
	struct heap_holders holders;
	struct heap_paths retained_by;  /* the paths to `retainers` */
	struct heap_paths *class_paths; /* of the first classes of holders.classes */
	uint32_t class_path_count;
	struct heap_leaks leaked;
	/* While it is made. */
	struct heap_feed *feed;
};

/* Whether it is asked who holds what. */
static inline bool heap_report_has_holders(const struct heap_report *report)
{
	return report->dominators || report->leaks || report->retainers;
}

/* Reads the dumps. Negative, with err filled, where one cannot be read; the report must be freed in any case. */
int heap_report_make(struct heap_report *report, struct error *err);
/* The same in steps, for who has the dumps one after the other: begin, each dump by its number, end. */
void heap_report_begin(struct heap_report *report);
int heap_report_read(struct heap_report *report, uint32_t number, struct error *err);
int heap_report_end(struct heap_report *report, struct error *err);
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
extern const struct heap_format heap_format_html;

/* --- Parts of these: shapes; who holds what */

void heap_shapes_write_text(const struct heap_report *report, struct buffer *to);
void heap_shapes_add_json(const struct heap_report *report, struct buffer *to);

void heap_report_add_json(struct heap_report *report, struct buffer *to);
void heap_holders_write_text(struct heap_report *report, struct buffer *to);
void heap_holders_add_json(struct heap_report *report, struct buffer *to);
/* A member whose text still has JSON's escapes; where what the dump says is no valid text, as it stands there. */
void heap_json_escaped(struct buffer *to, const char *key, struct slice text);

/*
 * Fills an empty ranking with the counts of now or, where before is not NULL, with what has changed since. To be freed
 * by the caller.
 */
void heap_report_rank(const struct heap_report *report, const struct heap_dimension *dimension, const struct heap_summary *before,
                      const struct heap_summary *now, struct heap_ranking *ranking);

#endif
