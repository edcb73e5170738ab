#ifndef RBPROBE_STAT_SINK_H
#define RBPROBE_STAT_SINK_H

#include "tracer/commands/stat_report.h"
#include "tracer/stream/sink.h"

/* Where figures go that processes have counted, until a round of them is shown. */

enum stat_format { STAT_TEXT, STAT_JSON, STAT_PROMETHEUS, STAT_OTLP };

struct stat_otlp;
struct stat_process; /* one of the processes; its figures */

struct stat_sink {
	struct sink sink;
	struct stat_view view;
	enum stat_format format;
	bool sum;               /* one table of all processes */
	struct stat_otlp *otlp; /* STAT_OTLP: where to */
	uint64_t rounds;        /* shown so far */
	struct stat_process *processes;
	size_t count;
};

extern const struct sink_ops sink_stat;

/* Shows all that was counted, when the run is over. */
void stat_sink_end(struct stat_sink *stat);

#endif
