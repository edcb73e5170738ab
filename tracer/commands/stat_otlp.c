/* Figures that go to --otlp. See stat_otlp.h. */

#include "tracer/commands/stat_otlp.h"

#include "proto/clock.h"
#include "tracer/otlp/otlp_metrics.h"
#include "tracer/otlp/otlp_resource.h"

#include <stdlib.h>

#define LOOK_NS (200 * NS_PER_MS)

struct stat_otlp_process {
	pid_t pid; /* 0: all together */
	struct buffer resource;
	uint64_t from_ns; /* by the wall clock: since when the next figures are counted; 0: not known yet */
};

static struct stat_otlp_process *process_of(struct stat_otlp *otlp, pid_t pid)
{
	struct stat_otlp_process *process;

	for (size_t i = 0; i < otlp->count; i++)
		if (otlp->processes[i].pid == pid)
			return &otlp->processes[i];
	otlp->processes = memory_resize(otlp->processes, (otlp->count + 1) * sizeof(*otlp->processes));
	process = &otlp->processes[otlp->count++];
	*process = (struct stat_otlp_process){.pid = pid};
	return process;
}

void stat_otlp_process(struct stat_otlp *otlp, pid_t pid, struct slice ruby_version)
{
	struct stat_otlp_process *process = process_of(otlp, pid);

	buffer_free(&process->resource);
	process->from_ns = 0;
	otlp_resource_live(&process->resource, pid, ruby_version);
}

static struct otlp_figures figures_of(struct stat_otlp *otlp, const struct stat_table *table)
{
	struct stat_otlp_process *process = process_of(otlp, table->pid);
	uint64_t now_ns = clock_ns(CLOCK_REALTIME);
	struct otlp_figures figures = {.table = table, .resource = &process->resource, .to_ns = now_ns};

	if (!process->resource.size)
		otlp_resource_live(&process->resource, table->pid, (struct slice){"", 0});
	if (!process->from_ns)
		process->from_ns = now_ns - table->elapsed_ns;
	figures.from_ns = process->from_ns;
	if (otlp->delta)
		process->from_ns = now_ns;
	return figures;
}

void stat_otlp_send(struct stat_otlp *otlp, const struct stat_table *const *tables, size_t count, const char *by)
{
	const struct otlp_metrics wanted = {
		.delta = otlp->delta, .measures = otlp->measures, .exponential = otlp->exponential, .by = by};
	struct otlp_figures *figures = memory_zeroed((count + 1) * sizeof(*figures));
	struct buffer request = {0};
	uint64_t points;

	/* Each is known before there are pointers to it. */
	for (size_t i = 0; i < count; i++)
		process_of(otlp, tables[i]->pid);
	for (size_t i = 0; i < count; i++)
		figures[i] = figures_of(otlp, tables[i]);
	points = otlp_metrics_pack(&request, figures, count, &wanted);
	if (points)
		otlp_run_give(otlp->run, &request, points);
	else
		buffer_free(&request);
	free(figures);
}

void stat_otlp_look(struct stat_otlp *otlp, struct output *output, uint64_t now_ns)
{
	if (now_ns < otlp->look_ns)
		return;
	otlp->look_ns = now_ns + LOOK_NS;
	otlp_run_look(otlp->run, output);
}

void stat_otlp_free(struct stat_otlp *otlp)
{
	for (size_t i = 0; i < otlp->count; i++)
		buffer_free(&otlp->processes[i].resource);
	free(otlp->processes);
	otlp->processes = NULL;
	otlp->count = 0;
}
