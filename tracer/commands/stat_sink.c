/* Figures of processes, as they come. See stat_sink.h. */

#include "tracer/commands/stat_sink.h"

#include "tracer/base/message.h"
#include "tracer/base/term.h"
#include "tracer/commands/stat_otlp.h"
#include "tracer/stream/calls.h"

#include <stdlib.h>

struct stat_process {
	pid_t pid;
	struct stat_table coming;        /* its pieces, so far */
	struct stat_table now;           /* the newest whole one */
	struct stat_table shown;         /* in the round before */
	char reason[SUMMARY_REASON_MAX]; /* why it ended; "": it has not */
	bool fresh;                      /* it has answered since the round before */
};

static struct stat_process *process_of(struct stat_sink *stat, pid_t pid)
{
	struct stat_process *process;

	for (size_t i = 0; i < stat->count; i++)
		if (stat->processes[i].pid == pid)
			return &stat->processes[i];
	stat->processes = memory_resize(stat->processes, (stat->count + 1) * sizeof(*stat->processes));
	process = &stat->processes[stat->count++];
	*process = (struct stat_process){.pid = pid};
	return process;
}

static struct slice name_of(const void *owner, uint32_t ref)
{
	const struct method *method = calls_method_of(owner, ref);

	return method ? method->shown : (struct slice){NULL, 0};
}

static int on_data(struct sink *sink, struct stream *stream, const msgpack_object *piece, struct error *err)
{
	struct stat_process *process = process_of((struct stat_sink *)sink, stream->pid);
	int status = stat_table_add(&process->coming, piece, name_of, stream, err);

	if (status < 0 || !process->coming.complete)
		return status;
	stat_table_free(&process->now);
	process->now = process->coming;
	process->coming = (struct stat_table){0};
	process->fresh = true;
	process->now.pid = process->pid;
	process->now.processes = 1;
	stream->calls = stat_table_calls(&process->now);
	stream->counted_ns = process->now.elapsed_ns;
	/* Methods in which a retry is possible are timed all the same. */
	for (size_t i = 0; i < process->now.count; i++)
		process->now.rows[i].timed = process->now.rows[i].timed && !((struct stat_sink *)sink)->view.calls_only;
	return 0;
}

/* reasons: why each has ended; NULL: they have not. */
static void show(struct stat_sink *stat, const struct stat_table *const *tables, size_t count, uint64_t interval,
                 const char *const *reasons)
{
	struct buffer *to = &stat->sink.output->buffer;

	/* It may have another size each time. */
	stat->view.width = term_width(stat->sink.output->fd);
	if (stat->format == STAT_OTLP) {
		stat_otlp_send(stat->otlp, tables, count, stat->view.by);
	} else if (stat->format == STAT_PROMETHEUS) {
		stat_report_prometheus(to, tables, count, &stat->view);
	} else if (stat->format == STAT_JSON) {
		for (size_t i = 0; i < count; i++)
			stat_report_json(to, tables[i], &stat->view, interval, reasons ? reasons[i] : NULL);
	} else {
		for (size_t i = 0; i < count; i++) {
			if (i || stat->rounds)
				buffer_add_char(to, '\n');
			stat_report_text(to, tables[i], &stat->view, interval);
		}
	}
	output_flush(stat->sink.output);
}

/* Shows the tables of all processes that have one. */
static void show_all(struct stat_sink *stat, struct stat_table *tables, size_t count, uint64_t interval,
                     const char *const *reasons)
{
	const struct stat_table **shown = memory_zeroed((count + 1) * sizeof(*shown));
	struct stat_table sum = {0};

	for (size_t i = 0; i < count; i++) {
		stat_table_rate(&tables[i]);
		shown[i] = &tables[i];
		if (stat->sum)
			stat_table_sum(&sum, &tables[i]);
	}
	stat_table_rate(&sum);
	if (stat->sum)
		shown[0] = &sum;
	if (count)
		show(stat, shown, stat->sum ? 1 : count, interval, reasons);
	stat_table_free(&sum);
	free(shown);
}

/* With Prometheus counters only ever grow: what has changed is for others to find out. So it is with OTLP, unless they do not. */
static bool is_cumulative(const struct stat_sink *stat)
{
	return stat->format == STAT_PROMETHEUS || (stat->format == STAT_OTLP && !stat->otlp->delta);
}

static void on_round(struct sink *sink)
{
	struct stat_sink *stat = (struct stat_sink *)sink;
	struct stat_table *since = memory_zeroed((stat->count + 1) * sizeof(*since));
	size_t count = 0;

	for (size_t i = 0; i < stat->count; i++) {
		struct stat_process *process = &stat->processes[i];
		const struct stat_table none = {.pid = process->pid};

		/* One that has not answered has no figures of this round; what was counted altogether is still true. */
		if (!process->now.complete || process->reason[0] || !(process->fresh || stat->format == STAT_PROMETHEUS))
			continue;
		process->fresh = false;
		since[count++] = stat_table_since(&process->now, is_cumulative(stat) ? &none : &process->shown);
		stat_table_free(&process->shown);
		process->shown = stat_table_since(&process->now, &none);
	}
	show_all(stat, since, count, stat->rounds + 1, NULL);
	stat->rounds += count > 0;
	for (size_t i = 0; i < count; i++)
		stat_table_free(&since[i]);
	free(since);
}

static void on_summary(struct sink *sink, const struct sink_summary *summary)
{
	struct stat_process *process = process_of((struct stat_sink *)sink, summary->pid);

	snprintf(process->reason, sizeof(process->reason), "%s", summary->reason);
	process->now.lost = summary->lost;
	process->now.outdated = summary->cut_short;
	if (!process->now.complete)
		message_often("process %d sent nothing of what it had counted before it ended; --interval shows it on the way",
		              (int)summary->pid);
}

void stat_sink_end(struct stat_sink *stat)
{
	struct stat_table *tables = memory_zeroed((stat->count + 1) * sizeof(*tables));
	const char **reasons = memory_zeroed((stat->count + 1) * sizeof(*reasons));
	bool rest = stat->format == STAT_OTLP && !is_cumulative(stat);
	size_t count = 0;

	for (size_t i = 0; i < stat->count; i++) {
		struct stat_process *process = &stat->processes[i];

		if (!process->now.complete)
			continue;
		tables[count] = rest ? stat_table_since(&process->now, &process->shown) : process->now;
		reasons[count++] = process->reason;
	}
	/* Of the sum, why the last of them ended. */
	if (count && stat->sum)
		reasons[0] = reasons[count - 1];
	show_all(stat, tables, count, 0, reasons);
	for (size_t i = 0; i < count && rest; i++)
		stat_table_free(&tables[i]);
	free(reasons);
	free(tables);
}

static void on_record(struct sink *sink, struct stream *stream, const struct record *record, const uint8_t *bytes, size_t size)
{
	struct stat_otlp *otlp = ((struct stat_sink *)sink)->otlp;

	(void)bytes;
	(void)size;
	if (otlp && record->kind == RECORD_HELLO)
		stat_otlp_process(otlp, stream->pid, record->hello.ruby_version);
}

static uint64_t wake_ns(const struct sink *sink)
{
	const struct stat_otlp *otlp = ((const struct stat_sink *)sink)->otlp;

	return otlp ? otlp->look_ns : UINT64_MAX;
}

static void wake(struct sink *sink, uint64_t now_ns)
{
	struct stat_otlp *otlp = ((struct stat_sink *)sink)->otlp;

	if (otlp)
		stat_otlp_look(otlp, sink->output, now_ns);
}

static void on_close(struct sink *sink)
{
	struct stat_sink *stat = (struct stat_sink *)sink;

	for (size_t i = 0; i < stat->count; i++) {
		stat_table_free(&stat->processes[i].coming);
		stat_table_free(&stat->processes[i].now);
		stat_table_free(&stat->processes[i].shown);
	}
	free(stat->processes);
}

const struct sink_ops sink_stat = {
	.name = "stat",
	.size = sizeof(struct stat_sink),
	.wake_ns = wake_ns,
	.wake = wake,
	.record = on_record,
	.data = on_data,
	.round = on_round,
	.summary = on_summary,
	.close = on_close,
};
