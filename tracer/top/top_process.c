/* One process on the screen. See top_process.h. */

#include "tracer/top/top_process.h"

#include "tracer/base/proc_file.h"
#include "tracer/process/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void top_process_init(struct top_process *process, pid_t pid)
{
	const struct target target = {.pid = pid};
	struct buffer printable = {0};
	char text[sizeof(process->command)];

	*process = (struct top_process){.pid = pid, .cpu = -1, .gc = -1, .gvl = -1};
	target_command_line(&target, text, sizeof(text));
	buffer_add_printable(&printable, text, strlen(text));
	snprintf(process->command, sizeof(process->command), "%.*s", (int)printable.size, printable.size ? printable.bytes : "");
	buffer_free(&printable);
}

void top_process_count(struct top_process *process, struct top_session *session)
{
	process->session = session;
	process->answers = 0;
}

/* User and system time of all its threads; fields 14 and 15. False: the process is gone. */
static bool read_cpu_ticks(pid_t pid, uint64_t *ticks)
{
	char text[1024], *field;

	if (proc_file_read(pid, "stat", text, sizeof(text)) <= 0 || !(field = strrchr(text, ')')))
		return false;
	for (int i = 2; field && i < 14; i++)
		field = strchr(field + 1, ' ');
	if (!field)
		return false;
	*ticks = strtoull(field, &field, 10);
	*ticks += strtoull(field, NULL, 10);
	return true;
}

static void update_cpu(struct top_process *process, uint64_t now_ns)
{
	uint64_t ticks = 0, before = process->cpu_ticks, at_ns = process->cpu_at_ns;

	process->cpu = -1;
	process->cpu_at_ns = 0;
	if (!read_cpu_ticks(process->pid, &ticks))
		return;
	process->cpu_ticks = ticks;
	process->cpu_at_ns = now_ns;
	if (at_ns && now_ns > at_ns && ticks >= before)
		process->cpu = 100 * (double)(ticks - before) / (double)sysconf(_SC_CLK_TCK) / ((double)(now_ns - at_ns) / 1e9);
}

/* Of sums that only grow. Negative: not known. */
static double share(uint64_t now, uint64_t before, double whole)
{
	return now < before || whole <= 0 ? -1 : 100 * (double)(now - before) / whole;
}

static void update_shares(struct top_process *process, const struct stat_table *now, uint64_t now_ns)
{
	const struct stat_table *before = &process->shares;
	uint64_t waiting = now->gvl_waiting_ns - before->gvl_waiting_ns, holding = now->gvl_holding_ns - before->gvl_holding_ns;
	bool first = !process->shares_at_ns || !process->answers;

	process->gc = process->gvl = -1;
	if (!first && now->gc_known && before->gc_known)
		process->gc = share(now->gc_total_ns, before->gc_total_ns, (double)(now_ns - process->shares_at_ns));
	if (!first && now->gvl_known && before->gvl_known && now->gvl_waiting_ns >= before->gvl_waiting_ns &&
	    now->gvl_holding_ns >= before->gvl_holding_ns)
		process->gvl = share(waiting, 0, (double)waiting + (double)holding);
	process->shares = *now;
	process->shares.rows = NULL;
	process->shares.count = 0;
	process->shares_at_ns = now_ns;
}

/*
 * All that was counted so far, of which `past` is the part of sessions that are over. Where the methods are chosen here, each
 * session may count others.
 */
static struct stat_table all_of(const struct top_process *process, const struct stat_table *now)
{
	struct stat_table all = {.pid = process->pid};

	stat_table_sum(&all, &process->past);
	stat_table_sum(&all, now);
	all.elapsed_ns = process->past.elapsed_ns + now->elapsed_ns;
	all.open = now->open;
	for (size_t i = 0; i < all.count; i++) {
		struct stat_row *row = &all.rows[i];
		const struct stat_row *past = stat_table_find(&process->past, row->name, row->key);

		row->counted_ns =
			(past ? past->counted_ns : 0) + (stat_table_find(now, row->name, row->key) ? now->elapsed_ns : 0);
	}
	return all;
}

static void update_figures(struct top_process *process, uint64_t now_ns)
{
	const struct stat_table *now = &process->session->now;
	struct stat_table all = all_of(process, now);
	uint64_t calls = 0;

	stat_table_free(&process->last);
	process->last = stat_table_since(&all, &process->total);
	stat_table_free(&process->total);
	process->total = all;
	for (size_t i = 0; i < process->last.count; i++)
		calls += process->last.rows[i].calls;
	process->rate = process->last.elapsed_ns ? (double)calls / ((double)process->last.elapsed_ns / 1e9) : 0;
	update_cpu(process, now_ns);
	update_shares(process, now, now_ns);
	process->answers = process->session->answers;
}

bool top_process_update(struct top_process *process, uint64_t now_ns)
{
	struct top_session *session = process->session;
	bool news;

	if (!session)
		return false;
	news = session->answers != process->answers || (session->ruby[0] && !process->ruby[0]);
	if (session->ruby[0])
		memcpy(process->ruby, session->ruby, sizeof(process->ruby));
	if (session->answers != process->answers)
		update_figures(process, now_ns);
	if (!top_session_is_over(session))
		return news;
	stat_table_free(&process->past);
	stat_table_sum(&process->past, &process->total);
	process->past.elapsed_ns = process->total.elapsed_ns;
	process->outcome = session->outcome;
	process->gone = session->outcome != TOP_ENDED || session->why[0];
	memcpy(process->why, session->why, sizeof(process->why));
	if (process->gone) {
		process->rate = 0;
		process->cpu = process->gc = process->gvl = -1;
		stat_table_free(&process->last);
	}
	top_session_free(session);
	process->session = NULL;
	return true;
}

static void add_percent(struct buffer *to, const char *name, double percent)
{
	if (percent >= 0)
		buffer_add_format(to, percent < 9.95 ? "  %s %.1f %%" : "  %s %.0f %%", name, percent);
}

void top_process_line(const struct top_process *process, struct buffer *to)
{
	buffer_add_format(to, "%7d", (int)process->pid);
	if (process->ruby[0])
		buffer_add_format(to, "  Ruby %s", process->ruby);
	if (process->gone) {
		buffer_add_format(to, "  %s", process->why);
		return;
	}
	if (!process->total.complete)
		buffer_add_text(to, "  attaching");
	add_percent(to, "CPU", process->cpu);
	add_percent(to, "GC", process->gc);
	add_percent(to, "GVL wait", process->gvl);
	if (process->total.complete)
		buffer_add_format(to, "  %.0f calls/s", process->rate);
	buffer_add_format(to, "  %s", process->command);
}

void top_process_free(struct top_process *process)
{
	top_session_free(process->session);
	stat_table_free(&process->total);
	stat_table_free(&process->last);
	stat_table_free(&process->past);
}
