/*
 * The statistics request: what has been counted so far. Context: job; the exit of the process, where statistics_last_words() says
 * so. Nothing of Ruby's is called but to hand over the GVL and, for who asks, GC.total_time.
 */

#include "tracee/observe/statistics.h"

#include "tracee/base/msgpack_builder.h"
#include "tracee/observe/marks.h"
#include "tracee/observe/probe.h"
#include "tracee/observe/tally.h"
#include "tracee/observe/tally_keys.h"
#include "tracee/observe/tally_tree.h"
#include "tracee/session/request.h"
#include "tracee/session/session.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/fiber.h"
#include "tracee/vm/gvl_slice.h"
#include "tracee/vm/interrupts.h"

#include <errno.h>
#include <ruby.h>

#define PIECE_SIZE (64u << 10) /* about so large is one DATA */

/* A report is sent in pieces, each of which is sent by: */
struct report {
	struct session *session;
	struct request *request; /* NULL: nobody asked */
	struct gvl_slice *slice; /* NULL: the GVL is not handed over */
	struct msgpack_builder answer;
	bool failed;
};

static void add_histogram(struct msgpack_builder *answer, const struct tallies *tallies, const struct tally *tally)
{
	builder_array(answer, "histogram");
	for (uint32_t octave = 0; octave < HISTOGRAM_OCTAVES; octave++) {
		const uint64_t *counts = tallies->blocks[tally->octaves[octave]];

		for (uint32_t i = 0; tally->octaves[octave] && i < HISTOGRAM_PER_OCTAVE; i++) {
			if (!counts[i])
				continue;
			builder_uint(answer, NULL, octave * HISTOGRAM_PER_OCTAVE + i);
			builder_uint(answer, NULL, counts[i]);
		}
	}
	builder_end(answer);
}

static void add_measured(struct msgpack_builder *answer, uint32_t flags, const struct tally *tally)
{
	if (flags & TRACE_CPU)
		builder_uint(answer, "cpu_ns", tally->cpu_ns);
	if (flags & TRACE_OBJECTS)
		builder_uint(answer, "objects", tally->objects);
	if (flags & TRACE_GC)
		builder_uint(answer, "gc_ns", tally->gc_ns);
	if (flags & TRACE_MEASURES)
		builder_uint(answer, "unmeasured", tally->unmeasured);
}

/* key: NULL, or what these calls have in common. node: NULL, or what these figures are of. */
static void add_tally(struct msgpack_builder *answer, const struct session *session, const struct probe *probe, const char *key,
                      const struct tally_node *node, const struct tally *tally)
{
	builder_map(answer, NULL);
	if (key)
		builder_cstr(answer, "key", key);
	if (node) {
		builder_uint(answer, "parent", node->parent);
		builder_uint(answer, "folded", node->folded);
	}
	builder_uint(answer, "method", probe->ref);
	builder_uint(answer, "calls", tally->calls);
	if (probe->let_go)
		builder_uint(answer, "let_go_ns", probe->let_go_ns - session->tallies->began_ns);
	if (tally->least <= tally->most) {
		builder_uint(answer, "errors", tally->errors);
		builder_uint(answer, "total", tally->total);
		builder_uint(answer, "self", tally->total > tally->inner ? tally->total - tally->inner : 0);
		builder_uint(answer, "min", tally->least);
		builder_uint(answer, "max", tally->most);
		builder_uint(answer, "unplaced", tally->unplaced);
		add_measured(answer, session->options.flags, tally);
		add_histogram(answer, session->tallies, tally);
	}
	builder_end(answer);
}

static void begin_piece(struct report *report)
{
	builder_map(&report->answer, NULL);
	builder_array(&report->answer, "methods");
}

static bool send_piece(struct report *report)
{
	struct record record = {.kind = RECORD_DATA};
	struct msgpack_builder *answer = &report->answer;

	builder_end(answer);
	if (report->request)
		return request_answer(report->request, answer);
	if (answer->failed)
		return false;
	record.data.packed = (struct slice){answer->buffer.data, answer->buffer.size};
	session_send(report->session, &record);
	builder_clear(answer);
	return true;
}

/* May raise. */
static VALUE ask_gc(VALUE total_ns)
{
	if (builtin_has(BUILTIN_GC_TOTAL_TIME) && builtin_has(BUILTIN_GC_MEASURE_TOTAL_TIME) &&
	    RTEST(builtin_call0(BUILTIN_GC_MEASURE_TOTAL_TIME, rb_mGC)))
		*(uint64_t *)total_ns = NUM2ULL(builtin_call0(BUILTIN_GC_TOTAL_TIME, rb_mGC));
	return Qnil;
}

/* What else takes the time of all threads. */
static void add_shares(struct report *report)
{
	uint64_t gvl[MARK_GVL_DOINGS], gc_total_ns = UINT64_MAX;
	int failed = 0;

	/* At the process's end Ruby is not called any more. */
	if (report->request)
		rb_protect(ask_gc, (VALUE)&gc_total_ns, &failed);
	if (failed)
		interrupts_forget_failure();
	if (gc_total_ns != UINT64_MAX)
		builder_uint(&report->answer, "gc_total_ns", gc_total_ns);
	if (!(report->session->marking & 1u << MARK_GVL))
		return;
	mark_gvl_sums(gvl);
	builder_array(&report->answer, "gvl_ns");
	for (int i = 0; i < MARK_GVL_DOINGS; i++)
		builder_uint(&report->answer, NULL, gvl[i]);
	builder_end(&report->answer);
}

static void end_report(struct report *report)
{
	struct session *session = report->session;
	struct msgpack_builder *answer = &report->answer;
	struct tallies *tallies = session->tallies;

	builder_end(answer);
	builder_uint(answer, "rate", ticks_rate_since(&tallies->opened));
	builder_uint(answer, "elapsed_ns", clock_now_ns() - tallies->began_ns);
	builder_uint(answer, "open", fiber_calls_left(session->slot, RING_LATER));
	builder_uint(answer, "left_out", session->left_out);
	if (tallies->tree)
		builder_uint(answer, "folded", tally_tree_folded(tallies->tree));
	builder_bool(answer, "full", tallies->used == tallies->limit);
	add_shares(report);
	report->failed = !send_piece(report) || report->failed;
}

static void add(struct report *report, const struct probe *probe, const char *key, const struct tally_node *node,
                const struct tally *tally)
{
	/* Calls go on between the pieces. */
	tally_settle(report->session->tallies);
	/* A node without calls may have others below it. What was let go may be called as often as it will. */
	if (!tally || (!tally->calls && !node && !probe->let_go))
		return;
	add_tally(&report->answer, report->session, probe, key, node, tally);
	if (report->answer.buffer.size < PIECE_SIZE)
		return;
	builder_end(&report->answer);
	report->failed = !send_piece(report) || report->failed;
	begin_piece(report);
	if (report->slice)
		gvl_slice_pass(report->slice);
}

/* False: without memory, or what is to be sent is too large. Then the report is not whole. */
static bool send_report(struct report *report)
{
	const struct session *session = report->session;
	const struct tally_tree *tree = session->tallies->tree;
	const struct keyed_tally *keyed;
	const struct tally_node *node;
	const char *key = NULL;

	builder_init(&report->answer);
	begin_piece(report);
	for (const struct probe *probe = session->probes->first_made; probe; probe = probe->next_made)
		add(report, probe, NULL, NULL, probe->tally);
	for (uint32_t i = 0; (keyed = tally_keys_at(session->tallies->keys, i, &key)); i++)
		add(report, keyed->probe, key, NULL, &keyed->tally);
	/* In a tree no probe has figures of its own, so that these are numbered from 1. */
	for (uint32_t i = 0; tree && (node = tally_tree_at(tree, i)); i++)
		add(report, node->probe, NULL, node, &node->tally);
	end_report(report);
	builder_free(&report->answer);
	return !report->failed;
}

static void statistics_begin(struct request *request, const struct command *command)
{
	struct gvl_slice slice;
	struct report report = {.session = request->session, .request = request, .slice = &slice};

	(void)command;
	if (!request->session->tallies || !request->session->probes) {
		request_finish(request, EINVAL, "this session counts nothing");
		return;
	}
	gvl_slice_begin(&slice);
	if (send_report(&report))
		request_finish(request, 0, "%s", "");
	else
		request_finish(request, ENOMEM, "the process has no memory for an answer");
}

const struct request_kind request_statistics = {.name = "statistics", .begin = statistics_begin};

void statistics_last_words(struct session *session)
{
	struct report report = {.session = session};

	if (!session->tallies || !session->probes || session->tallies->told)
		return;
	session->tallies->told = true;
	send_report(&report);
}
