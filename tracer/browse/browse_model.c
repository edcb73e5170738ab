/* A tree of calls, of which parts are unfolded. See browse_model.h. */

#define _GNU_SOURCE
#include "tracer/browse/browse_model.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static uint32_t add_node(struct browse *browse, uint32_t parent, struct slice name)
{
	char *copy = memory_resize(NULL, name.size + 1);

	if (browse->count == browse->room) {
		browse->room = browse->room ? 2 * browse->room : 256;
		browse->nodes = memory_resize(browse->nodes, browse->room * sizeof(*browse->nodes));
	}
	if (name.size)
		memcpy(copy, name.bytes, name.size);
	copy[name.size] = '\0';
	browse->nodes[browse->count] = (struct browse_node){.parent = parent, .name = {copy, name.size}};
	if (browse->count) {
		browse->nodes[browse->count].level = browse->nodes[parent].level + 1;
		browse->nodes[browse->count].next = browse->nodes[parent].first_child;
		browse->nodes[parent].first_child = browse->count;
	}
	return browse->count++;
}

void browse_free(struct browse *browse)
{
	for (uint32_t i = 0; i < browse->count; i++)
		free((char *)browse->nodes[i].name.bytes);
	free(browse->nodes);
	free(browse->rows);
	buffer_free(&browse->pattern);
	*browse = (struct browse){0};
}

/* --- Order and rows */

static int compare(const struct browse_node *one, const struct browse_node *other, enum browse_sort sort)
{
	double a = one->total, b = other->total;

	if (sort == BROWSE_SELF) {
		a = one->self;
		b = other->self;
	} else if (sort == BROWSE_CALLS) {
		a = (double)one->calls;
		b = (double)other->calls;
	}
	if (sort != BROWSE_NAME && a != b)
		return a > b ? -1 : 1;
	return strcmp(one->name.bytes, other->name.bytes);
}

struct ordering {
	const struct browse_node *nodes;
	enum browse_sort sort;
};

static int compare_numbers(const void *one, const void *other, void *owner)
{
	const struct ordering *ordering = owner;

	return compare(&ordering->nodes[*(const uint32_t *)one], &ordering->nodes[*(const uint32_t *)other], ordering->sort);
}

static void sort_children(struct browse *browse, uint32_t parent, uint32_t *numbers)
{
	struct ordering ordering = {browse->nodes, browse->sort};
	size_t count = 0;

	for (uint32_t child = browse->nodes[parent].first_child; child; child = browse->nodes[child].next)
		numbers[count++] = child;
	if (!count)
		return;
	qsort_r(numbers, count, sizeof(*numbers), compare_numbers, &ordering);
	browse->nodes[parent].first_child = numbers[0];
	for (size_t i = 0; i < count; i++)
		browse->nodes[numbers[i]].next = i + 1 < count ? numbers[i + 1] : 0;
}

/* The one after it in the order of the tree, where `into` says whether its children are passed over. 0: it is the last. */
static uint32_t node_after(const struct browse *browse, uint32_t node, bool into)
{
	if (into && browse->nodes[node].first_child)
		return browse->nodes[node].first_child;
	while (node && !browse->nodes[node].next)
		node = browse->nodes[node].parent;
	return node ? browse->nodes[node].next : 0;
}

static void keep_in_sight(struct browse *browse)
{
	size_t height = browse->height ? browse->height : 1;

	if (browse->selected >= browse->row_count)
		browse->selected = browse->row_count ? browse->row_count - 1 : 0;
	if (browse->selected < browse->first)
		browse->first = browse->selected;
	if (browse->selected >= browse->first + height)
		browse->first = browse->selected - height + 1;
	if (browse->first && browse->first + height > browse->row_count)
		browse->first = browse->row_count > height ? browse->row_count - height : 0;
}

/* What is marked stays marked. */
static void lay_out(struct browse *browse, uint32_t marked)
{
	browse->row_count = 0;
	for (uint32_t node = browse->nodes[0].first_child; node; node = node_after(browse, node, browse->nodes[node].open)) {
		if (node == marked)
			browse->selected = browse->row_count;
		browse->rows[browse->row_count++] = node;
	}
	keep_in_sight(browse);
}

static uint32_t marked_node(const struct browse *browse)
{
	return browse->row_count ? browse->rows[browse->selected] : 0;
}

static void sort_all(struct browse *browse)
{
	uint32_t *numbers = memory_zeroed((browse->count + 1) * sizeof(*numbers));

	for (uint32_t i = 0; i < browse->count; i++)
		sort_children(browse, i, numbers);
	free(numbers);
	lay_out(browse, marked_node(browse));
}

static void finish(struct browse *browse)
{
	browse->rows = memory_zeroed((browse->count + 1) * sizeof(*browse->rows));
	for (uint32_t node = browse->nodes[0].first_child; node; node = browse->nodes[node].next)
		browse->whole += browse->nodes[node].total;
	sort_all(browse);
	browse->selected = browse->first = 0;
	browse_open_hottest(browse);
}

/* --- Where it comes from */

static int compare_keys(const void *one, const void *other)
{
	const struct slice *a = &(*(const struct stat_row *const *)one)->key, *b = &(*(const struct stat_row *const *)other)->key;
	int order = memcmp(a->bytes, b->bytes, a->size < b->size ? a->size : b->size);

	return order ? order : (a->size > b->size) - (a->size < b->size);
}

static uint32_t node_of(const struct stat_row **rows, const uint32_t *numbers, size_t count, struct slice key)
{
	const struct stat_row wanted = {.key = key}, *pointer = &wanted;
	const struct stat_row **found = bsearch(&pointer, rows, count, sizeof(*rows), compare_keys);

	return found ? numbers[found - rows] : 0;
}

/* A path sorts after its own beginning, so parents come first. */
void browse_from_table(struct browse *browse, const struct stat_table *table)
{
	const struct stat_row **rows = memory_zeroed((table->count + 1) * sizeof(*rows));
	uint32_t *numbers = memory_zeroed((table->count + 1) * sizeof(*numbers));

	browse->has_calls = true;
	add_node(browse, 0, (struct slice){"", 0});
	for (size_t i = 0; i < table->count; i++)
		rows[i] = &table->rows[i];
	qsort(rows, table->count, sizeof(*rows), compare_keys);
	for (size_t i = 0; i < table->count; i++) {
		const struct stat_row *row = rows[i];
		const char *end = row->key.size ? memrchr(row->key.bytes, STAT_PATH_SEPARATOR, row->key.size) : NULL;
		struct slice around = {row->key.bytes, end ? (size_t)(end - row->key.bytes) : 0};

		numbers[i] = add_node(browse, end ? node_of(rows, numbers, i, around) : 0, row->name);
		browse->nodes[numbers[i]].calls = row->calls;
		browse->nodes[numbers[i]].errors = row->errors;
		browse->nodes[numbers[i]].total = row->total_ns;
		browse->nodes[numbers[i]].self = row->self_ns;
	}
	free(rows);
	free(numbers);
	finish(browse);
}

void browse_from_profile(struct browse *browse, const struct profile *profile, enum profile_weight weight)
{
	struct profile_view view = profile_view_make(profile, weight, true);
	struct buffer name = {0}, shown = {0};

	browse->unit = weight == PROFILE_BYTES ? BROWSE_BYTES : weight == PROFILE_OBJECTS ? BROWSE_OBJECTS : BROWSE_NS;
	add_node(browse, 0, (struct slice){"", 0});
	/* A parent has a lower number than its children. */
	for (uint32_t i = 1; i < view.node_count; i++) {
		name.size = shown.size = 0;
		profile_view_name(&view, &view.nodes[i], &name);
		buffer_add_printable(&shown, name.bytes, name.size);
		add_node(browse, view.nodes[i].parent, (struct slice){shown.bytes, shown.size});
		browse->nodes[i].total = (double)view.nodes[i].total;
		browse->nodes[i].self = (double)view.nodes[i].self;
	}
	buffer_free(&name);
	buffer_free(&shown);
	profile_view_free(&view);
	finish(browse);
}

/* --- What keys do */

void browse_set_height(struct browse *browse, size_t height)
{
	browse->height = height;
	keep_in_sight(browse);
}

const struct browse_node *browse_selected(const struct browse *browse)
{
	return browse->row_count ? &browse->nodes[browse->rows[browse->selected]] : NULL;
}

void browse_move(struct browse *browse, long rows)
{
	long to = (long)browse->selected + rows, last = (long)browse->row_count - 1;

	browse->selected = (size_t)(to > last ? (last > 0 ? last : 0) : to < 0 ? 0 : to);
	keep_in_sight(browse);
}

void browse_open(struct browse *browse)
{
	uint32_t node = marked_node(browse);

	browse->nodes[node].open = browse->nodes[node].first_child != 0;
	lay_out(browse, node);
}

void browse_close(struct browse *browse)
{
	uint32_t node = marked_node(browse);

	if (!browse->nodes[node].open && browse->nodes[node].parent)
		node = browse->nodes[node].parent;
	else
		browse->nodes[node].open = false;
	lay_out(browse, node);
}

void browse_toggle(struct browse *browse)
{
	uint32_t node = marked_node(browse);

	browse->nodes[node].open = !browse->nodes[node].open && browse->nodes[node].first_child;
	lay_out(browse, node);
}

void browse_open_below(struct browse *browse, uint32_t levels)
{
	uint32_t top = marked_node(browse), end = node_after(browse, top, false);

	for (uint32_t node = top; node && node != end; node = node_after(browse, node, true))
		if (browse->nodes[node].level - browse->nodes[top].level < levels)
			browse->nodes[node].open = browse->nodes[node].first_child != 0;
	lay_out(browse, top);
}

void browse_open_hottest(struct browse *browse)
{
	uint32_t node = marked_node(browse), top = node;

	while (node && browse->nodes[node].first_child) {
		uint32_t hottest = browse->nodes[node].first_child;

		for (uint32_t child = hottest; child; child = browse->nodes[child].next)
			if (browse->nodes[child].total > browse->nodes[hottest].total)
				hottest = child;
		browse->nodes[node].open = true;
		node = hottest;
	}
	lay_out(browse, top);
}

void browse_close_all(struct browse *browse)
{
	uint32_t node = marked_node(browse);

	for (uint32_t i = 1; i < browse->count; i++)
		browse->nodes[i].open = false;
	while (browse->nodes[node].parent)
		node = browse->nodes[node].parent;
	lay_out(browse, node);
}

void browse_sort_by(struct browse *browse, enum browse_sort sort)
{
	browse->sort = sort;
	sort_all(browse);
}

static bool has_pattern(const struct browse *browse, uint32_t node)
{
	return strcasestr(browse->nodes[node].name.bytes, browse->pattern.bytes) != NULL;
}

static void show_node(struct browse *browse, uint32_t node)
{
	for (uint32_t around = browse->nodes[node].parent; around; around = browse->nodes[around].parent)
		browse->nodes[around].open = true;
	lay_out(browse, node);
}

void browse_find(struct browse *browse, bool backwards, bool from_here)
{
	uint32_t marked = marked_node(browse), found = 0, first = 0, last = 0, before = 0, after = 0;
	bool passed = false;

	if (!browse->pattern.size || !marked)
		return;
	buffer_add_char(&browse->pattern, '\0');
	browse->pattern.size--;
	for (uint32_t node = browse->nodes[0].first_child; node; node = node_after(browse, node, true)) {
		bool matches = has_pattern(browse, node);

		passed = passed || (from_here && node == marked);
		if (matches) {
			first = first ? first : node;
			last = node;
			before = passed || node == marked ? before : node;
			after = passed && !after ? node : after;
		}
		passed = passed || node == marked;
	}
	found = backwards ? (before ? before : last) : after ? after : first;
	browse->said = found ? NULL : "no such method";
	if (found)
		show_node(browse, found);
}
