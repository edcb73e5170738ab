/* A closer look at one method. See top_watch.h. */

#include "tracer/top/top_watch.h"

#include "proto/clock.h"
#include "tracer/base/message.h"
#include "tracer/top/top_callers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES 20
#define EVERY_MAX 1000000u
#define QUIET_NS (20 * NS_PER_MS) /* after this, a call that has not ended is shown as begun */

struct top_watch {
	enum top_pane_kind kind;
	char selector[600];
	uint32_t every;       /* one of so many calls is looked at; 0: all */
	struct output output; /* what the sink writes, until it is in the pane */
	struct sink *sink;
	struct top_session **sessions;
	size_t count;
	uint64_t last_event_ns;
	bool news, stopped;
	bool *said; /* by session: why it is over */
};

/* 0: each call. */
static uint32_t one_of(double rate)
{
	double wanted = rate / TOP_WATCH_RATE;
	uint32_t every = wanted < EVERY_MAX ? (uint32_t)wanted : EVERY_MAX;

	return every > 1 ? every : 0;
}

static void choose(enum top_pane_kind kind, double rate, struct trace_options *trace)
{
	struct conditions *conditions = &trace->conditions;
	uint32_t most = kind == TOP_PANE_CALLERS ? TOP_CALLERS_RATE : TOP_WATCH_RATE;

	if (kind == TOP_PANE_CALLERS && !conditions->every) {
		conditions->every = one_of(rate);
		trace->flags |= TRACE_AT_RANDOM;
	}
	if (!conditions->rate || conditions->rate > most)
		conditions->rate = most;
}

struct top_watch *top_watch_open(enum top_pane_kind kind, const char *selector, double rate, const pid_t *pids, size_t count,
                                 const struct options *options)
{
	struct top_watch *watch = memory_zeroed(sizeof(*watch));
	struct trace_options trace = options->trace;
	struct sink_style style = {.durations = true, .indent = 3, .many_pids = count > 1};
	char *texts[] = {watch->selector};

	trace.flags &= TRACE_HOOK | TRACE_WITHOUT_HOOK | TRACE_NO_HOOK | TRACE_ATTRIBUTES;
	trace.flags |= kind == TOP_PANE_CALLERS ? TRACE_STACK : TRACE_ARGUMENTS | TRACE_RESULT;
	trace.stack_frames = kind == TOP_PANE_CALLERS ? FRAMES : 0;
	trace.marks.kinds = 0;
	choose(kind, rate, &trace);
	style.flags = trace.flags;
	watch->kind = kind;
	watch->every = trace.conditions.every;
	watch->news = true;
	watch->output.fd = -1;
	snprintf(watch->selector, sizeof(watch->selector), "%s", selector);
	watch->sink = sink_new(kind == TOP_PANE_CALLERS ? &sink_top_callers : &sink_text, &watch->output, &style);
	watch->sessions = memory_zeroed((count + 1) * sizeof(struct top_session *));
	watch->said = memory_zeroed(count + 1);
	watch->count = count;
	for (size_t i = 0; i < count; i++)
		watch->sessions[i] = top_session_open_texts(pids[i], &trace, texts, 1, options, watch->sink);
	return watch;
}

static bool holds(const struct top_watch *watch)
{
	return watch->sink->ops->holds && watch->sink->ops->holds(watch->sink);
}

void top_watch_collect(const struct top_watch *watch, struct top_poll *poll)
{
	for (size_t i = 0; i < watch->count; i++)
		top_poll_add(poll, top_session_descriptor(watch->sessions[i]), top_session_wake_ns(watch->sessions[i]));
	if (holds(watch) && watch->last_event_ns + QUIET_NS < poll->wake_ns)
		poll->wake_ns = watch->last_event_ns + QUIET_NS;
}

void top_watch_step(struct top_watch *watch, struct top_poll *poll, uint64_t now_ns)
{
	for (size_t i = 0; i < watch->count; i++) {
		struct top_session *session = watch->sessions[i];
		short events = top_poll_take(poll);
		bool was_armed = session->armed;

		top_session_step(session, events, now_ns);
		if (events || session->armed != was_armed) {
			watch->last_event_ns = now_ns;
			watch->news = true;
		}
		if (top_session_is_over(session) && session->why[0] && !watch->stopped && !watch->said[i]) {
			message("process %d: %s", (int)session->pid, session->why);
			watch->said[i] = true;
		}
	}
	if (holds(watch) && now_ns - watch->last_event_ns >= QUIET_NS)
		watch->sink->ops->quiet(watch->sink);
}

void top_watch_excuse(struct top_watch *watch, uint64_t busy_ns)
{
	for (size_t i = 0; i < watch->count; i++)
		top_session_excuse(watch->sessions[i], busy_ns);
}

static bool any_armed(const struct top_watch *watch)
{
	for (size_t i = 0; i < watch->count; i++)
		if (watch->sessions[i]->armed)
			return true;
	return false;
}

static void show_callers(struct top_watch *watch, struct top_pane *pane)
{
	struct top_callers *callers = &((struct top_callers_sink *)watch->sink)->callers;
	struct buffer text = {0};

	pane->title.size = 0;
	buffer_add_format(&pane->title, "Callers of %s: of %llu calls", watch->selector, (unsigned long long)callers->root.calls);
	if (watch->every > 1)
		buffer_add_format(&pane->title, ", one in %u", watch->every);
	top_pane_empty(pane);
	if (any_armed(watch))
		top_callers_write(callers, &text);
	else
		buffer_add_text(&text, "attaching\n");
	top_pane_add(pane, (struct slice){text.bytes, text.size});
	buffer_free(&text);
}

bool top_watch_show(struct top_watch *watch, struct top_pane *pane, uint64_t now_ns)
{
	struct output *output = &watch->output;
	bool news = watch->news || output->buffer.size;

	(void)now_ns;
	if (!news)
		return false;
	watch->news = false;
	if (watch->kind == TOP_PANE_CALLERS) {
		show_callers(watch, pane);
		return true;
	}
	if (!pane->title.size)
		buffer_add_format(&pane->title, "Calls of %s, at most %u a second", watch->selector, TOP_WATCH_RATE);
	if (output->buffer.size)
		top_pane_add(pane, (struct slice){output->buffer.bytes, output->buffer.size});
	if (output->status) /* more came at once than is kept */
		top_pane_add(pane, (struct slice){"...\n", 4});
	output->status = 0;
	output->buffer.size = 0;
	return true;
}

void top_watch_stop(struct top_watch *watch)
{
	watch->stopped = true;
	for (size_t i = 0; i < watch->count; i++)
		top_session_stop(watch->sessions[i]);
}

bool top_watch_is_over(const struct top_watch *watch)
{
	for (size_t i = 0; i < watch->count; i++)
		if (!top_session_is_over(watch->sessions[i]))
			return false;
	return true;
}

void top_watch_free(struct top_watch *watch)
{
	if (!watch)
		return;
	for (size_t i = 0; i < watch->count; i++)
		top_session_free(watch->sessions[i]);
	free(watch->sessions);
	free(watch->said);
	sink_free(watch->sink);
	buffer_free(&watch->output.buffer);
	free(watch);
}
