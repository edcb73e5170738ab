/*
 * pprof's profile.proto, packed by gzip: a sample for each stack of each thread, with how often it was found, or how many
 * recorded calls there were, its time, and of samples the CPU time. The thread is a label.
 */

#include "tracer/export/export.h"
#include "tracer/export/losses.h"

#if defined(HAVE_LIBPROTOBUF_C) && defined(HAVE_ZLIB)

#include "tracer/base/gzip.h"
#include "tracer/export/pack.h"
#include "tracer/recording/words.h"

#include <stdlib.h>
#include <tracer/export/pprof.pb-c.h>

#define KINDS 3u

/* The first of the two weights that samples have; the other one belongs to it. */
static enum profile_weight first_kind(const struct profile_view *view)
{
	switch (view->weight) {
	case PROFILE_CPU:
		return PROFILE_WALL;
	case PROFILE_HELD:
		return PROFILE_WAITED;
	case PROFILE_OBJECTS:
		return PROFILE_BYTES;
	default:
		return view->weight;
	}
}

static const char *kind_name(enum profile_weight weight)
{
	static const char *const names[PROFILE_WEIGHTS] = {
		[PROFILE_WALL] = "wall",         [PROFILE_CPU] = "cpu",       [PROFILE_BUSY] = "wall",
		[PROFILE_WAITED] = "gvl_waited", [PROFILE_HELD] = "gvl_held", [PROFILE_BYTES] = "bytes",
		[PROFILE_OBJECTS] = "objects"};

	return names[weight];
}

static const char *kind_unit(enum profile_weight weight)
{
	return weight == PROFILE_BYTES ? "bytes" : weight == PROFILE_OBJECTS ? "count" : "nanoseconds";
}

struct writing {
	const struct profile_view *view;
	struct buffer message;
	struct words strings; /* the first one is "" */
	struct buffer text;
};

static void add(struct writing *writing, const Perftools__Profiles__Profile *part)
{
	pack_message(&writing->message, &part->base);
}

/* The number of a text, as it may be shown: nothing in it ends a string. */
static int64_t string_of(struct writing *writing, struct slice text)
{
	writing->text.size = 0;
	buffer_add_printable(&writing->text, text.bytes, text.size);
	return words_number(&writing->strings, (struct slice){writing->text.size ? writing->text.bytes : "", writing->text.size});
}

static int64_t word(struct writing *writing, const char *text)
{
	return string_of(writing, (struct slice){text, strlen(text)});
}

static void add_kind(struct writing *writing, const char *type, const char *unit)
{
	Perftools__Profiles__Profile part = PERFTOOLS__PROFILES__PROFILE__INIT;
	Perftools__Profiles__ValueType kind = PERFTOOLS__PROFILES__VALUE_TYPE__INIT, *kinds = &kind;

	kind.type = word(writing, type);
	kind.unit = word(writing, unit);
	part.n_sample_type = 1;
	part.sample_type = &kinds;
	add(writing, &part);
}

static void add_function(struct writing *writing, uint32_t number)
{
	const struct profile *profile = writing->view->profile;
	Perftools__Profiles__Profile part = PERFTOOLS__PROFILES__PROFILE__INIT;
	Perftools__Profiles__Function function = PERFTOOLS__PROFILES__FUNCTION__INIT, *functions = &function;

	function.id = number + 1;
	function.name = function.system_name = string_of(writing, profile_label(profile, number));
	function.filename = string_of(writing, profile_path(profile, number));
	function.start_line = profile->functions[number].line > 0 ? profile->functions[number].line : 0;
	part.n_function = 1;
	part.function = &functions;
	add(writing, &part);
}

static void add_location(struct writing *writing, uint64_t id, const struct profile_node *node)
{
	Perftools__Profiles__Profile part = PERFTOOLS__PROFILES__PROFILE__INIT;
	Perftools__Profiles__Location location = PERFTOOLS__PROFILES__LOCATION__INIT, *locations = &location;
	Perftools__Profiles__Line line = PERFTOOLS__PROFILES__LINE__INIT, *lines = &line;

	line.function_id = node->function + 1;
	line.line = node->line > 0 ? node->line : writing->view->profile->functions[node->function].line;
	location.id = id;
	location.n_line = 1;
	location.line = &lines;
	part.n_location = 1;
	part.location = &locations;
	add(writing, &part);
}

struct place {
	uint32_t function, node;
	int32_t line;
};

static int compare_places(const void *one, const void *other)
{
	const struct place *a = one, *b = other;

	if (a->function != b->function)
		return a->function > b->function ? 1 : -1;
	return (a->line > b->line) - (a->line < b->line);
}

/* Nodes of the same line of the same function are one location. By node, from 1 on; for free(). */
static uint64_t *add_locations(struct writing *writing)
{
	const struct profile *profile = writing->view->profile;
	struct place *places = memory_zeroed(profile->node_count * sizeof(*places));
	uint64_t *ids = memory_zeroed(profile->node_count * sizeof(*ids)), id = 0;
	uint32_t count = profile->node_count - 1;

	for (uint32_t i = 0; i < count; i++)
		places[i] = (struct place){profile->nodes[i + 1].function, i + 1, profile->nodes[i + 1].line};
	qsort(places, count, sizeof(*places), compare_places);
	for (uint32_t i = 0; i < count; i++) {
		if (i == 0 || compare_places(&places[i - 1], &places[i]) != 0)
			add_location(writing, ++id, &profile->nodes[places[i].node]);
		ids[places[i].node] = id;
	}
	free(places);
	return ids;
}

static void add_sample(struct writing *writing, const struct profile_sum *sum, const uint64_t *ids, uint64_t *stack)
{
	const struct profile *profile = writing->view->profile;
	enum profile_weight first = first_kind(writing->view), other = profile_unit(first)->other;
	Perftools__Profiles__Profile part = PERFTOOLS__PROFILES__PROFILE__INIT;
	Perftools__Profiles__Sample sample = PERFTOOLS__PROFILES__SAMPLE__INIT, *samples = &sample;
	Perftools__Profiles__Label label = PERFTOOLS__PROFILES__LABEL__INIT, *labels = &label;
	int64_t values[KINDS] = {(int64_t)sum->ticks, (int64_t)sum->weights[first], (int64_t)sum->weights[other]};
	struct buffer thread = {0};

	if (first == PROFILE_BUSY && !sum->weights[first] && !sum->weights[other])
		return;
	for (uint32_t node = sum->node; node; node = profile->nodes[node].parent)
		stack[sample.n_location_id++] = ids[node];
	sample.location_id = stack;
	sample.n_value = profile->rate_hz ? KINDS : KINDS - 1;
	sample.value = values;
	profile_thread_name(profile, sum->thread, &thread);
	label.key = word(writing, "thread");
	label.str = string_of(writing, (struct slice){thread.bytes, thread.size});
	sample.n_label = 1;
	sample.label = &labels;
	part.n_sample = 1;
	part.sample = &samples;
	add(writing, &part);
	buffer_free(&thread);
}

static void add_strings(struct writing *writing)
{
	for (uint32_t i = 0; i < writing->strings.count; i++) {
		Perftools__Profiles__Profile part = PERFTOOLS__PROFILES__PROFILE__INIT;
		char *text = (char *)writing->strings.texts[i].bytes;

		part.n_string_table = 1;
		part.string_table = &text;
		add(writing, &part);
	}
}

static void add_numbers(struct writing *writing)
{
	const struct profile *profile = writing->view->profile;
	Perftools__Profiles__Profile part = PERFTOOLS__PROFILES__PROFILE__INIT;
	Perftools__Profiles__ValueType kind = PERFTOOLS__PROFILES__VALUE_TYPE__INIT;

	part.default_sample_type = word(writing, kind_name(writing->view->weight));
	for (uint32_t i = 0; i < profile->process_count; i++)
		if ((int64_t)profile->processes[i].summary.elapsed_ns > part.duration_nanos)
			part.duration_nanos = (int64_t)profile->processes[i].summary.elapsed_ns;
	if (profile->rate_hz && !profile->of_objects) {
		kind.type = word(writing, kind_name(first_kind(writing->view)));
		kind.unit = word(writing, kind_unit(first_kind(writing->view)));
		part.period_type = &kind;
		part.period = 1000000000 / (int64_t)profile->rate_hz;
	}
	add(writing, &part);
}

static void add_losses(struct writing *writing)
{
	Perftools__Profiles__Profile part = PERFTOOLS__PROFILES__PROFILE__INIT;
	struct buffer losses = {0};
	int64_t comment;

	if (losses_add(writing->view->profile, &losses)) {
		comment = string_of(writing, (struct slice){losses.bytes, losses.size});
		part.n_comment = 1;
		part.comment = &comment;
		add(writing, &part);
	}
	buffer_free(&losses);
}

static struct export_left write_pprof(const struct profile_view *view, struct output *output)
{
	const struct profile *profile = view->profile;
	enum profile_weight first = first_kind(view), other = profile_unit(first)->other;
	uint64_t *stack = memory_zeroed(profile->node_count * sizeof(*stack)), *ids;
	struct writing writing = {.view = view};

	word(&writing, "");
	add_kind(&writing, profile->rate_hz ? "samples" : "calls", "count");
	add_kind(&writing, kind_name(first), kind_unit(first));
	if (profile->rate_hz)
		add_kind(&writing, kind_name(other), kind_unit(other));
	for (uint32_t i = 0; i < profile->function_count; i++)
		add_function(&writing, i);
	ids = add_locations(&writing);
	for (uint32_t i = 0; i < profile->sum_count; i++)
		add_sample(&writing, &profile->sums[i], ids, stack);
	add_numbers(&writing);
	add_losses(&writing);
	add_strings(&writing);
	gzip_add(&output->buffer, &writing.message);
	free(ids);
	free(stack);
	buffer_free(&writing.message);
	buffer_free(&writing.text);
	words_free(&writing.strings);
	return (struct export_left){0};
}

#define WRITE_PPROF write_pprof
#else
#define WRITE_PPROF NULL
#endif

const struct export_format export_pprof = {
	.name = "pprof",
	.profile = WRITE_PPROF,
	.binary = true,
	.needs = {[LIBRARY_PROTOBUF] = true, [LIBRARY_ZLIB] = true},
};
