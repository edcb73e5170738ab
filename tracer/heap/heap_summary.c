/* Counting the lines of a dump. See heap_summary.h. */

#include "tracer/heap/heap_summary.h"

#include <stdlib.h>

void heap_summary_open(struct heap_summary *summary, struct heap_classes *classes, unsigned details, uint32_t shown)
{
	*summary = (struct heap_summary){.classes = classes, .pairs_wanted = details & HEAP_DETAIL_PAIRS};
	if (details & HEAP_DETAIL_OBJECTS) {
		summary->strings = heap_strings_new(shown);
		summary->biggest.limit = shown;
	}
}

void heap_summary_close(struct heap_summary *summary)
{
	heap_strings_free(summary->strings);
	heap_biggest_free(&summary->biggest);
	heap_names_free(&summary->types);
	heap_names_free(&summary->hidden);
	heap_names_free(&summary->files);
	heap_index_free(&summary->kind_index);
	heap_index_free(&summary->site_index);
	heap_index_free(&summary->generations);
	heap_index_free(&summary->pair_index);
	free(summary->by_type);
	free(summary->kinds);
	free(summary->by_kind);
	free(summary->sites);
	free(summary->by_site);
	free(summary->generation_of);
	free(summary->by_generation);
	free(summary->pairs);
	free(summary->by_pair);
	buffer_free(&summary->scratch);
	*summary = (struct heap_summary){0};
}

bool heap_line_is_object(const struct heap_line *line)
{
	return !heap_line_is(line, "ROOT") && !heap_line_is(line, "SHAPE") && !heap_line_is(line, "NONE");
}

static void tally(struct heap_tally *tally, const struct heap_line *line)
{
	tally->objects++;
	tally->bytes += line->memsize;
}

/* Counts it under this number of a table. */
static void count(struct heap_tally **tallies, uint32_t *capacity, uint32_t number, const struct heap_line *line)
{
	*tallies = heap_entries(*tallies, capacity, number, sizeof(**tallies));
	tally(&(*tallies)[number], line);
}

/*
 * The VM's own objects: their class is none of the program's, or not even a class (Ruby before 3.2). And those that are dead, and
 * only wait for their finalizers.
 */
static bool is_internal(const struct heap_line *line)
{
	return heap_line_is(line, "IMEMO") || heap_line_is(line, "ICLASS") || heap_line_is(line, "ZOMBIE");
}

static uint32_t hidden_number(struct heap_summary *summary, const struct heap_line *line)
{
	const struct slice kind = line->imemo_type.size ? line->imemo_type : line->struct_name;
	struct buffer *label = &summary->scratch;

	label->size = 0;
	buffer_add_char(label, '(');
	buffer_add_slice(label, line->type);
	if (kind.size) {
		buffer_add_char(label, ' ');
		buffer_add_slice(label, kind);
	}
	buffer_add_char(label, ')');
	return heap_names_add(&summary->hidden, (struct slice){label->bytes, label->size});
}

static uint32_t count_kind(struct heap_summary *summary, const struct heap_line *line)
{
	struct heap_kind kind = {HEAP_TABLE_NONE, HEAP_TABLE_NONE};
	uint32_t number;
	bool is_new;

	if (line->class_address && !is_internal(line))
		kind.class = heap_classes_number(summary->classes, line->class_address);
	if (kind.class == HEAP_TABLE_NONE || heap_line_is(line, "DATA"))
		kind.hidden = hidden_number(summary, line);
	number = heap_index_add(&summary->kind_index, (uint64_t)kind.class << 32 | kind.hidden, &is_new);
	summary->kinds = heap_entries(summary->kinds, &summary->capacity.kinds, number, sizeof(*summary->kinds));
	summary->kinds[number] = kind;
	count(&summary->by_kind, &summary->capacity.kind_tallies, number, line);
	return number;
}

/* Its number, or HEAP_TABLE_NONE. */
static uint32_t count_site(struct heap_summary *summary, const struct heap_line *line)
{
	struct heap_site site;
	uint32_t number;
	bool is_new;

	if (!line->file.bytes)
		return HEAP_TABLE_NONE;
	site = (struct heap_site){heap_names_add(&summary->files, line->file), line->source_line};
	number = heap_index_add(&summary->site_index, (uint64_t)site.file << 32 | (uint32_t)site.line, &is_new);
	summary->sites = heap_entries(summary->sites, &summary->capacity.sites, number, sizeof(*summary->sites));
	summary->sites[number] = site;
	tally(&summary->with_site, line);
	count(&summary->by_site, &summary->capacity.site_tallies, number, line);
	return number;
}

static void count_generation(struct heap_summary *summary, const struct heap_line *line)
{
	uint32_t number;
	bool is_new;

	if (!line->has_generation)
		return;
	number = heap_index_add(&summary->generations, line->generation, &is_new);
	summary->generation_of =
		heap_entries(summary->generation_of, &summary->capacity.generations, number, sizeof(*summary->generation_of));
	summary->generation_of[number] = line->generation;
	count(&summary->by_generation, &summary->capacity.generation_tallies, number, line);
}

static void count_pair(struct heap_summary *summary, const struct heap_line *line, struct heap_pair pair)
{
	uint32_t number;
	bool is_new;

	number = heap_index_add(&summary->pair_index, (uint64_t)pair.kind << 32 | pair.site, &is_new);
	summary->pairs = heap_entries(summary->pairs, &summary->capacity.pairs, number, sizeof(*summary->pairs));
	summary->pairs[number] = pair;
	count(&summary->by_pair, &summary->capacity.pair_tallies, number, line);
}

static void note_biggest(struct heap_summary *summary, const struct heap_line *line, uint32_t type, struct heap_pair pair)
{
	if (!heap_biggest_wants(&summary->biggest, line->memsize, line->address))
		return;
	heap_biggest_add(&summary->biggest, &(struct heap_object){.address = line->address,
	                                                          .memsize = line->memsize,
	                                                          .size = line->has_bytesize ? line->bytesize : line->length,
	                                                          .has_size = line->has_bytesize || line->has_length,
	                                                          .type = type,
	                                                          .kind = pair.kind,
	                                                          .site = pair.site});
}

struct heap_pair heap_summary_add(struct heap_summary *summary, const struct heap_line *line)
{
	struct heap_pair pair = {HEAP_TABLE_NONE, HEAP_TABLE_NONE};
	uint32_t type;

	if (!heap_line_is_object(line)) {
		if (heap_line_is(line, "ROOT"))
			summary->roots++;
		else if (heap_line_is(line, "SHAPE"))
			tally(&summary->shapes, line);
		else
			summary->free_slots++;
		return pair;
	}
	tally(&summary->total, line);
	type = heap_names_add(&summary->types, line->type);
	count(&summary->by_type, &summary->capacity.types, type, line);
	pair.kind = count_kind(summary, line);
	pair.site = count_site(summary, line);
	count_generation(summary, line);
	if (summary->pairs_wanted)
		count_pair(summary, line, pair);
	if (summary->strings) {
		note_biggest(summary, line, type, pair);
		if (heap_line_is(line, "STRING"))
			heap_strings_add(summary->strings, line);
	}
	return pair;
}
