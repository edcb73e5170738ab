#ifndef RBPROBE_STAT_TABLE_H
#define RBPROBE_STAT_TABLE_H

#include "proto/error.h"
#include "proto/slice.h"

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The figures that a process has counted, as rows: one for each method. The DATA records of STATISTICS come in pieces. */

/* Calls that took about equally long. */
struct stat_bucket {
	uint32_t number; /* proto/histogram.h */
	double least_ns, most_ns;
	uint64_t count;
};

struct stat_row {
	struct slice name; /* "Class#method", printable; the row's own */
	/* --by: what these calls have in common, printable; the row's own. {"", 0}: nothing, or the rest. In a tree: the path. */
	struct slice key;
	bool is_node;        /* in a tree */
	uint64_t folded;     /* calls inside of these that have no row, and ended */
	uint32_t method;     /* its number; of several definitions, or processes, that of one */
	double rate;         /* of the calls, a second; stat_table_rate() */
	uint64_t calls;      /* that ended, or began where only these were counted */
	uint64_t counted_ns; /* for so long they were counted; 0: as long as the table's others */
	bool let_go;         /* some of its calls are in no figure: it took more than --max-overhead allows */
	uint64_t let_go_ns;  /* how long they were counted then; 0: not in this table's time, or some still are */
	bool timed;          /* and only then: */
	uint64_t errors;
	double total_ns, self_ns, min_ns, max_ns;
	uint32_t measures; /* what was measured of the calls: TRACE_CPU, TRACE_OBJECTS, TRACE_GC; only that of: */
	double cpu_ns, objects, gc_ns;
	uint64_t unmeasured;         /* calls that are not in all of these */
	uint64_t unplaced;           /* calls whose times are in no bucket */
	struct stat_bucket *buckets; /* ascending */
	size_t bucket_count;
};

struct stat_table {
	pid_t pid; /* 0: of several processes */
	uint32_t processes;
	struct stat_row *rows; /* by name */
	size_t count;
	size_t size;   /* bytes of the rows that a process has sent */
	bool complete; /* the last piece has come */
	bool outdated; /* the process, or one of them, ended without a last word: there was more than this */
	uint64_t elapsed_ns;
	uint64_t open;     /* calls that have not ended */
	uint64_t left_out; /* calls that do not meet the conditions */
	uint64_t lost;
	/* Of a table as a process sent it, where it could tell: sums that only grow while it is counted. */
	bool gc_known, gvl_known;
	uint64_t gc_total_ns;                    /* of all garbage collections */
	uint64_t gvl_waiting_ns, gvl_holding_ns; /* of all threads */
	bool full;                               /* the process had no more room for histograms */
	uint64_t folded;                         /* calls in no row, nor inside of one */
};

/* Between the methods of a path: no name has it. */
#define STAT_PATH_SEPARATOR '\n'

/* A zeroed table is an empty one. */
void stat_table_free(struct stat_table *table);

/* Gives the printable name of a method by its number; {NULL, 0}: there is none. */
typedef struct slice stat_name_of(const void *owner, uint32_t method);

/* A piece. 0, or negative with err where the process sends nonsense. After the last one the table is complete. */
int stat_table_add(struct stat_table *table, const msgpack_object *piece, stat_name_of *name_of, const void *owner,
                   struct error *err);

/* All calls in it, ended or not. */
uint64_t stat_table_calls(const struct stat_table *table);

/* Those that have no row. */
uint64_t stat_table_folded(const struct stat_table *table);

/* A row of a table that is complete, or NULL. */
const struct stat_row *stat_table_find(const struct stat_table *table, struct slice name, struct slice key);

/* Fills in the rates, as calls in the table's time. */
void stat_table_rate(struct stat_table *table);

/* Adds the figures of another process. */
void stat_table_sum(struct stat_table *to, const struct stat_table *from);

/* What has come since `before`: another table, without rows that have no calls. Minimum and maximum are as exact as buckets. */
struct stat_table stat_table_since(const struct stat_table *now, const struct stat_table *before);

/* The time that this part of the calls did not exceed: 0.5 is the median. */
double stat_row_quantile(const struct stat_row *row, double part);
double stat_row_mean(const struct stat_row *row);

/* Three digits and a unit: "1.23ms". */
void stat_time_text(char text[16], double ns);

#endif
