#ifndef RBPROBE_HEAP_RANKING_H
#define RBPROBE_HEAP_RANKING_H

#include "tracer/heap/heap_summary.h"

/* Counts by what people call things: classes that have the same label become one row. A zeroed struct is empty. */

struct heap_row {
	uint32_t label;
	struct heap_tally before; /* zeros, unless two dumps are compared */
	struct heap_tally now;
};

struct heap_ranking {
	struct heap_names labels;
	struct heap_row *rows;
	uint32_t count;
	uint32_t capacity;
};

enum heap_order { HEAP_BY_BYTES, HEAP_BY_OBJECTS };

/* Two parts of a label, such as a class and a site, have this between them. */
#define HEAP_LABEL_SEPARATOR '\x1f'

void heap_ranking_add(struct heap_ranking *ranking, struct slice label, const struct heap_tally *before,
                      const struct heap_tally *now);
/* Removes rows of which there is as much as before. */
void heap_ranking_keep_changed(struct heap_ranking *ranking);
/* What grew most first; equal ones by their labels. */
void heap_ranking_sort(struct heap_ranking *ranking, enum heap_order order);
struct slice heap_ranking_label(const struct heap_ranking *ranking, const struct heap_row *row);
/* The sum of all rows from this one on. */
struct heap_row heap_ranking_rest(const struct heap_ranking *ranking, uint32_t from);
void heap_ranking_free(struct heap_ranking *ranking);

static inline int64_t heap_row_objects(const struct heap_row *row)
{
	return (int64_t)(row->now.objects - row->before.objects);
}

static inline int64_t heap_row_bytes(const struct heap_row *row)
{
	return (int64_t)(row->now.bytes - row->before.bytes);
}

/* In which parts of a report objects are counted by something. */
enum heap_part { HEAP_PART_DUMP = 1, HEAP_PART_GROWTH = 2, HEAP_PART_COMPARED = 4 };

/* Something to count objects by. */
struct heap_dimension {
	const char *title;
	const char *key;        /* in JSON */
	const char *members[2]; /* what the parts of a label are called there */
	unsigned parts;
	/* Adds a summary's counts; as those of before, or of now. */
	void (*collect)(const struct heap_summary *summary, bool before, struct heap_ranking *ranking);
};

/* Ended by one without a title. */
extern const struct heap_dimension heap_dimensions[];

/* What an object is called that was counted so. */
void heap_label_kind(const struct heap_summary *summary, uint32_t kind, struct buffer *to);
/* "app.rb:12"; "-" for HEAP_TABLE_NONE. */
void heap_label_site(const struct heap_summary *summary, uint32_t site, struct buffer *to);

#endif
