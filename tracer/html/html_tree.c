/* The tree of calls of a page. See html_parts.h. */

#include "tracer/html/html_parts.h"

#include <stdlib.h>

static uint32_t place_of(const struct html_tree *tree, uint32_t parent, uint32_t name)
{
	uint64_t hash = ((uint64_t)parent << 32 | name) * UINT64_C(0x9E3779B97F4A7C15);
	uint32_t mask = tree->place_count - 1, at = (uint32_t)(hash >> 32) & mask;

	while (tree->places[at]) {
		const struct html_node *node = &tree->nodes[tree->places[at]];

		if (node->parent == parent && node->name == name)
			break;
		at = (at + 1) & mask;
	}
	return at;
}

static void make_places(struct html_tree *tree)
{
	tree->place_count = tree->place_count ? 2 * tree->place_count : 256;
	free(tree->places);
	tree->places = memory_zeroed(tree->place_count * sizeof(*tree->places));
	for (uint32_t i = 1; i < tree->count; i++)
		tree->places[place_of(tree, tree->nodes[i].parent, tree->nodes[i].name)] = i;
}

void html_tree_open(struct html_tree *tree)
{
	tree->room = 256;
	tree->nodes = memory_zeroed(tree->room * sizeof(*tree->nodes));
	tree->count = 1;
	make_places(tree);
}

void html_tree_free(struct html_tree *tree)
{
	free(tree->nodes);
	free(tree->places);
	*tree = (struct html_tree){0};
}

uint32_t html_tree_node(struct html_tree *tree, uint32_t parent, uint32_t name)
{
	uint32_t at = place_of(tree, parent, name), level = tree->nodes[parent].level + 1;

	if (tree->places[at])
		return tree->places[at];
	if (tree->count == HTML_NODES_MAX || level > HTML_LEVELS_MAX)
		return UINT32_MAX;
	if (tree->count == tree->room) {
		tree->room *= 2;
		tree->nodes = memory_resize(tree->nodes, tree->room * sizeof(*tree->nodes));
	}
	tree->nodes[tree->count] = (struct html_node){.parent = parent, .name = name, .level = level};
	tree->places[at] = tree->count++;
	if (2 * tree->count >= tree->place_count)
		make_places(tree);
	return tree->count - 1;
}
