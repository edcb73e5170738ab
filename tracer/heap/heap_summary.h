#ifndef RBPROBE_HEAP_SUMMARY_H
#define RBPROBE_HEAP_SUMMARY_H

#include "tracer/heap/heap_biggest.h"
#include "tracer/heap/heap_classes.h"
#include "tracer/heap/heap_line.h"
#include "tracer/heap/heap_strings.h"
#include "tracer/heap/heap_table.h"

struct heap_tally {
	uint64_t objects;
	uint64_t bytes; /* memsize */
};

/* Where objects were allocated. */
struct heap_site {
	uint32_t file; /* in files */
	int32_t line;
};

/*
 * What an object is shown as: an instance of a class or, where it has none, a text ("hidden"). Objects made by C code (type
 * DATA) have both: the class of many is Object, which says nothing.
 */
struct heap_kind {
	uint32_t class;  /* number of a class, or HEAP_TABLE_NONE */
	uint32_t hidden; /* number of a text such as "(IMEMO iseq)", or HEAP_TABLE_NONE */
};

/* What of a kind was allocated where. */
struct heap_pair {
	uint32_t kind;
	uint32_t site; /* or HEAP_TABLE_NONE: not recorded */
};

/*
 * The objects of a dump, counted. Memory grows with the number of types, classes, sites and generations, not of
 * objects; with that of distinct strings where those are asked for.
 */
struct heap_summary {
	/* Set by heap_summary_open(). */
	struct heap_classes *classes; /* not ours */
	struct heap_strings *strings; /* NULL: equal strings are not looked for */
	bool pairs_wanted;

	struct heap_tally total;  /* of objects */
	struct heap_tally shapes; /* of the VM's object shapes, which are none */
	struct heap_tally with_site;
	uint64_t roots;
	uint64_t free_slots; /* in dumps that were made with `full: true` */
	/* Each table with the tallies by its numbers. */
	struct heap_names types;
	struct heap_tally *by_type;
	struct heap_names hidden; /* the texts of kinds */
	struct heap_index kind_index;
	struct heap_kind *kinds;
	struct heap_tally *by_kind;
	struct heap_names files;
	struct heap_index site_index;
	struct heap_site *sites;
	struct heap_tally *by_site;
	struct heap_index generations; /* keys are in generation_of[] */
	uint64_t *generation_of;
	struct heap_tally *by_generation;
	struct heap_index pair_index;
	struct heap_pair *pairs;
	struct heap_tally *by_pair;
	struct heap_biggest biggest;
	/* Of these arrays. */
	struct {
		uint32_t types, kinds, kind_tallies, sites, site_tallies, generations, generation_tallies, pairs, pair_tallies;
	} capacity;
	struct buffer scratch;
};

enum heap_details {
	HEAP_DETAIL_OBJECTS = 1, /* equal strings, the biggest objects */
	HEAP_DETAIL_PAIRS = 2,
};

/*
 * shown: how many of a kind will be asked for. Summaries of the same dump share `classes`; the caller
 * learns their names.
 */
void heap_summary_open(struct heap_summary *summary, struct heap_classes *classes, unsigned details, uint32_t shown);
/* Whether a line is about an object: not a root, a shape or a free slot. */
bool heap_line_is_object(const struct heap_line *line);
/* Returns the object's numbers in kinds[] and sites[]; HEAP_TABLE_NONE: it is no object, or has no site. */
struct heap_pair heap_summary_add(struct heap_summary *summary, const struct heap_line *line);
void heap_summary_close(struct heap_summary *summary);

#endif
