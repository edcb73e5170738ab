/* The loop of `rbprobe top`: the terminal, the sessions and the clock. See top.h. */

#include "tracer/top/top.h"

#include "proto/clock.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/base/signals.h"
#include "tracer/cli/choose_processes.h"
#include "tracer/top/top_auto.h"
#include "tracer/top/top_keys.h"
#include "tracer/top/top_poll.h"
#include "tracer/top/top_process.h"
#include "tracer/top/top_screen.h"
#include "tracer/top/top_select.h"
#include "tracer/top/top_source.h"
#include "tracer/top/top_view.h"
#include "tracer/top/top_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JOIN_NS NS_PER_S
#define BUSY_NS NS_PER_S /* so long after its time a turn comes only where rbprobe was stopped */

struct top {
	const struct top_wish *wish;
	int signals;
	struct top_process *processes;
	size_t count;
	struct top_model model;
	struct top_pane pane;
	struct top_poll poll;
	struct top_auto chooser;        /* of methods, where */
	bool chooses;                   /* no selectors were given */
	struct trace_options counting;  /* of the sessions that count */
	struct top_watch *watch, *left; /* of the pane; and of the one before, which is letting go. NULL: none */
	uint64_t join_ns;               /* when workers that have started are looked for next */
	uint64_t ask_ns;                /* when figures are asked for next */
	uint64_t end_ns;                /* --duration; 0: it is not over by itself */
	bool leaving;
	bool changed; /* the screen shows what was */
};

/* --- Figures */

static void show_figures(struct top *top)
{
	const struct stat_table **tables = memory_zeroed((top->count + 1) * sizeof(*tables));

	for (size_t i = 0; i < top->count; i++)
		tables[i] = top->model.since_start ? &top->processes[i].total : &top->processes[i].last;
	top_model_set(&top->model, tables, top->count);
	free(tables);
	top->changed = true;
}

static void ask(struct top *top, uint64_t now_ns)
{
	uint64_t interval_ns = top->wish->options->interval_ns;

	if (now_ns < top->ask_ns)
		return;
	top->ask_ns = now_ns + interval_ns;
	top->changed = true;
	for (size_t i = 0; i < top->count && !top->model.paused; i++)
		if (top->processes[i].session)
			top_session_ask(top->processes[i].session);
}

static void update(struct top *top, uint64_t now_ns)
{
	bool news = false;

	for (size_t i = 0; i < top->count; i++) {
		struct top_process *process = &top->processes[i];
		bool was_gone = process->gone;

		news = top_process_update(process, now_ns) || news;
		if (process->gone && !was_gone)
			message("process %d: %s", (int)process->pid, process->why);
	}
	if (news)
		show_figures(top);
}

/* --- Methods that were chosen */

/* A process that could not even be sampled. */
static void note_failure(struct top *top, struct top_process *process)
{
	const struct error *failure = top_auto_failure(&top->chooser, process->pid);

	if (!failure || process->session || process->gone || process->total.complete)
		return;
	process->gone = true;
	process->outcome = TOP_NOT_ATTACHED;
	snprintf(process->why, sizeof(process->why), "%.*s", (int)sizeof(process->why) - 1, failure->text);
	message("%s", failure->text);
	top->changed = true;
}

/*
 * Other methods are to be counted: the sessions end, and when the last has sent its figures, new ones begin. What happens in
 * between is not counted, and the time in between not either.
 */
static void count_chosen(struct top *top)
{
	bool waiting = false;

	for (size_t i = 0; i < top->count; i++)
		if (top->processes[i].session) {
			top_session_stop(top->processes[i].session);
			waiting = true;
		}
	if (waiting)
		return;
	for (size_t i = 0; i < top->count && top->chooser.name_count; i++)
		if (!top->processes[i].gone)
			top_process_count(&top->processes[i],
			                  top_session_open_texts(top->processes[i].pid, &top->counting, top->chooser.names,
			                                         top->chooser.name_count, top->wish->options, NULL));
	top->chooser.ready = false;
}

static void choose(struct top *top, uint64_t now_ns)
{
	pid_t *pids;
	size_t count = 0;

	if (!top->chooses)
		return;
	if (top->chooser.ready) {
		count_chosen(top);
		return;
	}
	pids = memory_zeroed((top->count + 1) * sizeof(*pids));
	for (size_t i = 0; i < top->count; i++) {
		note_failure(top, &top->processes[i]);
		if (!top->processes[i].gone)
			pids[count++] = top->processes[i].pid;
	}
	if (!top->model.paused)
		top_auto_begin(&top->chooser, pids, count, now_ns);
	free(pids);
}

/* --- Keys and signals */

static void open_help(struct top *top)
{
	const char *help = top_keys_help();

	top_pane_open(&top->pane, TOP_PANE_HELP);
	buffer_add_text(&top->pane.title, "Keys");
	top_pane_add(&top->pane, (struct slice){help, strlen(help)});
}

/* The processes that a row is of, and are there. */
static size_t pids_of(const struct top *top, const struct top_row *row, pid_t *pids)
{
	size_t count = 0;

	for (size_t i = 0; i < top->count; i++)
		if (top->processes[i].session && (!row->pid || row->pid == top->processes[i].pid))
			pids[count++] = top->processes[i].pid;
	return count;
}

static void leave_watch(struct top *top)
{
	top_watch_free(top->left);
	top->left = top->watch;
	top->watch = NULL;
	if (top->left)
		top_watch_stop(top->left);
}

static void open_watch(struct top *top, enum top_pane_kind kind)
{
	const struct top_row *row = top_model_selected(&top->model);
	pid_t *pids = memory_zeroed((top->count + 1) * sizeof(*pids));
	size_t count = pids_of(top, row, pids);
	char name[600];

	if (!top_select_one(row->stat->name)) {
		message("%.*s cannot be watched alone: no selector is for this method only", (int)row->stat->name.size,
		        row->stat->name.bytes);
	} else if (!count) {
		message("no process is left that could be watched");
	} else {
		snprintf(name, sizeof(name), "%.*s", (int)row->stat->name.size, row->stat->name.bytes);
		leave_watch(top);
		top_pane_open(&top->pane, kind);
		top->watch = top_watch_open(kind, name, row->rate / (double)count, pids, count, top->wish->options);
	}
	free(pids);
}

static void open_source(struct top *top)
{
	const struct top_row *row = top_model_selected(&top->model);
	const struct method *method = NULL;
	pid_t pid = 0;

	for (size_t i = 0; i < top->count && !method; i++) {
		pid = top->processes[i].pid;
		if (top->processes[i].session && (!row->pid || row->pid == pid))
			method = top_session_method(top->processes[i].session, row->stat->name);
	}
	top_pane_open(&top->pane, TOP_PANE_SOURCE);
	top_source_show(&top->pane, pid, method, row->stat->name);
}

static void leave(struct top *top)
{
	top->leaving = true;
	leave_watch(top);
	top_auto_free(&top->chooser);
	top->chooses = false;
	for (size_t i = 0; i < top->count; i++)
		if (top->processes[i].session)
			top_session_stop(top->processes[i].session);
	update(top, clock_now_ns());
}

static void act(struct top *top, enum top_action action)
{
	switch (action) {
	case TOP_ACTION_QUIT:
		leave(top);
		break;
	case TOP_ACTION_FIGURES:
		show_figures(top);
		break;
	case TOP_ACTION_HELP:
		open_help(top);
		break;
	case TOP_ACTION_BACK:
		leave_watch(top);
		top_pane_close(&top->pane);
		break;
	case TOP_ACTION_CALLERS:
		open_watch(top, TOP_PANE_CALLERS);
		break;
	case TOP_ACTION_FOLLOW:
		open_watch(top, TOP_PANE_FOLLOW);
		break;
	case TOP_ACTION_SOURCE:
		open_source(top);
		break;
	case TOP_ACTION_NONE:
		break;
	}
}

static void take_keys(struct top *top)
{
	int key;

	while (!top->leaving && (key = top_screen_key()) >= 0) {
		top->changed = true;
		act(top, top_keys_press(&top->model, &top->pane, key));
	}
}

/* --- Processes */

static void add_process(struct top *top, pid_t pid)
{
	const struct options *options = top->wish->options;
	struct top_process *process;

	top->processes = memory_resize(top->processes, (top->count + 1) * sizeof(*process));
	process = &top->processes[top->count++];
	top_process_init(process, pid);
	if (!top->wish->chooses)
		top_process_count(process, top_session_open(pid, &top->counting, &options->selectors, options, NULL));
	else if (top->chooser.name_count)
		top_process_count(process, top_session_open_texts(pid, &top->counting, top->chooser.names,
		                                                  top->chooser.name_count, options, NULL));
}

static bool is_there(const struct top *top, pid_t pid)
{
	for (size_t i = 0; i < top->count; i++)
		if (top->processes[i].pid == pid)
			return true;
	return false;
}

/* Workers that have started since. */
static void join(struct top *top, uint64_t now_ns)
{
	const struct pid_list *parents = &top->wish->parents;
	struct pid_list workers = {0};
	size_t before = top->count;

	if (!parents->count || now_ns < top->join_ns)
		return;
	top->join_ns = now_ns + JOIN_NS;
	for (size_t i = 0; i < parents->count; i++)
		choose_joining_children(parents->items[i], &workers);
	for (size_t i = 0; i < workers.count; i++)
		if (!is_there(top, workers.items[i]))
			add_process(top, workers.items[i]);
	free(workers.items);
	if (top->count > before)
		show_figures(top);
}

/* --- A turn */

static bool any_session(const struct top *top)
{
	if (top->left)
		return true;
	for (size_t i = 0; i < top->count; i++)
		if (top->processes[i].session)
			return true;
	return false;
}

static void collect(struct top *top)
{
	top_poll_begin(&top->poll);
	top_poll_add(&top->poll, top->signals, UINT64_MAX);
	top_poll_add(&top->poll, top->leaving ? -1 : STDIN_FILENO, top->leaving ? UINT64_MAX : top->ask_ns);
	if (top->end_ns && top->end_ns < top->poll.wake_ns && !top->leaving)
		top->poll.wake_ns = top->end_ns;
	for (size_t i = 0; i < top->count; i++)
		if (top->processes[i].session)
			top_poll_add(&top->poll, top_session_descriptor(top->processes[i].session),
			             top_session_wake_ns(top->processes[i].session));
	if (top->chooses)
		top_auto_collect(&top->chooser, &top->poll);
	if (top->watch)
		top_watch_collect(top->watch, &top->poll);
	if (top->left)
		top_watch_collect(top->left, &top->poll);
}

/* A suspended client has not looked for answers. */
static void excuse(struct top *top, uint64_t now_ns)
{
	uint64_t busy_ns = top->poll.wake_ns < now_ns ? now_ns - top->poll.wake_ns : 0;

	for (size_t i = 0; i < top->count && busy_ns > BUSY_NS; i++)
		if (top->processes[i].session)
			top_session_excuse(top->processes[i].session, busy_ns);
	if (busy_ns > BUSY_NS && top->chooses)
		top_auto_excuse(&top->chooser, busy_ns);
	if (busy_ns > BUSY_NS && top->watch)
		top_watch_excuse(top->watch, busy_ns);
}

static void step_watches(struct top *top, uint64_t now_ns)
{
	if (top->watch) {
		top_watch_step(top->watch, &top->poll, now_ns);
		top->changed = top_watch_show(top->watch, &top->pane, now_ns) || top->changed;
	}
	if (!top->left)
		return;
	top_watch_step(top->left, &top->poll, now_ns);
	if (top_watch_is_over(top->left)) {
		top_watch_free(top->left);
		top->left = NULL;
	}
}

static void turn(struct top *top)
{
	bool by_process, is_signal;
	short events;
	uint64_t now_ns;

	collect(top);
	top_poll_wait(&top->poll);
	now_ns = clock_now_ns();
	excuse(top, now_ns);
	is_signal = top_poll_take(&top->poll) && signals_take(&by_process);
	events = top_poll_take(&top->poll);
	for (size_t i = 0; i < top->count; i++)
		if (top->processes[i].session)
			top_session_step(top->processes[i].session, top_poll_take(&top->poll), now_ns);
	if (top->chooses)
		top_auto_step(&top->chooser, &top->poll, now_ns);
	step_watches(top, now_ns);
	update(top, now_ns);
	if (is_signal)
		leave(top);
	if (top->leaving)
		return;
	choose(top, now_ns);
	take_keys(top);
	if (events & (POLLHUP | POLLERR | POLLNVAL))
		leave(top); /* the terminal is gone */
	join(top, now_ns);
	ask(top, now_ns);
	if (top->end_ns && now_ns >= top->end_ns)
		leave(top);
}

static void draw(struct top *top)
{
	struct buffer choice = {0};
	const struct top_view view = {.model = &top->model,
	                              .pane = &top->pane,
	                              .processes = top->processes,
	                              .process_count = top->count,
	                              .interval_ns = top->wish->options->interval_ns,
	                              .choice = &choice};

	if (!top->changed)
		return;
	if (top->chooses)
		top_auto_describe(&top->chooser, &choice);
	top_view_draw(&view, clock_now_ns());
	buffer_free(&choice);
	top->changed = false;
}

/* Whether none could be attached to: then there is nothing to look at. */
static bool is_hopeless(const struct top *top)
{
	for (size_t i = 0; i < top->count; i++)
		if (!top->processes[i].gone || top->processes[i].outcome == TOP_GONE || top->processes[i].total.complete)
			return false;
	return true;
}

static int status_of(const struct top *top)
{
	static const int statuses[] = {
		[TOP_NOT_ATTACHED] = STATUS_NOT_ATTACHED, [TOP_FAILED] = STATUS_FAILED, [TOP_GONE] = STATUS_TARGET_GONE};

	for (size_t i = 0; i < top->count; i++)
		if (top->processes[i].outcome > TOP_ENDED)
			return statuses[top->processes[i].outcome];
	return STATUS_DONE;
}

static void begin(struct top *top)
{
	const struct options *options = top->wish->options;

	top->ask_ns = clock_now_ns();
	top->end_ns = options->duration_ns ? top->ask_ns + options->duration_ns : 0;
	top->counting = options->trace;
	top->counting.flags |= TRACE_COUNT;
	top->chooses = top->wish->chooses;
	top_auto_init(&top->chooser, options);
	for (size_t i = 0; i < options->pids.count; i++)
		add_process(top, options->pids.items[i]);
}

int top_run(const struct top_wish *wish, int signals)
{
	struct top top = {.wish = wish, .signals = signals, .changed = true};
	struct error err;
	int status;

	if (top_screen_begin("top needs a terminal; `rbprobe stat --interval 1` shows the same as text",
	                     "`rbprobe stat --interval 1` needs none", &err) < 0) {
		message("%s", err.text);
		return STATUS_USAGE;
	}
	top.model.sort = wish->sort;
	top.model.apart = wish->apart;
	top.model.since_start = wish->since_start;
	begin(&top);
	while (!top.leaving && !is_hopeless(&top)) {
		draw(&top);
		turn(&top);
	}
	top_screen_end();
	top_screen_tell();
	while (any_session(&top))
		turn(&top);
	status = status_of(&top);
	for (size_t i = 0; i < top.count; i++)
		top_process_free(&top.processes[i]);
	free(top.processes);
	top_model_free(&top.model);
	top_pane_close(&top.pane);
	top_auto_free(&top.chooser);
	top_watch_free(top.watch);
	top_watch_free(top.left);
	top_poll_free(&top.poll);
	return status;
}
