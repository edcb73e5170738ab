#ifndef RBPROBE_HEAP_REPORT_OPTIONS_H
#define RBPROBE_HEAP_REPORT_OPTIONS_H

#include "tracer/cli/subcommand.h"
#include "tracer/heap/heap_report.h"

/* What the verbs of `rbprobe heap` that show a report have in common. Their structs begin with this. */
struct heap_report_arguments {
	struct invocation invocation;
	struct heap_report report;
	uint64_t top; /* 0: as many as the format shows if nothing is said */
	const struct heap_format *format;
};

/* --top, --sort, --format, -o. */
extern const struct argp options_heap_report;

/* Before parsing. */
void heap_report_arguments_init(void *self);
/* After it, before a dump is read. */
void heap_report_arguments_settle(struct heap_report_arguments *arguments);
/* The report is made: warns of what is wrong with the dumps, and writes it. */
void heap_report_show(struct heap_report_arguments *arguments);
void heap_report_arguments_free(void *self);

#endif
