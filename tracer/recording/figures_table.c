/* Figures as a table. See figures.h. */

#include "tracer/recording/figures_parts.h"

#include <stdlib.h>

static void add_key(const struct figures *figures, const struct row *row, struct buffer *key)
{
	if (figures->by == FIGURES_BY_THREAD)
		buffer_add_slice(key, figures->words.texts[row->around]);
	if (figures->by == FIGURES_BY_CALLER && row->around)
		buffer_add_slice(key, figures->words.texts[row->around - 1]);
	if (figures->by != FIGURES_BY_PATH)
		return;
	if (row->around) {
		add_key(figures, &figures->rows[row->around - 1], key);
		buffer_add_char(key, STAT_PATH_SEPARATOR);
	}
	buffer_add_slice(key, figures->words.texts[row->name]);
}

static void add_buckets(const struct row *row, struct stat_row *to)
{
	for (uint32_t octave = 0; octave < HISTOGRAM_OCTAVES; octave++)
		for (uint32_t i = 0; row->octaves[octave] && i < HISTOGRAM_PER_OCTAVE; i++) {
			uint32_t number = octave * HISTOGRAM_PER_OCTAVE + i;
			double least = (double)histogram_least(number);

			if (!row->octaves[octave][i])
				continue;
			to->buckets = memory_resize(to->buckets, (to->bucket_count + 1) * sizeof(*to->buckets));
			to->buckets[to->bucket_count++] = (struct stat_bucket){.number = number,
			                                                       .least_ns = least,
			                                                       .most_ns = least + (double)histogram_width(number),
			                                                       .count = row->octaves[octave][i]};
		}
}

struct stat_table figures_table(const struct figures *figures)
{
	struct stat_table table = {0}, one = {0};

	for (uint32_t i = 0; i < figures->row_count; i++) {
		const struct row *row = &figures->rows[i];
		struct buffer key = {0};
		struct stat_row *to;

		add_key(figures, row, &key);
		one.rows = memory_resize(one.rows, (one.count + 1) * sizeof(*one.rows));
		to = &one.rows[one.count++];
		*to = (struct stat_row){.name = figures->words.texts[row->name],
		                        .key = {key.bytes, key.size},
		                        .is_node = figures->by == FIGURES_BY_PATH,
		                        .calls = row->calls,
		                        .folded = row->folded,
		                        .timed = row->calls > 0,
		                        .errors = row->errors,
		                        .total_ns = row->total_ns,
		                        .self_ns = row->self_ns,
		                        .min_ns = row->min_ns,
		                        .max_ns = row->max_ns};
		add_buckets(row, to);
	}
	stat_table_sum(&table, &one);
	for (size_t i = 0; i < one.count; i++) {
		free((char *)one.rows[i].key.bytes);
		free(one.rows[i].buckets);
	}
	free(one.rows);
	table.pid = recorded_pid(&figures->processes);
	table.processes = recorded_count(&figures->processes);
	table.open = figures->open;
	table.lost = figures->lost;
	table.left_out = figures->left_out;
	table.elapsed_ns = figures->processes.longest_ns;
	stat_table_rate(&table);
	return table;
}

struct figure_spread figures_spread(const struct figures *figures, struct slice name, struct slice key)
{
	uint32_t number = words_find(&figures->words, name), around = 0, place;

	if (figures->by == FIGURES_BY_THREAD)
		around = words_find(&figures->words, key);
	if (number == NO_WORD || around == NO_WORD || !figures->place_count)
		return (struct figure_spread){0};
	place = figures->places[figures_place(figures, number, around)];
	return place ? figures->rows[place - 1].spread : (struct figure_spread){0};
}
