/* A profile for people. See profile_text.h. */

#include "tracer/profile/profile_text.h"

#include "proto/clock.h"
#include "proto/profile_words.h"
#include "tracer/base/value.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH_DEFAULT 80u
#define TREE_LEAST 0.01 /* of all; what is less is left out */
#define TREE_DEPTH_MAX 60
#define OFF_WORTH_TELLING 0.02
#define LATE_WORTH_TELLING 0.05
#define CPU_WORTH_TELLING 0.02
#define UNIT_BYTES_MAX (UINT64_C(10000))
#define OF_CLASS " (made)"
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

/* What there is to say where objects were looked at. */
static void add_objects(const struct profile_summary *summary, struct buffer *to)
{
	double elapsed_ns = summary->elapsed_ns ? (double)summary->elapsed_ns : 1;
	double off = (double)summary->off_ns / elapsed_ns;

	if (profile_ended_early(summary))
		buffer_add_text(to, "  the profile ended before it could be seen which objects stay\n");
	if (summary->retained)
		buffer_add_text(to, "  shown are those that were still alive after a garbage collection at the end\n");
	if (summary->event_ns >= 1)
		buffer_add_format(to, "  each object took %.0f ns longer to make while rbprobe looked\n", summary->event_ns);
	if (off > OFF_WORTH_TELLING)
		buffer_add_format(to, "  to stay cheap it looked for %.0f %% of the time; the rest is not shown\n",
		                  100 * (1 - off));
	if (summary->unwatched_ns || summary->unwatched)
		buffer_add_format(to,
		                  "  it did not look for %.1f s, when the process made Ractors: before Ruby 3.2 it could\n"
		                  "  crash; objects of that time are missing\n",
		                  (double)summary->unwatched_ns / 1e9);
	if (summary->unwatched)
		buffer_add_format(to, "  %" PRIu64 " object%s made before that are missing: it is not known whether they stay\n",
		                  summary->unwatched, plural(summary->unwatched));
	if (summary->lost)
		buffer_add_format(to, "  %" PRIu64 " objects are missing: there was no room for them or their stacks\n",
		                  summary->lost);
	if (summary->there && !summary->with_bytes)
		buffer_add_text(to, "  this Ruby does not tell how many bytes an object has\n");
}

/* In the first line, if it is as asked. */
static bool rate_is_as_asked(const struct profile *profile, const struct profile_summary *summary)
{
	return !profile->of_objects && !(profile->rate_hz && summary->rate_hz < 0.99 * profile->rate_hz);
}

static void add_rate(const struct profile *profile, const struct profile_summary *summary, struct buffer *to)
{
	if (!profile->of_objects) {
		buffer_add_format(to, "  %.0f samples a second instead of %" PRIu32 " to stay cheap\n", summary->rate_hz,
		                  profile->rate_hz);
		return;
	}
	buffer_add_format(to, "  %" PRIu64 " object%s made", summary->made, plural(summary->made));
	if (summary->every > 1)
		buffer_add_format(to, ", about 1 of %" PRIu64 " looked at", summary->every);
	buffer_add_text(to, "\n");
}

static double percent(uint64_t part, uint64_t all)
{
	return all ? 100 * (double)part / (double)all : 0;
}

static bool is_gc(const struct profile *profile, uint32_t function)
{
	return profile_is_state(profile, function) && slice_is(profile_label(profile, function), PROFILE_GC);
}

/* How much of all threads' time was what. */
static void add_states(const struct profile *profile, uint32_t process, struct buffer *to)
{
	uint64_t wall_ns = 0, idle_ns = 0, gc_ns = 0;

	for (uint32_t i = 0; i < profile->sum_count; i++) {
		const struct profile_sum *sum = &profile->sums[i];

		if (profile->threads[sum->thread].process != process)
			continue;
		wall_ns += sum->weights[PROFILE_WALL];
		idle_ns += sum->idle_ns;
		if (sum->node && is_gc(profile, profile->nodes[sum->node].function))
			gc_ns += sum->weights[PROFILE_WALL];
	}
	if (!profile->has_idle || wall_ns == 0)
		return;
	buffer_add_format(to, "  of all threads' time: running %.1f %%, idle %.1f %%",
	                  percent(wall_ns - idle_ns - gc_ns, wall_ns), percent(idle_ns, wall_ns));
	if (profile->processes[process].summary.with_gc)
		buffer_add_format(to, ", garbage collection %.1f %%\n", percent(gc_ns, wall_ns));
	else if (profile->processes[process].summary.native.there)
		buffer_add_text(to, "\n  --native does not tell garbage collections apart\n");
	else
		buffer_add_text(to, "\n  this Ruby does not tell its time in garbage collections\n");
}

static void add_count(uint64_t count, const char *what, struct buffer *to)
{
	if (count)
		buffer_add_format(to, "  %" PRIu64 " samples %s\n", count, what);
}

/* What it cost to have native frames, and which could not be had. */
static void add_native(const struct profile_native *native, double elapsed_ns, struct buffer *to)
{
	double share = 100 * (double)native->stopped_ns / elapsed_ns;

	buffer_add_format(to, "  threads stopped %" PRIu64 " time%s, %.2f %% of all time: median %.0f us, at most %.0f us\n",
	                  native->stops, plural(native->stops), share, (double)native->pause_median_ns / 1e3,
	                  (double)native->pause_longest_ns / 1e3);
	add_count(native->not_stopped, "are missing: their threads could not be stopped in time", to);
	add_count(native->unplaced, "are without native frames: where these belong is not known", to);
	add_count(native->cut, "have native frames that could not be unwound further out", to);
	add_count(native->unnamed, "have methods whose names Ruby did not tell", to);
}

static void add_process(const struct profile *profile, uint32_t number, struct buffer *to)
{
	const struct profile_process *process = &profile->processes[number];
	const struct profile_summary *summary = &process->summary;
	double elapsed_ns = summary->elapsed_ns ? (double)summary->elapsed_ns : 1;
	uint32_t threads = threads_of(profile, number);

	buffer_add_format(to, "process %d: %.1f s, %" PRIu32 " thread%s", (int)process->pid, elapsed_ns / 1e9, threads,
	                  plural(threads));
	if (rate_is_as_asked(profile, summary))
		buffer_add_format(to, ", %.0f samples a second", summary->rate_hz);
	buffer_add_format(to, "; rbprobe used %.2f %% CPU%s\n", 100 * (double)summary->own_cpu_ns / elapsed_ns,
	                  summary->native.there ? " outside of it" : "");
	if (!rate_is_as_asked(profile, summary))
		add_rate(profile, summary, to);
	if (profile->of_objects) {
		add_objects(summary, to);
		return;
	}
	if (summary->native.there)
		add_native(&summary->native, elapsed_ns, to);
	if ((double)summary->unseen_cpu_ns > CPU_WORTH_TELLING * elapsed_ns)
		buffer_add_format(to,
		                  "  %.3f s of CPU time are in no sample: of threads that were gone soon, of other Ractors, or "
		                  "not Ruby's\n",
		                  (double)summary->unseen_cpu_ns / 1e9);
	add_states(profile, number, to);
	if (profile->of_gvl && summary->there && !summary->gvl_by_events)
		buffer_add_text(to, "  by samples, as Ruby before 3.2 tells nothing of the GVL: threads that could run\n");
	if ((double)summary->late_ns > LATE_WORTH_TELLING * elapsed_ns)
		buffer_add_format(to, "  %.0f %% of the time was seen late (long C code, or a busy machine)\n",
		                  100 * (double)summary->late_ns / elapsed_ns);
	add_count(summary->no_room_ticks, "of a thread are missing: there was no room for their stacks", to);
	add_count(summary->threads_left_out, "of a thread are missing: there were too many threads", to);
	add_count(summary->cut, "have more frames than are kept: their outermost are missing", to);
	if (summary->there && !summary->with_c)
		buffer_add_text(to, "  this Ruby shows no methods written in C: their callers have their time\n");
	if (summary->there && !summary->with_cpu)
		buffer_add_text(to, "  this Ruby hides threads' numbers: no CPU time of those that never ran a sample\n");
}

/*
 * How far chance may move a part that is half of all: twice its standard deviation, which others do not reach. So that nobody
 * reads ten samples as if they were a thousand.
 */
static void add_certainty(uint64_t samples, struct buffer *to)
{
	buffer_add_format(to, "  CPU time was seen by %" PRIu64 " sample%s: a part of it may be off by %.0f %%\n", samples,
	                  plural(samples), 100 / sqrt((double)samples));
}

/* --- The table */

struct row {
	uint32_t function;
	const struct profile_view_function *sums;
};

static int compare_rows(const void *one, const void *other)
{
	const struct row *a = one, *b = other;

	if (a->sums->self != b->sums->self)
		return a->sums->self < b->sums->self ? 1 : -1;
	if (a->sums->total != b->sums->total)
		return a->sums->total < b->sums->total ? 1 : -1;
	return (a->function > b->function) - (a->function < b->function);
}

/* The end of a path, in so many bytes. */
static void add_place(const struct profile *profile, uint32_t function, size_t room, struct buffer *to)
{
	struct slice path = profile_path(profile, function);
	struct buffer place = {0};

	if (profile_is_class(profile, function)) {
		if (room > strlen(OF_CLASS))
			buffer_add_text(to, OF_CLASS);
		return;
	}
	if (profile_is_state(profile, function) || profile_is_native(profile, function))
		return;
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

/* In nine characters. */
static void add_amount(enum profile_weight weight, uint64_t amount, struct buffer *to)
{
	if (weight < PROFILE_BYTES)
		buffer_add_format(to, "%8.3fs", (double)amount / 1e9);
	else if (weight == PROFILE_OBJECTS || amount < UNIT_BYTES_MAX)
		buffer_add_format(to, "%9" PRIu64, amount);
	else if (amount < UNIT_BYTES_MAX << 10)
		buffer_add_format(to, "%6.1fKiB", (double)amount / (1 << 10));
	else if (amount < UNIT_BYTES_MAX << 20)
		buffer_add_format(to, "%6.1fMiB", (double)amount / (1 << 20));
	else
		buffer_add_format(to, "%6.1fGiB", (double)amount / (1 << 30));
}

static const char *heading(enum profile_weight weight)
{
	static const char *const headings[PROFILE_WEIGHTS] = {
		[PROFILE_WALL] = "WALL", [PROFILE_CPU] = "CPU",     [PROFILE_BUSY] = "BUSY",      [PROFILE_WAITED] = "WAITED",
		[PROFILE_HELD] = "HELD", [PROFILE_BYTES] = "BYTES", [PROFILE_OBJECTS] = "OBJECTS"};

	return headings[weight];
}

static void add_table(const struct profile_view *view, const struct profile_style *style, unsigned width, struct buffer *to)
{
	const struct profile *profile = view->profile;
	struct row *rows = memory_zeroed((profile->function_count + 1) * sizeof(*rows));
	enum profile_weight other = profile_unit(view->weight)->other;
	uint32_t count = 0;

	for (uint32_t i = 0; i < profile->function_count; i++)
		if (view->functions[i].total)
			rows[count++] = (struct row){i, &view->functions[i]};
	qsort(rows, count, sizeof(*rows), compare_rows);
	buffer_add_format(to, "\n%9s %6s %6s %9s  METHOD%s\n", view->weight >= PROFILE_WAITED ? heading(view->weight) : "SELF",
	                  "", "TOTAL", heading(other), profile->of_objects ? " OR CLASS" : "");
	for (uint32_t i = 0; i < count && i < style->top; i++) {
		size_t from = to->size;

		add_amount(view->weight, rows[i].sums->self, to);
		buffer_add_format(to, " %5.1f%% %5.1f%% ", percent(rows[i].sums->self, view->total),
		                  percent(rows[i].sums->total, view->total));
		add_amount(other, rows[i].sums->self_other, to);
		buffer_add_text(to, "  ");
		add_function(profile, rows[i].function, to->size - from, width, to);
	}
	if (count > style->top)
		buffer_add_format(to, "%36s%" PRIu32 " more; --top N shows more\n", "", count - style->top);
	free(rows);
}

/* --- Threads */

struct thread_row {
	uint32_t thread;
	uint64_t one, other; /* what they are sorted by, and beside that */
};

static int compare_threads(const void *one, const void *other)
{
	const struct thread_row *a = one, *b = other;

	if (a->one != b->one)
		return a->one < b->one ? 1 : -1;
	if (a->other != b->other)
		return a->other < b->other ? 1 : -1;
	return (a->thread > b->thread) - (a->thread < b->thread);
}

/* Those that have anything, the heaviest first. */
static struct thread_row *thread_rows(const struct profile *profile, enum profile_weight one, enum profile_weight other,
                                      uint32_t *count)
{
	struct thread_row *rows = memory_zeroed((profile->thread_count + 1) * sizeof(*rows));

	for (uint32_t i = 0; i < profile->thread_count; i++)
		rows[i].thread = i;
	for (uint32_t i = 0; i < profile->sum_count; i++) {
		rows[profile->sums[i].thread].one += profile->sums[i].weights[one];
		rows[profile->sums[i].thread].other += profile->sums[i].weights[other];
	}
	*count = 0;
	for (uint32_t i = 0; i < profile->thread_count; i++) {
		if (one == PROFILE_CPU && profile->threads[i].has_clock)
			rows[i].one = profile->threads[i].clock_ns;
		if (rows[i].other)
			rows[(*count)++] = rows[i];
	}
	qsort(rows, *count, sizeof(*rows), compare_threads);
	return rows;
}

static void add_thread(const struct profile *profile, const struct thread_row *row, struct buffer *to)
{
	struct buffer name = {0};

	if (profile->of_objects) {
		add_amount(PROFILE_BYTES, row->one, to);
		buffer_add_format(to, " %9" PRIu64 "  ", row->other);
	} else {
		uint64_t wall_ns = row->other, cpu_ns = row->one < wall_ns ? row->one : wall_ns;

		buffer_add_format(to, "%8.3fs %8.3fs %5.1f%%  ", (double)wall_ns / 1e9, (double)row->one / 1e9,
		                  percent(wall_ns - cpu_ns, wall_ns));
	}
	profile_thread_name(profile, row->thread, &name);
	buffer_add_printable(to, name.bytes, name.size);
	buffer_add_char(to, '\n');
	buffer_free(&name);
}

static void add_threads(const struct profile *profile, const struct profile_style *style, struct buffer *to)
{
	uint32_t count;
	struct thread_row *rows = profile->of_objects ? thread_rows(profile, PROFILE_BYTES, PROFILE_OBJECTS, &count)
	                                              : thread_rows(profile, PROFILE_CPU, PROFILE_WALL, &count);

	if (profile->of_objects)
		buffer_add_format(to, "\n%9s %9s  THREAD\n", "BYTES", "OBJECTS");
	else
		buffer_add_format(to, "\n%9s %9s %6s  THREAD\n", "TIME", "CPU", "IDLE");
	for (uint32_t i = 0; i < count && i < style->top; i++)
		add_thread(profile, &rows[i], to);
	if (count > style->top)
		buffer_add_format(to, "%28s%" PRIu32 " more\n", "", count - style->top);
	free(rows);
}

/* --- The GVL */

static int compare_pairs(const void *one, const void *other)
{
	const struct profile_pair *a = one, *b = other;

	return (a->ns < b->ns) - (a->ns > b->ns);
}

static void add_pairs(const struct profile *profile, const struct profile_style *style, struct buffer *to)
{
	qsort(profile->pairs, profile->pair_count, sizeof(*profile->pairs), compare_pairs);
	buffer_add_format(to, "\n%9s  THREAD\n", "WAITED");
	for (uint32_t i = 0; i < profile->pair_count && i < style->top; i++) {
		struct buffer name = {0};

		profile_thread_name(profile, profile->pairs[i].waiter, &name);
		buffer_add_text(&name, " for ");
		if (profile->pairs[i].holder == PROFILE_NOBODY)
			buffer_add_text(&name, "a thread that is not known");
		else
			profile_thread_name(profile, profile->pairs[i].holder, &name);
		add_amount(PROFILE_WAITED, profile->pairs[i].ns, to);
		buffer_add_text(to, "  ");
		buffer_add_printable(to, name.bytes, name.size);
		buffer_add_char(to, '\n');
		buffer_free(&name);
	}
	if (profile->pair_count > style->top)
		buffer_add_format(to, "%11s%" PRIu32 " more\n", "", profile->pair_count - style->top);
}

/* Who had it, after who waited; and which thread for which. */
static void add_holders(const struct profile *profile, const struct profile_style *style, unsigned width, struct buffer *to)
{
	struct profile_view held = profile_view_make(profile, PROFILE_HELD, false);

	add_table(&held, style, width, to);
	profile_view_free(&held);
	add_pairs(profile, style, to);
}

/* --- The tree */

static void add_node(const struct profile_view *view, uint32_t number, unsigned width, struct buffer *to)
{
	const struct profile_view_node *node = &view->nodes[number];
	unsigned indentation = node->depth - 1 < INDENTATION_MAX ? node->depth - 1 : INDENTATION_MAX;
	struct buffer name = {0};
	size_t from = to->size;

	buffer_add_format(to, "%5.1f%% %5.1f%%  %*s", percent(node->total, view->total), percent(node->self, view->total),
	                  (int)indentation, "");
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
	uint64_t least = (uint64_t)(TREE_LEAST * (double)view->total);
	uint32_t number = view->nodes[0].first_child;
	bool deeper = false;

	buffer_add_format(to, "\n%6s %6s  TREE\n", "TOTAL", "SELF");
	while (number) {
		const struct profile_view_node *node = &view->nodes[number];
		bool shown = node->total > least && node->depth <= TREE_DEPTH_MAX;

		deeper = deeper || (node->total > least && !shown);
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
	if (deeper)
		buffer_add_format(to, "%16slevels below the first %d are left out; exports have them\n", "", TREE_DEPTH_MAX);
}

void profile_text(const struct profile *profile, const struct profile_style *style, struct buffer *to)
{
	bool gvl = style->weight == PROFILE_WAITED || style->weight == PROFILE_HELD;
	struct profile_view view = profile_view_make(profile, style->weight, style->threads);
	unsigned width = style->width ? style->width : WIDTH_DEFAULT;
	bool all_known = true;

	for (uint32_t i = 0; i < profile->process_count; i++) {
		add_process(profile, i, to);
		if (style->weight == PROFILE_CPU && profile->processes[i].summary.cpu_samples)
			add_certainty(profile->processes[i].summary.cpu_samples, to);
		all_known = all_known && !profile_ended_early(&profile->processes[i].summary);
	}
	if (!view.total && all_known) {
		buffer_add_format(to, "%s\n", profile_unit(view.weight)->none);
	} else if (view.total) {
		add_table(&view, style, width, to);
		if (gvl)
			add_holders(profile, style, width, to);
		else
			add_threads(profile, style, to);
		if (!style->no_tree)
			add_tree(&view, width, to);
	}
	profile_view_free(&view);
}
