#ifndef RBPROBE_FIGURES_H
#define RBPROBE_FIGURES_H

#include "tracer/stream/sink.h"
#include "tracer/stream/stat_table.h"

#include "proto/command.h"

/*
 * Figures of recorded calls, added up while they pass: a row for each method, or each method of a thread, or each path, or each
 * method and the one that calls it.
 */

enum figures_by { FIGURES_BY_METHOD, FIGURES_BY_THREAD, FIGURES_BY_PATH, FIGURES_BY_CALLER };

/* What a row has besides those of stat_table: how its calls' times are spread around their mean. */
struct figure_spread {
	double mean_ns, squares; /* the sum of the squares of what each differs from it */
};

struct figures;
struct slowest;
struct waits;

/* Of paths: so many levels and rows, as `rbprobe stat --tree` has; the time of others is in that of the call around them. */
#define FIGURES_LEVELS_MAX 64u
#define FIGURES_PATHS_MAX 8192u

/* For the rows; calls beyond it are counted, and in no row. */
#define FIGURES_MEMORY_MAX (96ull << 20)

/* Ends the program without memory, as buffers do. slowest: gets each call that has ended; NULL: nobody. */
struct figures *figures_new(enum figures_by by, struct slowest *slowest);
void figures_free(struct figures *figures);

/* What threads do goes there, too. It outlives the figures. */
void figures_follow(struct figures *figures, struct waits *waits);

/* By caller: whose callers are wanted, and whose callees. They outlive the figures. */
struct figures_choice {
	const struct selector *callers, *callees;
	uint32_t caller_count, callee_count;
};

void figures_choose(struct figures *figures, const struct figures_choice *choice);

/* A sink that adds the calls it gets to them. sink_free() frees it, and not the figures. */
struct sink *figures_sink(struct figures *figures, struct output *output, const struct sink_style *style);

/* The rows so far; stat_table_free() it. */
struct stat_table figures_table(const struct figures *figures);
/* Of a row of that table. */
struct figure_spread figures_spread(const struct figures *figures, struct slice name, struct slice key);
/* Calls that are in no row. */
uint64_t figures_left(const struct figures *figures);

#endif
