/* A profile for people. See profile_text.h. */

#include "tracer/profile/profile_text.h"

#include "proto/clock.h"

#include <inttypes.h>
#include <stdlib.h>

#define WIDTH_DEFAULT 80u
#define TREE_LEAST 0.01 /* of all; what is less is left out */
#define TREE_DEPTH_MAX 60
#define LATE_WORTH_TELLING 0.05
#define INDENTATION_MAX 30u

/* --- What was sampled */

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

static uint32_t threads_of(const struct profile *profile, uint32_t process)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < profile->thread_count; i++)
		count += profile->threads[i].process == process && (profile->threads[i].id || profile->threads[i].native_id);
	return count;
}

static void add_process(const struct profile *profile, uint32_t number, struct buffer *to)
{
	const struct profile_process *process = &profile->processes[number];
	const struct profile_summary *summary = &process->summary;
	double elapsed_ns = summary->elapsed_ns ? (double)summary->elapsed_ns : 1;
	uint32_t threads = threads_of(profile, number);

	buffer_add_format(to, "process %d: %.1f s, %" PRIu32 " thread%s, ", (int)process->pid, elapsed_ns / 1e9, threads,
	                  plural(threads));
	if (profile->rate_hz && summary->rate_hz < 0.99 * profile->rate_hz)
		buffer_add_format(to, "%.0f samples a second instead of %" PRIu32 " to stay cheap", summary->rate_hz,
		                  profile->rate_hz);
	else
		buffer_add_format(to, "%.0f samples a second", summary->rate_hz);
	buffer_add_format(to, "; rbprobe used %.2f %% CPU\n", 100 * (double)summary->own_cpu_ns / elapsed_ns);
	if ((double)summary->late_ns > LATE_WORTH_TELLING * elapsed_ns)
		buffer_add_format(to, "  %.0f %% of the time was seen late (long C code, or a busy machine)\n",
		                  100 * (double)summary->late_ns / elapsed_ns);
	if (summary->no_room_ticks)
		buffer_add_format(to, "  %" PRIu64 " samples of a thread are missing: there was no room for their stacks\n",
		                  summary->no_room_ticks);
	if (summary->threads_left_out)
		buffer_add_format(to, "  %" PRIu64 " samples of a thread are missing: there were too many threads\n",
		                  summary->threads_left_out);
	if (summary->cut)
		buffer_add_format(to, "  %" PRIu64 " samples have more frames than are kept: their outermost are missing\n",
		                  summary->cut);
	if (summary->there && !summary->with_c)
		buffer_add_text(to, "  this Ruby shows no methods written in C: their callers have their time\n");
	if (summary->there && !summary->with_cpu)
		buffer_add_text(to, "  this Ruby hides threads' numbers: no CPU time of those that never ran a sample\n");
}

/* --- The table */

struct row {
	uint32_t function;
	const struct profile_view_function *sums;
};

static int compare_rows(const void *one, const void *other)
{
	const struct row *a = one, *b = other;

	if (a->sums->self_ns != b->sums->self_ns)
		return a->sums->self_ns < b->sums->self_ns ? 1 : -1;
	if (a->sums->total_ns != b->sums->total_ns)
		return a->sums->total_ns < b->sums->total_ns ? 1 : -1;
	return (a->function > b->function) - (a->function < b->function);
}

/* The end of a path, in so many bytes. */
static void add_place(const struct profile *profile, uint32_t function, size_t room, struct buffer *to)
{
	struct slice path = profile_path(profile, function);
	struct buffer place = {0};

	if (!path.size) {
		if (room >= 3)
			buffer_add_text(to, " [C]");
		return;
	}
	buffer_add_printable(&place, path.bytes, path.size);
	if (profile->functions[function].line)
		buffer_add_format(&place, ":%" PRId32, profile->functions[function].line);
	if (place.size > room && room > 10) {
		size_t from = place.size - (room - 3);

		/* Not within a character. */
		while (from < place.size && ((unsigned char)place.bytes[from] & 0xc0) == 0x80)
			from++;
		buffer_add_text(to, " ...");
		buffer_add(to, place.bytes + from, place.size - from);
	} else if (place.size <= room) {
		buffer_add_char(to, ' ');
		buffer_add(to, place.bytes, place.size);
	}
	buffer_free(&place);
}

static void add_function(const struct profile *profile, uint32_t function, size_t used, unsigned width, struct buffer *to)
{
	struct slice label = profile_label(profile, function);
	size_t from = to->size, taken;

	buffer_add_printable(to, label.bytes, label.size);
	taken = used + to->size - from + 1;
	add_place(profile, function, taken < width ? width - taken : 0, to);
	buffer_add_char(to, '\n');
}

static double percent(uint64_t part, uint64_t all)
{
	return all ? 100 * (double)part / (double)all : 0;
}

static void add_table(const struct profile_view *view, const struct profile_style *style, unsigned width, struct buffer *to)
{
	const struct profile *profile = view->profile;
	struct row *rows = memory_zeroed((profile->function_count + 1) * sizeof(*rows));
	uint32_t count = 0;

	for (uint32_t i = 0; i < profile->function_count; i++)
		if (view->functions[i].total_ns)
			rows[count++] = (struct row){i, &view->functions[i]};
	qsort(rows, count, sizeof(*rows), compare_rows);
	buffer_add_format(to, "\n%9s %6s %6s %9s  METHOD\n", "SELF", "", "TOTAL", view->weight == PROFILE_CPU ? "WALL" : "CPU");
	for (uint32_t i = 0; i < count && i < style->top; i++) {
		size_t from = to->size;

		buffer_add_format(to, "%8.3fs %5.1f%% %5.1f%% %8.3fs  ", (double)rows[i].sums->self_ns / 1e9,
		                  percent(rows[i].sums->self_ns, view->total_ns), percent(rows[i].sums->total_ns, view->total_ns),
		                  (double)rows[i].sums->self_other_ns / 1e9);
		add_function(profile, rows[i].function, to->size - from, width, to);
	}
	if (count > style->top)
		buffer_add_format(to, "%36s%" PRIu32 " more; --top N shows more\n", "", count - style->top);
	free(rows);
}

/* --- Threads */

struct thread_row {
	uint32_t thread;
	uint64_t wall_ns, cpu_ns;
};

static int compare_threads(const void *one, const void *other)
{
	const struct thread_row *a = one, *b = other;

	if (a->cpu_ns != b->cpu_ns)
		return a->cpu_ns < b->cpu_ns ? 1 : -1;
	if (a->wall_ns != b->wall_ns)
		return a->wall_ns < b->wall_ns ? 1 : -1;
	return (a->thread > b->thread) - (a->thread < b->thread);
}

static void add_threads(const struct profile *profile, const struct profile_style *style, struct buffer *to)
{
	struct thread_row *rows = memory_zeroed((profile->thread_count + 1) * sizeof(*rows));
	uint32_t count = 0;

	for (uint32_t i = 0; i < profile->thread_count; i++)
		rows[i].thread = i;
	for (uint32_t i = 0; i < profile->sum_count; i++) {
		rows[profile->sums[i].thread].wall_ns += profile->sums[i].wall_ns;
		rows[profile->sums[i].thread].cpu_ns += profile->sums[i].cpu_ns;
	}
	for (uint32_t i = 0; i < profile->thread_count; i++)
		if (profile->threads[i].has_clock)
			rows[i].cpu_ns = profile->threads[i].clock_ns;
	for (uint32_t i = 0; i < profile->thread_count; i++)
		if (rows[i].wall_ns)
			rows[count++] = rows[i];
	qsort(rows, count, sizeof(*rows), compare_threads);
	buffer_add_format(to, "\n%9s %9s %6s  THREAD\n", "TIME", "CPU", "IDLE");
	for (uint32_t i = 0; i < count && i < style->top; i++) {
		uint64_t cpu_ns = rows[i].cpu_ns < rows[i].wall_ns ? rows[i].cpu_ns : rows[i].wall_ns;
		struct buffer name = {0};

		profile_thread_name(profile, rows[i].thread, &name);
		buffer_add_format(to, "%8.3fs %8.3fs %5.1f%%  ", (double)rows[i].wall_ns / 1e9, (double)rows[i].cpu_ns / 1e9,
		                  percent(rows[i].wall_ns - cpu_ns, rows[i].wall_ns));
		buffer_add_printable(to, name.bytes, name.size);
		buffer_add_char(to, '\n');
		buffer_free(&name);
	}
	if (count > style->top)
		buffer_add_format(to, "%28s%" PRIu32 " more\n", "", count - style->top);
	free(rows);
}

/* --- The tree */

static void add_node(const struct profile_view *view, uint32_t number, unsigned width, struct buffer *to)
{
	const struct profile_view_node *node = &view->nodes[number];
	unsigned indentation = node->depth - 1 < INDENTATION_MAX ? node->depth - 1 : INDENTATION_MAX;
	struct buffer name = {0};
	size_t from = to->size;

	buffer_add_format(to, "%5.1f%% %5.1f%%  %*s", percent(node->total_ns, view->total_ns),
	                  percent(node->self_ns, view->total_ns), (int)indentation, "");
	if (view->threads && node->depth == 1) {
		profile_view_name(view, node, &name);
		buffer_add_printable(to, name.bytes, name.size);
		buffer_add_char(to, '\n');
		buffer_free(&name);
		return;
	}
	add_function(view->profile, node->function, to->size - from, width, to);
}

static void add_tree(const struct profile_view *view, unsigned width, struct buffer *to)
{
	uint64_t least_ns = (uint64_t)(TREE_LEAST * (double)view->total_ns);
	uint32_t number = view->nodes[0].first_child;

	buffer_add_format(to, "\n%6s %6s  TREE\n", "TOTAL", "SELF");
	while (number) {
		const struct profile_view_node *node = &view->nodes[number];
		bool shown = node->total_ns > least_ns && node->depth <= TREE_DEPTH_MAX;

		if (shown)
			add_node(view, number, width, to);
		if (shown && node->first_child) {
			number = node->first_child;
			continue;
		}
		/* Children are sorted: those after one that is too small are, too. */
		while (number && (!shown || !view->nodes[number].next)) {
			number = view->nodes[number].parent;
			shown = true;
		}
		number = number ? view->nodes[number].next : 0;
	}
}

void profile_text(const struct profile *profile, const struct profile_style *style, struct buffer *to)
{
	struct profile_view view = profile_view_make(profile, style->weight, style->threads);
	unsigned width = style->width ? style->width : WIDTH_DEFAULT;

	for (uint32_t i = 0; i < profile->process_count; i++)
		add_process(profile, i, to);
	if (!view.total_ns) {
		buffer_add_text(to, view.weight == PROFILE_CPU ? "no thread has used CPU time\n" : "nothing was sampled\n");
	} else {
		add_table(&view, style, width, to);
		add_threads(profile, style, to);
		if (!style->no_tree)
			add_tree(&view, width, to);
	}
	profile_view_free(&view);
}
